package decisions

// SlotSeconds is the length of a slot in seconds.
const SlotSeconds = 5

// run is one draw of a workload: its work in each slot, and the part of its rate that the oracle may use.
type run struct {
	work     []float64 // work that arrives in each slot
	total    []float64 // total[t] is the sum of the work in the slots before t
	rate     []float64 // expected work per second in each slot, including the bursts of this draw
	base     []float64 // the part of rate that is known in advance
	known    []float64 // known[t] is the expected work in the slots before t that is known in advance
	capacity float64   // work that a replica serves in a slot
	changed  float64   // capacity from the slot `change` on
	change   int       // slot in which the capacity changes; len(work) if it does not change
	from     int       // first scored slot
}

func (r *run) capacityAt(t int) float64 {
	if t < r.change {
		return r.capacity
	}
	return r.changed
}

// capacityOf returns the work that a replica serves in the slots from..to-1.
func (r *run) capacityOf(from, to int) float64 {
	old := min(to, r.change) - min(from, r.change)
	return float64(old)*r.capacity + float64(to-from-old)*r.changed
}

// setup contains the settings of a run that do not depend on the traffic.
type setup struct {
	cold int // length of a cold start in slots
	wait int // number of slots that work may wait
	most int32
}

// view is the observation that a policy reads at the start of a slot. All values except t are from the previous slot.
type view struct {
	t                      int // the slot that begins
	arrived, served, queue float64
	ready, target          int32
	starts                 *slidingMin
}

type policy interface{ decide(v *view) int32 }

// score is the result of the scored part of a run: late work, all work, and cost in replica-seconds.
type score struct{ Late, Work, Cost float64 }

func (s score) lateShare() float64 { return s.Late / max(s.Work, 1e-9) }

// simulate runs a policy and returns its score.
func simulate(r *run, s setup, p policy) score { return simulatePart(r, s, p, 0) }

// simulatePart is like simulate, but begins in the slot `first`, with one replica and without a queue. This is sufficient for policies that
// learn nothing.
func simulatePart(r *run, s setup, p policy, first int) (out score) {
	v := view{target: 1, starts: newSlidingMin(s.cold + 1)}
	v.starts.push(first-1, 1)
	servedBefore := r.total[first]
	for t := first; t < len(r.work); t++ {
		v.t, v.ready = t, v.starts.first()
		v.target = max(min(p.decide(&v), s.most), 0)
		v.starts.push(t, v.target)
		v.starts.expire(t - s.cold)
		ready := v.starts.first()
		v.arrived = r.work[t]
		v.served = min(v.queue+v.arrived, float64(ready)*r.capacityAt(t))
		v.queue += v.arrived - v.served
		served := r.total[t+1] - v.queue
		late := 0.0
		if due := t - s.wait; due > 0 {
			late = max(0, min(served, r.total[due])-servedBefore)
		}
		if t >= r.from {
			out.Late, out.Work, out.Cost = out.Late+late, out.Work+v.arrived, out.Cost+float64(v.target)
		}
		servedBefore = served
	}
	if due := len(r.work) - s.wait; due > 0 {
		out.Late += max(0, r.total[due]-servedBefore)
	}
	out.Cost *= SlotSeconds
	return out
}

// slidingMin computes the minimum of the values within a sliding window. It is a queue of increasing values. Each value is stored with its
// slot.
type slidingMin struct {
	slot       []int
	value      []int32
	head, tail int
}

func newSlidingMin(window int) *slidingMin {
	n := 1
	for n < window+2 {
		n *= 2
	}
	return &slidingMin{slot: make([]int, n), value: make([]int32, n)}
}

func (q *slidingMin) push(slot int, value int32) {
	mask := len(q.slot) - 1
	for q.tail > q.head && q.value[(q.tail-1)&mask] >= value {
		q.tail--
	}
	q.slot[q.tail&mask], q.value[q.tail&mask] = slot, value
	q.tail++
}

// expire removes all entries whose slot is before the given slot, but never the newest entry. The slots of the entries are in ascending
// order, so expire compares only the first entry.
func (q *slidingMin) expire(before int) {
	mask := len(q.slot) - 1
	for q.tail > q.head+1 && q.slot[q.head&mask] < before {
		q.head++
	}
}

func (q *slidingMin) first() int32 { return q.value[q.head&(len(q.value)-1)] }
