package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Options configure the engine. The zero value is valid.
type Options struct {
	// MaxAge is the greatest age of a decision that is served; 0 means DefaultMaxAge.
	MaxAge time.Duration
	// ApplyTimeout limits how long one tick waits for the cluster to apply its changes; 0 means one second.
	ApplyTimeout time.Duration
	// OnTransition is called in each tick in which the decision of a workload changes, with a record of the new decision.
	OnTransition func(Record)
	// Groups and Nodes enable decisions for capacity groups. If one of them is nil, the engine reads no nodes.
	Groups Groups
	Nodes  Nodes
	// OnGroup is called in each tick in which the decision of a capacity group changes. The record is a copy.
	OnGroup func(GroupRecord)
	// Memory returns the models that the previous leader saved for policies with an objective. If it is nil, every model starts empty.
	Memory Memory
	// OnGroupTick is called in each tick for each capacity group, with its decision and the inputs of the decision.
	OnGroupTick func(GroupTick)
}

// DefaultMaxAge is four HPA sync periods. While the engine stalls for a shorter time, HPAs continue to read the last target. If it stalls
// longer, HPAs read no target and keep their replicas.
const DefaultMaxAge = 60 * time.Second

// maxKeptChanges is the maximum capacity of a list of changes whose memory is reused in the next tick. A longer list would keep much
// memory. One example is the list of the first tick, in which the decision of every policy changes.
const maxKeptChanges = 256

// Engine makes the decisions of all workloads in each Tick. Only one tick may run at a time. Its DecisionStore can be read at any time.
type Engine struct {
	policies  Policies
	telemetry Telemetry
	cluster   Cluster
	options   Options
	decisions *DecisionStore

	workloads  []scaling.Workload // the current policies, in the same order as entries
	entries    []*workloadEntry
	changes    []Change
	evaluation evaluation // evaluation that is reused for each workload that has neither a capacity group nor a team
	scratch    scaling.State
	nodes      *nodeTicks // nil: no capacity groups
	teams      teamTicks
}

// Change is a workload whose decision changed. Before is the target of the previous decision. If First is true, this is the engine's first
// decision for the workload, and Before is the observed number of replicas.
type Change struct {
	Workload *scaling.Workload
	View     View
	Before   int32
	After    scaling.Decision
	First    bool
}

// Outcome is the result of one tick. Changes is valid only until the next tick, which reuses its memory.
type Outcome struct {
	At      time.Time
	Changes []Change
	Decided int // workloads for which this tick made a decision
	Unseen  int // workloads whose scale target was not found in the cluster
	// Errors has one entry for each workload, team or capacity group that failed, and for changes that were not applied. The entry of a
	// recovered panic wraps a *PanicError. After a failure, the tick continues with the next workload, team or group.
	Errors []error
}

// New returns an engine that reads policies from p, readings from t and the scale targets from c, and applies changes with c.
func New(p Policies, t Telemetry, c Cluster, o Options) *Engine {
	if o.MaxAge <= 0 {
		o.MaxAge = DefaultMaxAge
	}
	if o.ApplyTimeout <= 0 {
		o.ApplyTimeout = time.Second
	}
	e := &Engine{policies: p, telemetry: t, cluster: c, options: o, decisions: newDecisionStore(o.MaxAge, c)}
	e.teams.engine = e
	if o.Groups != nil && o.Nodes != nil {
		e.nodes = newNodeTicks(e)
	}
	return e
}

// Decisions returns the store of the newest decisions.
func (e *Engine) Decisions() *DecisionStore { return e.decisions }

// Tick reads the inputs of every workload once, decides its target, publishes the target and applies the changes. If the decision for a
// workload fails, its last decision is served for at most MaxAge. Other workloads are not affected.
func (e *Engine) Tick(ctx context.Context, now time.Time) Outcome {
	e.adopt(e.policies.Current())
	if e.nodes != nil {
		e.nodes.adopt()
	}
	e.teams.adopt()
	if e.changes = e.changes[:0]; cap(e.changes) > maxKeptChanges {
		e.changes = nil
	}
	out := Outcome{At: now}
	for i, s := range e.entries {
		if !s.grouped && s.member == nil {
			out.count(e.decide(s, &e.workloads[i], now))
		}
	}
	e.teams.tick(now, &out)
	if e.nodes != nil {
		e.nodes.tick(ctx, now, &out)
	}
	out.Changes = e.changes
	e.decisions.tick(now)
	if len(e.changes) > 0 {
		ctx, cancel := context.WithTimeout(ctx, e.options.ApplyTimeout)
		defer cancel()
		if err := e.cluster.Apply(ctx, e.changes); err != nil {
			out.fail(fmt.Errorf("apply: %w", err))
		}
	}
	return out
}

