package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Options tune the loop. The zero value is ready to use.
type Options struct {
	// MaxAge is how old a decision may be and still be served; 0 means DefaultMaxAge.
	MaxAge time.Duration
	// ApplyTimeout bounds how long one tick waits for the cluster to carry out its changes; 0 means one second.
	ApplyTimeout time.Duration
	// OnTransition is told of each change of a workload's outcome, in the tick that made it.
	OnTransition func(Record)
	// Groups and Nodes have capacity decided as well; without either no node is looked at.
	Groups Groups
	Nodes  Nodes
	// OnGroup is told of each change of a group's outcome. The record is its own copy.
	OnGroup func(GroupRecord)
	// OnGroupTick is told of every decision for nodes: what was seen, and what was made of it.
	OnGroupTick func(GroupTick)
}

// DefaultMaxAge is four HPA syncs: an engine that stalled for less is not noticed by any HPA, one that stalled for longer
// makes each of them hold.
const DefaultMaxAge = 60 * time.Second

// keptChanges is for how many changes memory is kept from tick to tick: the first tick of 10,000 policies has as many.
const keptChanges = 256

// Engine ticks. It is not safe for concurrent ticks; its DecisionStore is safe for concurrent readers.
type Engine struct {
	policies  Policies
	telemetry Telemetry
	cluster   Cluster
	options   Options
	board     *DecisionStore

	seen    []scaling.Workload // the slice that slots stand parallel to
	slots   []*slot
	changes []Change
	thought thought // of the workload that is being decided
	awake   scaling.State
	nodes   *nodeTicks // nil: no node is looked at
	teams   teamTicks
}

// Change is one workload whose outcome tells something new. First is true for the first decision that this engine makes for the
// workload, whatever its number; Before is then the replicas that it found.
type Change struct {
	Workload *scaling.Workload
	View     View
	Before   int32
	After    scaling.Decision
	First    bool
}

// Outcome is what one tick did. Changes is valid until the next tick.
type Outcome struct {
	At      time.Time
	Changes []Change
	Decided int // workloads with a decision of this tick
	Unseen  int // workloads whose target the cluster does not show
	// Errors has one entry for each workload, team or capacity group that failed, and for changes that were not applied. The entry of a
	// recovered panic wraps a *PanicError. No failure stops the rest of the tick.
	Errors []error
}

// New returns an engine over the three ports.
func New(p Policies, t Telemetry, c Cluster, o Options) *Engine {
	if o.MaxAge <= 0 {
		o.MaxAge = DefaultMaxAge
	}
	if o.ApplyTimeout <= 0 {
		o.ApplyTimeout = time.Second
	}
	e := &Engine{policies: p, telemetry: t, cluster: c, options: o, board: newDecisionStore(o.MaxAge, c)}
	e.teams.engine = e
	if o.Groups != nil && o.Nodes != nil {
		e.nodes = newNodeTicks(e)
	}
	return e
}

// DecisionStore is the read side of the engine.
func (e *Engine) Decisions() *DecisionStore { return e.board }

// Tick reads, decides, publishes and applies, once, for every workload. A workload that fails keeps its last decision, which
// grows old and stops being served; the rest go on.
func (e *Engine) Tick(ctx context.Context, now time.Time) Outcome {
	e.adopt(e.policies.Current())
	if e.nodes != nil {
		e.nodes.adopt()
	}
	e.teams.adopt()
	if e.changes = e.changes[:0]; cap(e.changes) > keptChanges {
		e.changes = nil
	}
	out := Outcome{At: now}
	for i, s := range e.slots {
		if !s.grouped && s.member == nil {
			out.count(e.decide(s, &e.seen[i], now))
		}
	}
	e.teams.tick(now, &out)
	if e.nodes != nil {
		e.nodes.tick(ctx, now, &out)
	}
	out.Changes = e.changes
	e.board.tick(now)
	if len(e.changes) > 0 {
		ctx, cancel := context.WithTimeout(ctx, e.options.ApplyTimeout)
		defer cancel()
		if err := e.cluster.Apply(ctx, e.changes); err != nil {
			out.fail(fmt.Errorf("apply: %w", err))
		}
	}
	return out
}

