package decisions

import "math"

// oracleSettings are the settings of the oracle. They are tuned on other traffic that is drawn from the same law (random distribution).
type oracleSettings struct {
	// number of standard deviations that the oracle adds to the expected work of every span of time
	deviations float64
	floor      int32 // the oracle always keeps this number of replicas
	hold       int   // number of slots for which the replicas of a burst are kept
	// The oracle removes a replica only if it does not need it within one cold start plus this number of slots.
	idle  int
	drain int // number of slots in which the oracle serves work that already waits longer than allowed
}

// oracle is a policy that knows the law (random distribution) of the traffic and the present state: the part of the rate that is known in
// advance, for every time; the current rate of this run; the capacity of a replica; the backlog; and the starting replicas. It does not
// know future bursts and arrivals. It assumes that a burst continues with its current rate.
type oracle struct {
	oracleSettings
	r    *run
	s    setup
	held slidingMax
	// for each slot, the greatest need of a span of time that begins before a replica that is removed in this slot can be replaced; only the
	// work that is known in advance, in parts of a unit (see resolution)
	keep []int32
}

// resolution is the number of parts into which a unit of work is divided in oracle.keep.
const resolution = 1000

// newOracle returns the oracle for a run that begins in the slot first. The spans of time in keep are at most eight times as long as the
// allowed wait: for a longer span, the wait hardly reduces the necessary capacity.
func newOracle(o oracleSettings, r *run, s setup, first int) *oracle {
	p := &oracle{o, r, s, newSlidingMax(o.hold), make([]int32, len(r.work))}
	window, longest := s.cold+o.idle, 1+8*s.wait
	q := newSlidingMin(window + 1)
	for t := len(r.work) - 1; t >= first; t-- {
		q.push(-t, -int32(math.Ceil(p.need(t, 0, 0, longest)*resolution-1e-6)))
		q.expire(-t - window)
		p.keep[t] = -q.first()
	}
	return p
}

func (p *oracle) decide(v *view) int32 {
	t, last := min(v.t, len(p.r.base)-1), len(p.r.base)-1
	excess := (p.r.rate[max(t-1, 0)] - p.r.base[max(t-1, 0)]) * SlotSeconds
	// A rollout is planned, so the oracle knows one cold start in advance that the capacity will change.
	capacity := p.r.capacityAt(min(t+p.s.cold, last))
	load := p.r.expected(t+p.s.cold, t+p.s.cold+1) + excess
	waiting := p.waiting(v, excess)
	n := int32(math.Ceil(waiting/float64(1+p.s.wait)/capacity - 1e-9))
	if n > v.target && p.drain > p.s.wait {
		n = min(n, max(v.target+1, int32(math.Ceil(max(load, waiting/float64(1+p.drain))/capacity))))
	}
	n = max(n, p.floor)
	if p.hold > 0 {
		n = max(n, p.held.push(v.t, int32(math.Ceil(p.need(v.t, excess, 0, p.s.cold)/capacity-1e-9)), p.hold))
	}
	if n < v.target {
		// A replica that is removed now is missing for at least a cold start. Until a rollout, replicas have the old capacity.
		keep := max(p.need(v.t, excess, v.queue, p.s.cold+1+p.idle), float64(p.keep[v.t])/resolution, p.forQueue(v))
		n = max(n, min(int32(math.Ceil(keep/min(capacity, p.r.capacityAt(t))-1e-9)), v.target))
	}
	if v.queue > 0 {
		n = max(n, 1)
	}
	return n
}

// need returns the smallest capacity, in work per slot, that serves the queue and the work that is expected from the slot t on within the
// allowed wait. It considers all spans of time that begin in t and have at most `longest` slots.
func (p *oracle) need(t int, excess, queue float64, longest int) (most float64) {
	for n := 1; ; n = min(2*n, longest) {
		work := max(p.r.expected(t, t+n)+excess*float64(n), 0)
		most = max(most, (queue+work+p.deviations*math.Sqrt(work))/float64(n+p.s.wait))
		if n == longest {
			return most
		}
	}
}

// forQueue returns the least capacity, in work per slot, with which the queue is served in time. It includes for how long the work of the
// queue has waited already.
func (p *oracle) forQueue(v *view) (most float64) {
	served := p.r.total[v.t] - v.queue
	for age := 0; age < min(p.s.wait, v.t) && p.r.total[v.t-age] > served; age++ {
		most = max(most, (p.r.total[v.t-age]-served)/float64(p.s.wait-age))
	}
	return most
}

// waiting returns the work that waits when a replica that starts now becomes ready, if no other replica starts. It is the greatest result
// over all spans of time that end with the slot in which the replica becomes ready: the work of the span, minus the work that the replicas
// serve in the span before its last slot.
func (p *oracle) waiting(v *view, excess float64) (most float64) {
	ready, q := v.t+p.s.cold, v.starts
	served, counted, i, mask := 0.0, 0, q.tail-1, len(q.slot)-1
	for n := 1; ; n = min(n+1+n/4, p.s.cold+1) {
		for counted < n-1 {
			from := v.t // the first slot in which q.value[i] replicas are ready
			if i > q.head {
				from = max(q.slot[(i-1)&mask]+p.s.cold+1, v.t)
			}
			more := max(min(n-1, ready-from)-counted, 0)
			end := ready - counted
			served, counted = served+float64(q.value[i&mask])*p.r.capacityOf(end-more, end), counted+more
			i--
		}
		i = min(i+1, q.tail-1)
		work := max(p.r.expected(ready+1-n, ready+1)+excess*float64(n), 0)
		left := work + p.deviations*math.Sqrt(work) - served
		if n == p.s.cold+1 {
			return max(most, left+v.queue)
		}
		most = max(most, left)
	}
}

// expected returns the work in the slots from..to-1 that is known in advance. After the end of the run, the rate does not change.
func (r *run) expected(from, to int) float64 {
	n := len(r.base)
	after := max(to-n, 0) - max(from-n, 0)
	return r.known[min(to, n)] - r.known[min(from, n)] + float64(after)*r.base[n-1]*SlotSeconds
}
