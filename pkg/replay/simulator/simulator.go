package simulator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Simulator is a simulated cluster with its traffic. It stands behind the engine's three ports, and drives the engine's ticks. One
// goroutine at a time; the engine's board may be read by others meanwhile.
type Simulator struct {
	config      Config
	assumptions Assumptions
	engine      *engine.Engine

	now    time.Duration
	queue  events
	loads  []*load // by key
	byKey  map[scaling.Key]*load
	policy []scaling.Workload

	replicas []*replica // by id; those that are gone are used again
	spare    []*replica
	waiting  []*replica // without a node, oldest first
	nodes    nodes
	series   series
	ticks    int64
}

// New makes a world. Errors say what in the config cannot be.
func New(c Config) (*Simulator, error) {
	c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("world: %w", err)
	}
	w := &Simulator{config: c, assumptions: DefaultAssumptions(), byKey: map[scaling.Key]*load{}}
	if c.Assumptions != nil {
		w.assumptions = *c.Assumptions
	}
	order := slices.Clone(c.Workloads)
	slices.SortFunc(order, func(a, b Workload) int {
		x, y := a.key(), b.key()
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	w.openNodes()
	for i := range order {
		l, err := w.newLoad(&order[i])
		if err != nil {
			return nil, fmt.Errorf("world: %s: %w", order[i].key(), err)
		}
		w.loads, w.byKey[l.key] = append(w.loads, l), l
		if p := order[i].Policy; p != nil {
			w.policy = append(w.policy, p.Workload)
		}
	}
	if len(c.Groups) > 0 {
		if err := w.openGroups(); err != nil {
			return nil, fmt.Errorf("world: %w", err)
		}
		c.Engine.Groups, c.Engine.Nodes = groups{w}, groups{w}
	}
	w.engine = engine.New(w, w, w, c.Engine)
	w.begin()
	return w, nil
}

// begin puts the first events in and lets the initial replicas stand.
func (w *Simulator) begin() {
	w.beginNodes()
	for _, l := range w.loads {
		l.begin()
	}
	w.provision()
	if w.config.Resolution > 0 {
		w.queue.add(event{at: w.config.Resolution, kind: sample})
	}
}

// draws is the stream of random numbers of a purpose.
func (w *Simulator) draws(purpose string) *trace.Draws { return trace.NewDraws(w.config.Seed, purpose) }

// Engine is the engine that decides in this world.
func (w *Simulator) Engine() *engine.Engine { return w.engine }

// Now is the virtual time since the start.
func (w *Simulator) Now() time.Duration { return w.now }

// Time is the virtual time as an instant.
func (w *Simulator) Time() time.Time { return w.config.Start.Add(w.now) }

// NextTick is the virtual time of the tick that the next Step makes.
func (w *Simulator) NextTick() time.Time { return w.Time().Add(w.config.Tick) }

// Assumptions is what the world takes for granted.
func (w *Simulator) Assumptions() Assumptions { return w.assumptions }

// Step lets one tick's time pass, and ticks the engine.
func (w *Simulator) Step(ctx context.Context) engine.Outcome {
	w.pass(w.now + w.config.Tick)
	out := w.engine.Tick(ctx, w.Time())
	w.ticks++
	for _, l := range w.loads {
		l.follow()
	}
	return out
}

// Run steps until a virtual time, or until ctx ends. observer is told of every tick's outcome; it may be nil.
func (w *Simulator) Run(ctx context.Context, until time.Duration, observer func(engine.Outcome)) error {
	for w.now < until {
		if err := ctx.Err(); err != nil {
			return err
		}
		out := w.Step(ctx)
		if observer != nil {
			observer(out)
		}
	}
	return nil
}

// pass lets events happen up to an instant.
func (w *Simulator) pass(until time.Duration) {
	for {
		e, ok := w.queue.next(until)
		if !ok {
			w.now = until
			return
		}
		w.now = e.at
		w.happen(&e)
	}
}

func (w *Simulator) happen(e *event) {
	switch e.kind {
	case arrive:
		w.loads[e.a].arrives()
	case finish:
		if r := w.replicas[e.a]; r.gen == e.gen {
			r.finishes(e.b)
		}
	case phase:
		if r := w.replicas[e.a]; r.gen == e.gen {
			r.advance()
		}
	case graceEnd:
		if r := w.replicas[e.a]; r.gen == e.gen && r.state == draining {
			r.end()
		}
	case scrape:
		w.loads[e.a].scrape()
	case poll:
		w.loads[e.a].poll()
	case act:
		w.loads[e.a].act()
	case sample:
		w.series.take(w)
		w.queue.add(event{at: w.now + w.config.Resolution, kind: sample})
	default:
		w.nodes.happen(w, e)
	}
}
