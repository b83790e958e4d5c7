package simulator

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/waits"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// load is the state of a simulated workload: its queue, its replicas and its totals.
type load struct {
	w        *Simulator
	index    int32
	key      scaling.Key
	config   *Workload
	service  Service
	gpus     int32
	template *karpenter.Template
	stream   trace.Stream
	upcoming trace.Request

	queue    ring
	replicas []*replica // all replicas except terminating ones, oldest first
	idlest   buckets
	target   int32 // spec.replicas

	// Number of replicas by state, and number of used slots. touch must be called before each change, because it integrates these numbers over
	// time.
	pending, loading, ready, draining int32
	running, drainRunning             int32 // used slots of ready and of terminating replicas
	busy                              int32 // ready replicas with a request
	cached                            int64 // tokens in the KV caches
	tally
	needed int32        // replicas that the signals needed at the last tick
	idle   ledger.Cause // cause that the ledger records for idle replicas above the number needed

	touched time.Duration   // virtual time up to which the totals of the load are computed
	zeroAt  time.Duration   // time since which the target is zero
	waits   waits.Histogram // waits of the requests that the results cover (see the function counts)
	train   train

	actuator autoscaler.Actuator
	loadTime reproducible.Spread
	random   *reproducible.Draws // random numbers for model loads
	meter    meter
	started  *planner.ReplicaStarts // the newest completed starts, for a policy with an objective; nil: none
}

func (w *Simulator) newLoad(c *Workload) (*load, error) {
	l := &load{
		w: w, index: int32(len(w.loads)), key: c.key(), config: c, service: c.Service, gpus: cmp.Or(c.GPUs, 1),
		target: c.Initial, needed: c.Initial, idle: ledger.Minimum, loadTime: w.assumptions.ModelLoad,
	}
	l.service.Slots = cmp.Or(l.service.Slots, 1)
	l.waits.Limit = cmp.Or(c.SLO, 10*time.Second)
	l.random = w.draws("model load " + l.key.String())
	l.template = c.template(l.index)
	w.nodes.Register(l.template)
	if c.ModelLoad != nil {
		l.loadTime = *c.ModelLoad
	}
	l.idlest = newBuckets(l.service.Slots)
	if c.Traffic != nil {
		l.stream = c.Traffic.Stream()
	}
	factory := c.Actuator
	if factory == nil {
		factory = autoscaler.Follower(c.Policy)
	}
	l.actuator = factory()
	return l, l.openMeter()
}

func (l *load) begin() {
	l.nextArrival()
	for range l.config.Initial {
		l.w.raise(l)
	}
	l.w.queue.Add(events.Event{At: 0, Kind: act, A: l.index})
	l.beginMeter()
}

// raise creates a replica at the start of the run. If a NodePool has capacity for the replica, it is ready at once. Otherwise it waits for
// a node.
func (w *Simulator) raise(l *load) {
	r := w.newReplica(l)
	if w.nodes.Start(&r.pod) {
		l.pending--
		r.open()
	}
}

// nextArrival adds the next request of the trace to the event queue.
func (l *load) nextArrival() {
	if l.stream == nil {
		return
	}
	if next, ok := l.stream.Next(); ok {
		l.upcoming = next
		l.w.queue.Add(events.Event{At: max(next.At.Truncate(time.Microsecond), l.w.queue.Now), Kind: arrive, A: l.index})
	}
}

func (l *load) arrives() {
	in, out := l.service.tokens(l.upcoming)
	l.arrived++
	l.queue.pushBack(request{
		arrived: l.w.queue.Now, queued: l.w.queue.Now, takes: l.service.Takes(l.upcoming), tokens: int32(min(in+out, 1<<30)),
	})
	l.nextArrival()
	l.dispatch()
}

