package simulator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Simulator is a simulated cluster with its traffic. It implements the ports of the engine and runs the ticks of the engine. One goroutine
// at a time may use it; the engine's decisions may be read concurrently.
type Simulator struct {
	config      Config
	assumptions Assumptions
	engine      *engine.Engine

	now    time.Duration
	queue  events
	loads  []*load // sorted by key
	byKey  map[scaling.Key]*load
	policy []scaling.Workload

	replicas []*replica // replicas by id; the ids of ended replicas are used again
	spare    []*replica
	waiting  []*replica // replicas without a node, oldest first
	nodes    nodes
	series   series
	ticks    int64
}

// New creates a simulator. It returns an error for an invalid config.
func New(c Config) (*Simulator, error) {
	c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
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
			return nil, fmt.Errorf("simulator: %s: %w", order[i].key(), err)
		}
		w.loads, w.byKey[l.key] = append(w.loads, l), l
		if p := order[i].Policy; p != nil {
			w.policy = append(w.policy, p.Workload)
		}
	}
	if len(c.Groups) > 0 {
		if err := w.openGroups(); err != nil {
			return nil, fmt.Errorf("simulator: %w", err)
		}
		c.Engine.Groups, c.Engine.Nodes = groups{w}, groups{w}
	}
	w.engine = engine.New(w, w, w, c.Engine)
	w.begin()
	return w, nil
}

// begin adds the first events and creates the initial replicas.
func (w *Simulator) begin() {
	if w.config.ReportFrom > 0 {
		w.queue.add(event{at: w.config.ReportFrom, kind: reportBegins}) // before all other events of that time
	}
	w.beginNodes()
	for _, l := range w.loads {
		l.begin()
	}
	w.provision()
	if w.config.Resolution > 0 {
		w.queue.add(event{at: w.config.Resolution, kind: sample})
	}
}

// draws returns the stream of random numbers for a purpose.
func (w *Simulator) draws(purpose string) *reproducible.Draws {
	return reproducible.NewDraws(w.config.Seed, purpose)
}

// Engine returns the engine that decides in the simulation.
func (w *Simulator) Engine() *engine.Engine { return w.engine }

// Now returns the virtual time since the start.
func (w *Simulator) Now() time.Duration { return w.now }

// Time returns the virtual time as a timestamp.
func (w *Simulator) Time() time.Time { return w.config.Start.Add(w.now) }

// NextTick returns the virtual time of the tick that the next Step runs.
func (w *Simulator) NextTick() time.Time { return w.Time().Add(w.config.Tick) }

// Step advances the virtual time by one tick and runs a tick of the engine.
func (w *Simulator) Step(ctx context.Context) engine.Outcome {
	w.pass(w.now + w.config.Tick)
	out := w.engine.Tick(ctx, w.Time())
	w.ticks++
	for _, l := range w.loads {
		l.follow()
	}
	return out
}

// Run steps until the given virtual time, or until ctx ends. observer, which may be nil, is called with the outcome of every
// tick.
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

// pass processes all events up to the given time.
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
	case reportBegins:
		w.beginReport()
	default:
		w.nodes.happen(w, e)
	}
}