// fail adds err to the errors of the tick. It ignores nil.
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

// PanicError is a panic that was recovered in a tick. It affects one workload, team or capacity group; the tick continues with the next
// one.
type PanicError struct {
	Value any
	Stack []byte // stack of the goroutine at the panic
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// panicError returns the error for a recovered value. It stores the stack of the panic, so only a deferred function may call it.
func panicError(value any) *PanicError { return &PanicError{Value: value, Stack: debug.Stack()} }

// Reset removes every decision but keeps the history. It is called when another process becomes the leader, because this process must not
// serve old targets while the new leader serves newer ones. After Reset, the next Tick starts from the observed replicas.
func (e *Engine) Reset() {
	e.workloads, e.entries, e.teams = nil, nil, teamTicks{engine: e}
	if e.nodes != nil {
		e.nodes = newNodeTicks(e)
	}
	e.decisions.clear()
}

// adopt updates the entries to match the current policies. A slice of policies is never modified in place. Therefore, if current is the
// same slice in memory as in the previous tick, no policy has changed and adopt returns without work.
func (e *Engine) adopt(current []scaling.Workload) {
	if len(current) == len(e.workloads) && (len(current) == 0 || &current[0] == &e.workloads[0]) {
		return
	}
	e.workloads = current
	e.entries = e.decisions.adopt(current, e.entries[:0])
}

// decide makes the decision of one workload and publishes it.
func (e *Engine) decide(s *workloadEntry, w *scaling.Workload, now time.Time) (decided bool, err error) {
	if decided, err = e.evaluate(s, w, now, &e.evaluation); decided {
		err = e.publish(s, w, &e.evaluation, now)
	}
	return decided, err
}

// evaluate reads the inputs of one workload and decides its target. If the decision panics, evaluate returns an error that names the
// workload.
func (e *Engine) evaluate(s *workloadEntry, w *scaling.Workload, now time.Time, t *evaluation) (decided bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			decided, err = false, fmt.Errorf("%s: decide: %w", w.Key, panicError(r))
		}
	}()
	t.decided = false
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
	t.restored = e.recall(s, w)
	s.evaluate(w, now, t, &e.scratch)
	return true, nil
}

// publish stores a decision and, if the decision changed, announces the change. If this panics, publish returns an error that names the
// workload.
func (e *Engine) publish(s *workloadEntry, w *scaling.Workload, t *evaluation, now time.Time) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: publish: %w", w.Key, panicError(r))
		}
	}()
	if record, first, isChange := s.publish(w, t, now); isChange {
		e.announce(s, w, record, first)
	}
	return nil
}

// observe returns the inputs of scaling.Decide for one workload: its observed state v and the readings of its signals.
func observe(v View, readings []scaling.Reading) scaling.Observation {
	o := scaling.Observation{
		Replicas: v.Replicas, Ready: v.Ready, Loading: v.Loading, Pending: v.Pending,
		Readings: readings, Advice: v.Advice.forScaling(), Operator: v.Operator, Limit: v.Limit, Version: v.Version, Started: v.Started,
	}
	o.Advice.Rejected = v.Rejected > 0
	// The maxReplicas of an HPA limits the target only if the HPA reads gpuscaler's metric. If an HPA reads another metric, the user is
	// migrating to gpuscaler and will replace that HPA.
	if v.ManagedHPA.Kind != "" {
		o.HPAMaxReplicas = max(v.MaxReplicas, 0)
	}
	return o
}

// announce adds a change to the outcome of the tick and to the history, and calls OnTransition.
func (e *Engine) announce(s *workloadEntry, w *scaling.Workload, r Record, first bool) {
	if n := len(e.changes); n == cap(e.changes) {
		e.changes = slices.Grow(e.changes, max(1, min(n, len(e.entries)-n))) // append would copy large lists more often
	}
	e.changes = append(e.changes, Change{Workload: w, View: r.View, Before: r.Before, After: r.Decision, First: first})
	e.decisions.history.add(&r, s.workload)
	if e.options.OnTransition != nil {
		e.options.OnTransition(r)
	}
}
