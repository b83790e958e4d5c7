package simulator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Kinds of the events that the method happen processes. Events of other kinds belong to the nodes.
const (
	arrive       events.Kind = iota // the next request of a load arrives
	finish                          // a request of a replica finishes
	phase                           // a phase of a replica's cold start ends
	graceEnd                        // the grace period of a terminating replica ends
	scrape                          // a load's metrics are sampled
	poll                            // the newest sample becomes a reading
	act                             // an actuator runs
	sample                          // a point is added to the series
	reportBegins                    // the report part begins
)

// Simulator is a simulated cluster with its traffic. It implements the ports of the engine and runs the ticks of the engine. One goroutine
// at a time may use it; the engine's decisions may be read concurrently.
type Simulator struct {
	config      Config
	assumptions Assumptions
	engine      *engine.Engine

	queue  events.Queue // queue of events, which also contains the virtual time
	loads  []*load      // sorted by key
	byKey  map[scaling.Key]*load
	policy []scaling.Workload

	replicas []*replica // replicas by id; the ids of ended replicas are used again
	spare    []*replica
	serial   int64 // counter of created replicas
	nodes    *karpenter.Cluster
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
	w.nodes = karpenter.New(karpenter.Config{NodePools: c.NodePools, Fleet: c.Fleet, Images: len(order), Start: c.Start,
		Assumptions: w.assumptions.ofNodes(), Draws: w.draws}, &w.queue)
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
		// This event is added first, so that it precedes all other events of the same time.
		w.queue.Add(events.Event{At: w.config.ReportFrom, Kind: reportBegins})
	}
	w.nodes.Begin()
	for _, l := range w.loads {
		l.begin()
	}
	w.nodes.Provision()
	if w.config.Resolution > 0 {
		w.queue.Add(events.Event{At: w.config.Resolution, Kind: sample})
	}
}

// draws returns the random numbers for a purpose. Each purpose has its own stream.
func (w *Simulator) draws(purpose string) *reproducible.Draws {
	return reproducible.NewDraws(w.config.Seed, purpose)
}

// Engine returns the engine that decides in the simulation.
func (w *Simulator) Engine() *engine.Engine { return w.engine }

// Now returns the virtual time since the start.
func (w *Simulator) Now() time.Duration { return w.queue.Now }

// Time returns the virtual time as a timestamp.
func (w *Simulator) Time() time.Time { return w.config.Start.Add(w.queue.Now) }

// NextTick returns the virtual time of the tick that the next Step runs.
func (w *Simulator) NextTick() time.Time { return w.Time().Add(w.config.Tick) }

// Step advances the virtual time by one tick and runs a tick of the engine.
func (w *Simulator) Step(ctx context.Context) engine.Outcome {
	w.pass(w.queue.Now + w.config.Tick)
	out := w.engine.Tick(ctx, w.Time())
	w.ticks++
	for _, l := range w.loads {
		l.follow()
	}
	return out
}

// Run calls Step until the given virtual time, or until ctx ends. The function observer is called with the outcome of every tick. It may be
// nil.
func (w *Simulator) Run(ctx context.Context, until time.Duration, observer func(engine.Outcome)) error {
	for w.queue.Now < until {
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
		e, ok := w.queue.Next(until)
		if !ok {
			return
		}
		w.happen(&e)
	}
}

func (w *Simulator) happen(e *events.Event) {
	switch e.Kind {
	case arrive:
		w.loads[e.A].arrives()
	case finish:
		if r := w.replicas[e.A]; r.gen == e.Gen {
			r.finishes(e.B)
		}
	case phase:
		if r := w.replicas[e.A]; r.gen == e.Gen {
			r.advance()
		}
	case graceEnd:
		if r := w.replicas[e.A]; r.gen == e.Gen && r.state == draining {
			r.end()
		}
	case scrape:
		w.loads[e.A].scrape()
	case poll:
		w.loads[e.A].poll(e.B)
	case act:
		w.loads[e.A].act()
	case sample:
		w.series.take(w)
		w.queue.Add(events.Event{At: w.queue.Now + w.config.Resolution, Kind: sample})
	case reportBegins:
		w.beginReport()
	default:
		w.nodes.Handle(e)
	}
}