// fail records a failure; nil records none.
func (o *Outcome) fail(err error) {
	if err != nil {
		o.Errors = append(o.Errors, err)
	}
}

func (o *Outcome) count(decided bool, err error) {
	switch {
	case err != nil:
		o.fail(err)
	case decided:
		o.Decided++
	default:
		o.Unseen++
	}
}

// Reset forgets every decision: another leader decides now, and a number of ours must not be served beside its. The history
// stays. The next Tick starts anew from the replicas that it finds.
func (e *Engine) Reset() {
	e.seen, e.slots, e.teams = nil, nil, teamTicks{engine: e}
	if e.nodes != nil {
		e.nodes = newNodeTicks(e)
	}
	e.board.clear()
}

// adopt keeps slots parallel to the policies in force. Policies are shared and immutable, so a quiet tick compares one pointer.
func (e *Engine) adopt(current []scaling.Workload) {
	if len(current) == len(e.seen) && (len(current) == 0 || &current[0] == &e.seen[0]) {
		return
	}
	e.seen = current
	e.slots = e.board.adopt(current, e.slots[:0])
}

// decide runs the brain for one workload and publishes what it made.
func (e *Engine) decide(s *slot, w *scaling.Workload, now time.Time) (decided bool, err error) {
	if decided, err = e.think(s, w, now, &e.thought); decided {
		err = e.publish(s, w, &e.thought, now)
	}
	return decided, err
}

// think reads and decides for one workload; a panic in it is that workload's alone.
func (e *Engine) think(s *slot, w *scaling.Workload, now time.Time, t *thought) (decided bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			decided, err = false, fmt.Errorf("%s: decide: %w", w.Key, panicError(r))
		}
	}()
	t.made = false
	view, ok := e.cluster.View(w)
	if !ok {
		refusal := ""
		if r, is := e.cluster.(Refusals); is {
			refusal = r.Refusal(w)
		}
		s.miss(w, refusal)
		return false, nil
	}
	t.view, t.view.Advice = view, s.advice
	if n := len(w.Policy.Signals); cap(t.readings) < n {
		t.readings = make([]scaling.Reading, n)
	}
	t.readings = t.readings[:len(w.Policy.Signals)]
	e.telemetry.Read(w, t.readings)
	s.think(w, now, t, &e.awake)
	return true, nil
}

// publish puts a decision on the board and tells of it where it is news; a panic in that is this workload's alone, too.
func (e *Engine) publish(s *slot, w *scaling.Workload, t *thought, now time.Time) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: publish: %w", w.Key, panicError(r))
		}
	}()
	if record, first, isNews := s.publish(w, t, now); isNews {
		e.announce(s, w, record, first)
	}
	return nil
}

// observe is all that the brain sees of a workload in one tick.
func observe(v View, readings []scaling.Reading) scaling.Observation {
	o := scaling.Observation{
		Replicas: v.Replicas, Ready: v.Ready, Loading: v.Loading, Pending: v.Pending,
		Readings: readings, Advice: v.Advice.forScaling(), Operator: v.Operator, Limit: v.Limit,
	}
	// The bounds of an HPA that reads something else are not the follower's: it is about to be replaced by one that reads us.
	if v.ManagedHPA.Kind != "" {
		o.HPAMaxReplicas = max(v.MaxReplicas, 0)
	}
	return o
}

// announce tells the cluster, the history and whoever listens.
func (e *Engine) announce(s *slot, w *scaling.Workload, r Record, first bool) {
	e.changes = append(e.changes, Change{Workload: w, View: r.View, Before: r.Before, After: r.Decision, First: first})
	e.board.history.add(&r, s.workload)
	if e.options.OnTransition != nil {
		e.options.OnTransition(r)
	}
}
