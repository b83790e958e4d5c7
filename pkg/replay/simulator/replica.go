package simulator

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// state is the lifecycle state of a replica.
type state uint8

const (
	pending state = iota // the replica has no node, or its node is starting
	pulling
	starting // it loads its model
	ready
	draining
	gone
)

// rank returns the position of the state in the order in which a ReplicaSet terminates replicas; 0 is first.
func (s state) rank() int {
	switch s {
	case pending:
		return 0 // also if the node of the replica is starting: Karpenter nominated the node, but the pod is not bound
	case pulling:
		return 1
	case starting:
		return 2
	}
	return 3
}

type replica struct {
	id      int32
	gen     uint32 // generation of the replica; an event with another generation is obsolete and ignored
	state   state
	load    *load
	pod     karpenter.Pod
	serial  int64
	made    time.Duration
	placed  time.Duration // time at which the replica was assigned to a node
	loads   time.Duration // time at which the replica began to load its model
	readyAt time.Duration

	cost int // value of the annotation pod-deletion-cost

	running    int32
	slots      []request
	free       []int32
	prev, next *replica // neighbors in a list of the load's buckets
}

func (w *Simulator) newReplica(l *load) *replica {
	var r *replica
	if n := len(w.spare); n > 0 {
		r, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		r = &replica{id: int32(len(w.replicas))}
		w.replicas = append(w.replicas, r)
	}
	w.serial++
	slots := l.service.Slots
	*r = replica{id: r.id, gen: r.gen + 1, load: l, serial: w.serial, made: w.queue.Now,
		slots: slices.Grow(r.slots[:0], slots)[:slots], free: r.free[:0]}
	clear(r.slots)
	for i := range slots {
		r.free = append(r.free, int32(slots-1-i))
	}
	l.touch()
	l.pending++
	l.replicas = append(l.replicas, r)
	w.nodes.Create(&r.pod, l.template, r)
	return r
}

func (r *replica) after(d time.Duration, k events.Kind) {
	w := r.load.w
	w.queue.Add(events.Event{At: w.queue.Now + d, Kind: k, A: r.id, Gen: r.gen})
}

// Start implements karpenter.Replica. It begins the image pull on a usable node. The model load follows.
func (r *replica) Start(pull time.Duration) {
	l := r.load
	l.touch()
	l.pending--
	l.loading++
	r.state, r.placed = pulling, l.w.queue.Now
	r.after(pull, phase)
}

// advance ends the current phase of the cold start and begins the next one.
func (r *replica) advance() {
	switch r.state {
	case pulling:
		r.state, r.loads = starting, r.load.w.queue.Now
		r.after(r.load.loadTime.Draw(r.load.random), phase)
	case starting:
		r.load.touch()
		r.load.loading--
		r.open()
		r.report()
	}
}

// open makes the replica ready.
func (r *replica) open() {
	l := r.load
	l.ready++
	r.state, r.readyAt = ready, l.w.queue.Now
	l.idlest.add(r)
	l.dispatch()
}

// report adds the start of the replica to the completed starts of its workload, if the policy learns from these starts. The engine keeps
// pointers to the values, so report passes a copy of each value.
func (r *replica) report() {
	l := r.load
	if p := l.config.Policy; p == nil || p.Workload.Policy.Objective == nil {
		return
	}
	at := func(t time.Duration) int64 {
		if t == 0 {
			return 0
		}
		return history.Stamp(l.w.config.Start.Add(t))
	}
	registered, allocatable := r.pod.Node().Started()
	next := planner.ReplicaStarts{}
	if l.started != nil {
		next = *l.started
	}
	next.Add(planner.ReplicaStart{Created: at(max(r.made, 1)), Registered: at(registered), Allocatable: at(allocatable),
		Scheduled: at(r.placed), Running: at(r.loads), Ready: at(r.readyAt)})
	l.started = &next
}

// serve starts a request in a free slot.
func (r *replica) serve(q request) {
	l := r.load
	l.touch()
	l.idlest.remove(r)
	if r.running == 0 {
		l.busy++
	}
	r.running++
	l.running++
	l.cached += int64(q.tokens)
	l.idlest.add(r)
	slot := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	r.slots[slot] = q
	l.w.queue.Add(events.Event{At: l.w.queue.Now + q.takes, Kind: finish, A: r.id, B: slot, Gen: r.gen})
}

func (r *replica) finishes(slot int32) {
	l := r.load
	l.touch()
	if l.counts(&r.slots[slot]) {
		l.served++
	} else {
		l.train.left--
	}
	l.cached -= int64(r.slots[slot].tokens)
	r.slots[slot].takes = 0
	r.free = append(r.free, slot)
	if r.state == draining {
		r.running--
		l.drainRunning--
		if r.running == 0 {
			r.end()
		}
		return
	}
	l.idlest.remove(r)
	r.running--
	l.running--
	if r.running == 0 {
		l.busy--
	}
	l.idlest.add(r)
	l.dispatch()
}

// terminate deletes the pod. A replica with requests finishes them within its grace period.
func (r *replica) terminate() {
	l := r.load
	l.touch()
	l.replicas = slices.Delete(l.replicas, slices.Index(l.replicas, r), slices.Index(l.replicas, r)+1)
	switch r.state {
	case pending:
		l.pending--
		r.leave()
	case pulling, starting:
		l.loading--
		r.leave()
	case ready:
		l.ready--
		l.idlest.remove(r)
		if r.running > 0 {
			l.busy--
		}
		l.running -= r.running
		l.drainRunning += r.running
		l.draining++
		r.state = draining
		r.pod.Terminating()
		if r.running == 0 {
			r.end()
		} else {
			r.after(l.w.assumptions.TerminationGrace, graceEnd)
		}
	}
}

// Evict implements karpenter.Replica. The workload creates another replica.
func (r *replica) Evict() {
	r.load.lost++
	r.terminate()
	r.load.reconcile()
}

// Kill implements karpenter.Replica. The replica already drains, because its node received an interruption notice before.
func (r *replica) Kill() { r.end() }

// replicaOf returns the replica of a pod of the simulation.
func replicaOf(pod *karpenter.Pod) *replica { return pod.Replica().(*replica) }

// end removes a replica whose requests have finished or that was stopped. Its unfinished requests return to the queue.
func (r *replica) end() {
	l := r.load
	l.touch()
	l.draining--
	l.drainRunning -= r.running
	if r.running > 0 {
		var cut []request
		for _, q := range r.slots {
			if q.takes > 0 {
				l.cached -= int64(q.tokens)
				cut = append(cut, q)
			}
		}
		l.requeue(cut)
	}
	r.leave()
	l.dispatch()
}

// leave removes the pod of the replica from its node.
func (r *replica) leave() {
	w := r.load.w
	for i := range r.slots {
		r.slots[i].takes = 0
	}
	r.state, r.gen, r.running = gone, r.gen+1, 0
	w.spare = append(w.spare, r)
	w.nodes.Delete(&r.pod)
}

// neighbours returns the number of ready replicas of the same workload on the node.
func (r *replica) neighbours() (n int) {
	for _, pod := range r.pod.Node().Pods() {
		if o := replicaOf(pod); o.load == r.load && o.state == ready {
			n++
		}
	}
	return n
}

// cachedTokens returns the tokens of the replica's requests in its KV cache.
func (r *replica) cachedTokens() (n int64) {
	for i := range r.slots {
		if r.slots[i].takes > 0 {
			n += int64(r.slots[i].tokens)
		}
	}
	return n
}
