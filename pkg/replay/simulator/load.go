package simulator

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// load is a workload as the world runs it.
type load struct {
	w        *Simulator
	index    int32
	key      scaling.Key
	config   *Workload
	service  Service
	gpus     int32
	stream   trace.Stream
	upcoming trace.Request

	queue    ring
	replicas []*replica // all but those that end, oldest first
	idlest   buckets
	target   int32 // spec.replicas

	// Replicas by state, and the slots in use; touch before each change.
	pending, loading, ready, draining int32
	running, drainRunning             int32 // slots in use, of ready replicas and of those that end
	busy                              int32 // ready replicas with a request
	cached                            int64 // tokens in the KV caches
	account
	asked int32 // what the signals ask for, at the last tick
	idle  Cause // why there are more than that

	waits    Waits
	arrived  int64
	served   int64
	requeued int64
	starts   int64         // replicas that were created after the start
	lost     int64         // replicas that ended because their node did
	moves    [2]int64      // scale events: up, down
	zeroAt   time.Duration // since when nothing is wanted
	zeroTime time.Duration

	actuator Actuator
	loadTime Spread
	random   *trace.Draws // model loads
	boots    boots        // of nodes that are its replicas' own
	meter    meter
}

func (w *Simulator) newLoad(c *Workload) (*load, error) {
	l := &load{
		w: w, index: int32(len(w.loads)), key: c.key(), config: c, service: c.Service, gpus: cmp.Or(c.GPUs, 1),
		target: c.Initial, asked: c.Initial, idle: Minimum, loadTime: w.assumptions.ModelLoad,
	}
	l.service.Slots = cmp.Or(l.service.Slots, 1)
	l.waits.Limit = cmp.Or(c.SLO, 10*time.Second)
	l.random = w.draws("model load " + l.key.String())
	l.boots = w.newBoots("of " + l.key.String())
	if c.ModelLoad != nil {
		l.loadTime = *c.ModelLoad
	}
	l.idlest = newBuckets(l.service.Slots)
	if c.Traffic != nil {
		l.stream = c.Traffic.Stream()
	}
	factory := c.Actuator
	if factory == nil {
		factory = follower(c)
	}
	l.actuator = factory()
	return l, l.openMeter()
}

func (l *load) begin() {
	l.nextArrival()
	for range l.config.Initial {
		l.w.raise(l)
	}
	l.w.queue.add(event{at: 0, kind: act, a: l.index})
	l.beginMeter()
}

// nextArrival puts the next request of the trace into the queue of events.
func (l *load) nextArrival() {
	if l.stream == nil {
		return
	}
	if next, ok := l.stream.Next(); ok {
		l.upcoming = next
		l.w.queue.add(event{at: max(next.At.Truncate(time.Microsecond), l.w.now), kind: arrive, a: l.index})
	}
}

func (l *load) arrives() {
	in, out := l.service.tokens(l.upcoming)
	l.arrived++
	l.queue.pushBack(request{
		arrived: l.w.now, queued: l.w.now, takes: l.service.Takes(l.upcoming), tokens: int32(min(in+out, 1<<30)),
	})
	l.nextArrival()
	l.dispatch()
}

// dispatch starts requests while there are slots, oldest first.
func (l *load) dispatch() {
	for l.queue.n > 0 {
		r := l.idlest.first()
		if r == nil {
			return
		}
		q := l.queue.popFront()
		waited := q.waited + l.w.now - q.queued
		if q.again {
			l.waits.move(q.waited, waited)
		} else {
			l.waits.add(waited)
		}
		l.meter.waits(waited)
		q.waited = waited
		r.serve(q)
	}
}

// scale is a write of spec.replicas.
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
		l.zeroAt = l.w.now
	case l.target == 0:
		l.zeroTime += l.w.now - l.zeroAt
	}
	l.target = n
	l.reconcile()
}

// reconcile is the Deployment's controller: it makes what is missing and ends what is too much.
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
		l.w.provision()
	}
}

// victim is the replica that a ReplicaSet ends first: without a node before with one, not ready before ready, those of the lowest
// deletion cost, many on a node before few, and else the youngest.
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
		return cmp.Compare(b.born, a.born)
	})
}

// requeue puts requests that lost their replica back at the head, oldest first.
func (l *load) requeue(cut []request) {
	slices.SortFunc(cut, func(a, b request) int { return cmp.Compare(b.arrived, a.arrived) })
	for _, q := range cut {
		q.queued, q.again = l.w.now, true
		l.queue.pushFront(q)
	}
	l.requeued += int64(len(cut))
}

// follow looks at what the last tick decided, for the ledger.
func (l *load) follow() {
	if l.config.Policy == nil {
		return
	}
	if d, ok := l.w.engine.Board().Decision(l.key); ok {
		l.blame(asked(&d), idleCause(&d))
	}
}

// blame says what is asked for and why there is more.
func (l *load) blame(asked int32, idle Cause) {
	if asked != l.asked || idle != l.idle {
		l.touch()
		l.asked, l.idle = asked, idle
	}
}

// asked is what the signals alone wanted; nothing that is known where inputs are missing.
func asked(d *scaling.Decision) int32 {
	if d.Degraded {
		return 0
	}
	for _, r := range d.Reasons.All() {
		if r.Rule == scaling.RuleCombine {
			return r.To
		}
	}
	return d.Replicas
}

func idleCause(d *scaling.Decision) Cause {
	if d.Degraded {
		return Held
	}
	switch d.Binding {
	case scaling.RuleForecast, scaling.RuleScheduleFloor, scaling.RuleAtRisk, scaling.RuleSurge:
		return ScheduleFloor
	case scaling.RuleMissing, scaling.RuleFallback, scaling.RuleVeto, scaling.RuleOverride, scaling.RulePaused, scaling.RuleLoading:
		return Held
	case scaling.RuleBounds:
		return Minimum
	}
	return Cooldown
}
