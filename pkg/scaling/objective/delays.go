package objective

import "math"

// queue is a queue M/M/c of queueing theory: work arrives at random and is served by a number of serving slots in a time that is
// exponentially distributed. It is the model for work that waits although the replicas have enough capacity, because several requests
// happen to arrive together or happen to be long.
//
// In this file, a slot is a serving slot, the place for one unit of work in a replica, and not a time slot.
type queue struct {
	busy    float64 // mean number of busy serving slots, if work never waits
	slots   int
	blocked float64 // probability that all serving slots are busy, if work that finds no free slot is rejected (Erlang B)
}

// grow adds serving slots until there are n.
func (q *queue) grow(n int) {
	for q.slots < n {
		q.slots++
		q.blocked = q.busy * q.blocked / (float64(q.slots) + float64(q.busy*q.blocked))
	}
}

// late returns the probability that work waits longer than a maximum (Erlang C). limit is this maximum divided by the mean service time.
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

// delays contains the probability that work waits longer than allowed, for each number of ready replicas.
type delays struct {
	late  [maxDelays]float32
	count int // for this and greater numbers of ready replicas, the probability is 0
}

// maxDelays is the maximum number of ready replicas for which a probability is computed, so that the computation is short. With more
// replicas, the capacity that rules leave free for variations of the load is much greater than what random arrivals need.
const maxDelays = 256

// maxErlang limits the number of serving slots for which the probability is computed. For a greater number, random arrivals need less than
// 3% more slots than the mean number of busy slots, and rules leave more than that free.
const maxErlang = 1 << 14

// expect computes the probabilities for the past load. approximate includes short variations of the load, so it gets a mean over a long
// time.
func (d *delays) expect(x *plant, f *features) {
	if x.concurrency > 0 {
		d.compute(x, f.Level[0])
	} else {
		d.approximate(x, min(f.Level[2], f.Level[3]))
	}
}

// compute computes the probabilities for a load in work per second. If the concurrency of a replica is not known, they are 0.
func (d *delays) compute(x *plant, load float64) {
	d.count = 0
	if x.concurrency <= 0 || load <= 0 {
		return
	}
	q := queue{busy: load * x.service, blocked: 1}
	for d.count < maxDelays {
		p := 0.0
		switch slots := float64(float64(d.count) * x.concurrency); {
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

// approximate computes the probabilities for a load in work per second if the concurrency of a replica is not known. It uses the diffusion
// approximation of a queue: if work arrives at random, the work that waits has an exponential distribution, and its mean is
// spread * load / (2 * free capacity). If the load exceeds the capacity, the probability is 0, because the simulated queue then contains
// the work that waits.
func (d *delays) approximate(x *plant, load float64) {
	d.count = 0
	if load <= 0 || x.spread <= 0 {
		return
	}
	for p := 0.0; d.count < maxDelays && (p == 0 || p >= 1e-7); d.count++ {
		if all := float64(float64(d.count) * x.capacity); all > load {
			p = decay(2 * (all - load) * float64(all*x.limit) / float64(x.spread*load))
		}
		d.late[d.count] = float32(p)
	}
}

func (d *delays) of(ready uint16) float64 {
	if int(ready) >= d.count {
		return 0
	}
	return float64(d.late[ready])
}

// spare contains the number of serving slots that must be free on average, so that the share of the work that waits longer than allowed is
// at most the allowed share. Element k of slots is for 2^k serving slots in total.
type spare struct {
	limit, allowed float64
	slots          [9]float64
}

// compute computes the free serving slots. limit is the allowed wait divided by the mean service time.
func (s *spare) compute(limit, allowed float64) {
	// Six bits of the mantissa remain, so that a small change of the service time does not need a new computation.
	limit = math.Float64frombits(math.Float64bits(limit) &^ (1<<46 - 1))
	if limit == s.limit && allowed == s.allowed {
		return
	}
	s.limit, s.allowed = limit, allowed
	for k := range s.slots {
		all := 1 << k
		low, high := 0.0, float64(all) // bounds for the number of busy serving slots
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

// of returns the free serving slots for a total number of slots. It interpolates between two computed numbers. For a total above the
// greatest of them, it assumes that the free slots grow with the square root of the total, which is an upper bound.
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
