package objective

import "math"

// queue is a queue M/M/c, in which work arrives at random and is served by a number of serving slots. The time that a unit of work takes is
// exponentially distributed. This is the model for work that waits although the replicas have enough capacity, because several requests
// happen to arrive together or happen to be long.
//
// In this file, a slot is a serving slot: the place for one unit of work in a replica. It is not a time slot.
type queue struct {
	busy    float64 // mean number of busy slots, if work never waits
	slots   int
	blocked float64 // probability that all slots are busy, if work that finds no free slot is rejected (Erlang B)
}

// grow adds slots until there are n.
func (q *queue) grow(n int) {
	for q.slots < n {
		q.slots++
		q.blocked = q.busy * q.blocked / (float64(q.slots) + float64(q.busy*q.blocked))
	}
}

// late returns the probability that work waits longer than a time (Erlang C). limit is this time divided by the mean service time.
func (q *queue) late(limit float64) float64 {
	n := float64(q.slots)
	if n <= q.busy {
		return 1
	}
	return min(n*q.blocked/(n-float64(q.busy*(1-q.blocked))), 1) * decay((n-q.busy)*limit)
}

// decay returns approximately exp(-x), with the same result on every architecture.
func decay(x float64) float64 {
	y := 1 + x/1024
	for range 10 {
		y = float64(y * y)
	}
	return 1 / y
}

// delays contains the probability that work waits too long, for each number of ready replicas.
type delays struct {
	late  [maxDelays]float32
	count int // for more ready replicas, the probability is 0
}

// maxDelays is the maximum number of ready replicas for which a probability is computed, so that the computation stays short. With more
// replicas, the capacity that rules leave free for variations of the load is much more than the slots that random arrivals need.
const maxDelays = 256

// maxErlang limits the number of slots for which the probability is computed. Random arrivals need less than 3% more slots than a greater
// number, and rules leave more free.
const maxErlang = 1 << 14

// compute computes the probabilities for a load in work per second. If the concurrency of a replica is not known, they are 0.
func (d *delays) compute(x *plant, load float64) {
	d.count = 0
	if x.concurrency <= 0 || load <= 0 {
		return
	}
	q := queue{busy: load * x.service, blocked: 1}
	for d.count < maxDelays {
		p := 0.0
		switch slots := float64(d.count) * x.concurrency; {
		case slots <= q.busy:
			p = 1
		case slots <= maxErlang:
			q.grow(int(slots + 0.5))
			p = q.late(x.limit / x.service)
		}
		d.late[d.count] = float32(p)
		d.count++
		if p < 1e-7 {
			return
		}
	}
}

func (d *delays) of(ready uint16) float64 {
	if int(ready) >= d.count {
		return 0
	}
	return float64(d.late[ready])
}

// spare contains the number of slots that must be free on average, so that the share of the work that waits too long is at most the allowed
// share. The index is the base 2 logarithm of the number of all slots.
type spare struct {
	limit, allowed float64
	slots          [9]float64
}

// compute computes the free slots. limit is the allowed wait divided by the mean service time.
func (s *spare) compute(limit, allowed float64) {
	// Six bits of the mantissa remain, so that a small change of the service time does not need a new computation.
	limit = math.Float64frombits(math.Float64bits(limit) &^ (1<<46 - 1))
	if limit == s.limit && allowed == s.allowed {
		return
	}
	s.limit, s.allowed = limit, allowed
	for k := range s.slots {
		all := 1 << k
		low, high := 0.0, float64(all) // bounds of the number of busy slots
		for range 16 {
			q := queue{busy: (low + high) / 2, blocked: 1}
			if q.grow(all); q.late(limit) <= allowed {
				low = q.busy
			} else {
				high = q.busy
			}
		}
		s.slots[k] = float64(all) - low
	}
}

// of returns the free slots for a number of all slots. Between two known numbers, it interpolates. Above the greatest one, it assumes that
// the free slots grow with the square root, which is an upper bound.
func (s *spare) of(all float64) float64 {
	last, n := len(s.slots)-1, 1.0
	for k := range last {
		if all <= 2*n {
			return s.slots[k] + float64((s.slots[k+1]-s.slots[k])*max(all/n-1, 0))
		}
		n *= 2
	}
	return s.slots[last] * math.Sqrt(all/n)
}