// dispatch starts waiting requests, oldest first, while replicas have free slots.
func (l *load) dispatch() {
	for l.queue.n > 0 {
		r := l.idlest.first()
		if r == nil {
			return
		}
		q := l.queue.popFront()
		waited := q.waited + l.w.queue.Now - q.queued
		switch {
		case !l.counts(&q):
		case q.again:
			l.waits.Move(q.waited, waited)
		default:
			l.waits.Add(waited)
		}
		l.meter.waits(waited)
		q.waited = waited
		r.serve(q)
	}
}

// scale sets spec.replicas.
func (l *load) scale(n int32) {
	n = max(n, 0)
	if n == l.target {
		return
	}
	l.touch()
	if n > l.target {
		l.moves[0]++
	} else {
		l.moves[1]++
	}
	switch {
	case n == 0:
		l.zeroAt = l.w.queue.Now
	case l.target == 0:
		l.zeroTime += l.w.queue.Now - l.zeroAt
	}
	l.target = n
	l.reconcile()
}

// reconcile simulates the Deployment controller: it creates missing replicas and terminates surplus replicas.
func (l *load) reconcile() {
	made := false
	for int32(len(l.replicas)) < l.target {
		l.starts++
		l.w.newReplica(l)
		made = true
	}
	for int32(len(l.replicas)) > l.target {
		l.victim().terminate()
	}
	if made {
		l.w.nodes.Provision()
	}
}

// victim returns the replica that a ReplicaSet terminates first. Its criteria, in this order: a pod without a node, a pod that is not
// ready, a lower deletion cost, more ready replicas of the workload on the same node, and the youngest pod.
func (l *load) victim() *replica {
	return slices.MinFunc(l.replicas, func(a, b *replica) int {
		if c := cmp.Or(cmp.Compare(a.state.rank(), b.state.rank()), cmp.Compare(a.cost, b.cost)); c != 0 {
			return c
		}
		if a.state == ready {
			if c := cmp.Compare(b.neighbours(), a.neighbours()); c != 0 {
				return c
			}
			if c := cmp.Compare(b.readyAt, a.readyAt); c != 0 {
				return c
			}
		}
		return cmp.Compare(b.serial, a.serial)
	})
}

// requeue puts the requests of a lost replica back at the head of the queue, oldest first.
func (l *load) requeue(cut []request) {
	slices.SortFunc(cut, func(a, b request) int { return cmp.Compare(b.arrived, a.arrived) })
	for _, q := range cut {
		q.queued, q.again = l.w.queue.Now, true
		l.queue.pushFront(q)
		if l.counts(&q) {
			l.requeued++
		}
	}
}

// follow reads two values from the decision of the last tick: how many replicas the signals need, and the cause that the ledger records for
// idle replicas above that number.
func (l *load) follow() {
	if l.config.Policy == nil {
		return
	}
	if d, ok := l.w.engine.Decisions().Decision(l.key); ok {
		l.setCause(needed(&d), idleCause(&d))
	}
}

// setCause sets how many replicas the signals need, and the cause that the ledger records for idle replicas above that number.
func (l *load) setCause(needed int32, idle ledger.Cause) {
	if needed != l.needed || idle != l.idle {
		l.touch()
		l.needed, l.idle = needed, idle
	}
}

// needed returns how many replicas the signals need, or 0 if inputs are missing.
func needed(d *scaling.Decision) int32 {
	if d.Degraded {
		return 0
	}
	if d.Requested >= 0 {
		return d.Requested
	}
	return d.Replicas
}

func idleCause(d *scaling.Decision) ledger.Cause {
	if d.Degraded {
		return ledger.Held
	}
	switch d.Binding {
	case scaling.RuleForecast, scaling.RuleScheduleFloor, scaling.RuleAtRisk, scaling.RuleSurge:
		return ledger.ScheduleFloor
	case scaling.RuleMissing, scaling.RuleFallback, scaling.RuleGrowingDemand, scaling.RuleOverride, scaling.RulePaused, scaling.RuleLoading:
		return ledger.Held
	case scaling.RuleBounds:
		return ledger.Minimum
	}
	return ledger.Cooldown
}
