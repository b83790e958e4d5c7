package objective

import "math"

// expert is the simulated fleet of one rule: the state in which the workload would be if this rule had always determined its number of
// replicas. The simulation uses the observed work, the learned capacity and the learned cold start. It advances in time slots of equal
// length (see slotSeconds) and adds up its results in blocks of consecutive time slots (see blockSeconds). The exported fields are saved
// with the model.
type expert struct {
	Queue float32
	// Target contains the smallest number of replicas that the rule proposed in each part of the last cold start. The minimum of its elements
	// is the number of ready replicas, because a replica is ready one cold start after it was proposed.
	Target  [buckets]uint16
	Back    backlog
	Cost    float32 // sum of the proposed replicas over the time slots of the complete blocks; older blocks have less weight
	Late    float32 // late work of the complete blocks; older blocks have less weight
	Square  float32 // sum of the squares of the late work of each complete block; older blocks have less weight
	NewCost float32 // sum of the proposed replicas over the time slots of the current block
	NewLate float32 // late work of the current block
}

// bank contains the simulated fleet of each rule. Actual contains the observed queue and the observed late work of the workload.
type bank struct {
	Experts [numRules]expert
	Actual  expert
	// At is the index of the part of the cold start, in expert.Target, to which the current time slot belongs.
	At uint8
	// Filled is the number of time slots that have passed in this part of the cold start.
	Filled  uint32
	Work    float64
	NewWork float64 // work that arrived in the current block
	Block   int32   // number of time slots in the current block
	Best    int32
	Started bool
	Met     bool // true if the late work of the best rule is within the late budget
	// Surge is the greatest past rise of the load within a cold start, in work per second (features.surge). It decreases with the time
	// constant Tuning.Memory. It is 0 in a model that was saved before this field existed, because versions 3 to 5 of the encoding have eight
	// zero bytes in its place.
	Surge float64
}

// plant contains the learned properties of the replicas with which the fleets of the rules are simulated.
type plant struct {
	slot        float64 // length of a time slot in seconds
	wait, cold  int     // allowed wait and cold start, in time slots
	age         int     // age of the measured load, in time slots
	spread      float64 // variance of the work that arrives in a time, divided by its mean
	capacity    float64 // work per second that a replica serves
	least, most int32
	allowed     float64 // share of the work that may be late, according to the SLO
	// the work that a replica processes at the same time; 0: not known, because no work has waited so far
	concurrency float64
	service     float64 // mean time in seconds to process a unit of work; only used if the concurrency is known
	limit       float64 // allowed wait in seconds
	spare       *spare  // the free serving slots that random arrivals need; used if the concurrency is known
	requests    bool    // the requests in flight are measured, so waits shorter than a time slot can be distinguished
	t           Tuning
}

// dead returns the dead time in time slots: the time from a change of the load until the replicas that are proposed for it are ready.
func (x *plant) dead() int { return x.cold + x.age }

// blockSeconds is the length of a block in seconds. A block lasts several cold starts, so the late work of two blocks is treated as
// independent.
const blockSeconds = 1800

// step advances the simulated fleets of all rules by one time slot and chooses the best rule. queued is the work that waits in the real
// workload. late is the measured share of late work; it is negative if this share is not measured. step returns the late work of the real
// workload in this time slot.
func (b *bank) step(f *features, s *signals, x *plant, queued, late float64) (actual float64) {
	length, count := division(x.dead() + 1)
	b.Filled++
	next := int(b.Filled) > length
	if next {
		b.At, b.Filled = (b.At+1)%uint8(count), 1
	}
	work, young := float64(f.Ring[f.Head]), f.young(x)
	var chance delays
	chance.expect(x, f)
	for i := range rules {
		e := &b.Experts[i]
		level, margin, hold := s.want(&rules[i])
		n := x.replicas(max(level+margin, hold))
		if !b.Started {
			// In the first time slot, all replicas that a rule proposes are ready immediately. Otherwise, the simulation would begin without
			// replicas, and the late work of each rule would include all work of the first cold start.
			for k := range e.Target {
				e.Target[k] = uint16(x.bounded(n))
			}
		}
		e.Back.age()
		e.Back.raise(x, x.forBacklog(float64(e.Queue), float64(e.ready(count)), level))
		n = x.bounded(max(n, int32(e.Back.Replicas)))
		if next || uint16(n) < e.Target[b.At] {
			e.Target[b.At] = uint16(n)
		}
		total := float64(e.Queue) + work
		served := min(total, float64(float64(e.ready(count))*x.capacity)*x.slot)
		e.NewLate += float32(max(0, min(served, total-young), work*chance.of(e.ready(count))))
		e.NewCost += float32(n)
		e.Queue = float32(total - served)
	}
	total := float64(b.Actual.Queue) + work
	if actual = late * work; late < 0 {
		actual = max(0, min(total-queued, total-young))
	}
	b.Actual.NewLate += float32(actual)
	b.Actual.Queue = float32(queued)
	b.NewWork += work
	b.Started = true
	if b.Block++; float64(b.Block)*x.slot >= blockSeconds {
		b.closeBlock(f, x)
	}
	b.Surge = max(float64(b.Surge*max(1-x.slot/x.t.Memory, 0)), f.surge(x))
	b.choose(f, x, b.surge(f, s.usual))
	return actual
}

// surge returns the greatest load that is assumed to start at any time: the greatest past surge, or the usual load at this time of the day
// if the load is much less than usual. Such a low load, for example on a weekend or during an incident of the clients, can end suddenly. It
// has ended when the mean of the last hour is also high. Otherwise, a rule with fewer replicas would be chosen while the load returns.
func (b *bank) surge(f *features, usual float64) float64 {
	if usual < surgeFactor*min(f.Level[2], f.Level[3]) {
		return b.Surge
	}
	return max(b.Surge, usual)
}

// repeat returns the work that would be late with the rule of e if a surge started now and lasted for a cold start. Without this addition,
// a rule that has just removed the replicas for past surges would have the same late work as a rule that keeps them, and would cost less.
//
// If the load exceeds the capacity of the ready replicas, the wait reaches the limit after limit*ready/(load-ready) seconds. After that,
// all work is late until new replicas have served the queue. Work that arrives within the last limit seconds of this time is not late.
//
// The load of the surge does not include the present load. The load is limited to the capacity of the greatest allowed number of replicas,
// because no rule can serve more.
func (b *bank) repeat(e *expert, x *plant, surge float64) float64 {
	_, count := division(x.dead() + 1)
	load, ready := min(surge, float64(x.most)*x.capacity), float64(float64(e.ready(count))*x.capacity)
	if load <= ready {
		return 0
	}
	served := float64(float64((1+x.t.Drain)*float64(x.cold)) * x.slot) // seconds until new replicas have served the queue
	return x.t.Repeat * load * max(served-x.limit*load/(load-ready), 0)
}

// closeBlock adds the results of the current block to the sums of past blocks, in which older blocks have less weight. While few blocks
// have passed, mainly their second half has weight, because the first plans were computed from little data.
func (b *bank) closeBlock(f *features, x *plant) {
	elapsed := float64(f.Slots) * x.slot
	keep := max(1-float64(b.Block)*x.slot/min(x.t.Memory, max(elapsed/2, 2*blockSeconds)), 0)
	for i := range b.Experts {
		b.Experts[i].closeBlock(float32(keep))
	}
	b.Actual.closeBlock(float32(keep))
	b.Work = float64(keep*b.Work) + b.NewWork
	b.NewWork, b.Block = 0, 0
}

func (e *expert) closeBlock(keep float32) {
	e.Cost = float32(keep*e.Cost) + e.NewCost
	e.Late = float32(keep*e.Late) + e.NewLate
	e.Square = float32(keep*e.Square) + float32(e.NewLate*e.NewLate)
	e.NewCost, e.NewLate = 0, 0
}

func (e *expert) late() float64 { return float64(e.Late) + float64(e.NewLate) }
func (e *expert) cost() float64 { return float64(e.Cost) + float64(e.NewCost) }

func (e *expert) ready(count int) uint16 {
	least := e.Target[0]
	for _, t := range e.Target[1:count] {
		least = min(least, t)
	}
	return least
}

// allowed returns the late budget: how much of the observed work may be late with a rule. If the workload itself had more late work than
// the objective permits, the result is smaller (Tuning.Feedback).
func (b *bank) allowed(x *plant) float64 {
	allowed := x.allowed * (b.Work + b.NewWork)
	if actual := b.Actual.late(); actual > allowed {
		allowed *= max(1-float64(x.t.Feedback*(1-allowed/actual)), 0.1)
	}
	return allowed
}

// choose sets Best to the cheapest rule whose estimated late work is within the late budget (see allowed). The estimate is the simulated
// late work, plus the work that still waits and is already late, plus the standard error of what was observed (Tuning.Caution) or the late
// work of a surge (repeat), the greater of both, plus an amount for events that have not occurred so far (Tuning.Event). If no rule is
// within the late budget, the cost of each rule is increased in proportion to its late work, and the cheapest rule is chosen.
func (b *bank) choose(f *features, x *plant, surge float64) {
	allowed := max(b.allowed(x), 1e-9)
	event, young := x.t.Event*float64(x.cold)*x.slot*f.Level[levels-1], f.young(x)
	best, met, bestCost, prior, before := -1, false, 0.0, event, 0.0
	for i := range rules {
		if rules[i].isIn(x.t.Without) {
			continue
		}
		e := &b.Experts[i]
		square := float64(e.Square) + float64(float64(e.NewLate)*float64(e.NewLate))
		if x.requests {
			square += e.late() // the variance of a number of late requests is at least the variance of a Poisson distribution, which equals its mean
		}
		late := e.late() + max(float64(e.Queue)-young, 0) + max(float64(x.t.Caution*math.Sqrt(square)), b.repeat(e, x, surge))
		if rules[i].first || late > allowed {
			prior = event
		}
		if !rules[i].first {
			late = max(late, x.t.Smooth*before)
		}
		before = late
		late += prior
		prior *= x.t.Inherit
		cost := e.cost()
		if int32(i) == b.Best {
			cost *= x.t.Stay
		}
		ok := late <= allowed
		if !ok {
			cost *= 1 + late/allowed
		}
		if best < 0 || ok && !met || ok == met && cost < bestCost {
			best, met, bestCost = i, ok, cost
		}
	}
	b.Best, b.Met = int32(max(best, 0)), met
}

// price returns the replica-seconds that the best rule costs for each unit of late work that it avoids. It compares the best rule with each
// cheaper rule, and returns the greatest result. The result is 0 if no rule is cheaper.
func (b *bank) price(x *plant) (price float64) {
	best := &b.Experts[b.Best]
	for i := range b.Experts {
		e := &b.Experts[i]
		if saved, late := best.cost()-e.cost(), e.late()-best.late(); saved > 0 && late > 0 {
			price = max(price, saved*x.slot/late)
		}
	}
	return price
}

// replicas returns how many replicas serve a load, in work per second, within the allowed wait. If the number of serving slots of a replica
// is known, the result includes the free serving slots that are necessary because work arrives at random.
func (x *plant) replicas(load float64) int32 {
	// After a load has ended, its mean becomes small but never 0. A load that needs no replica must not get replicas for free serving slots.
	if n := x.throughput(load); x.concurrency <= 0 || n <= 0 {
		return n
	}
	busy := float64(load * x.service)
	all := busy
	for range 3 { // free slots depend on the number of all slots; after three rounds, all is too small by at most the slots of a few replicas
		all = busy + x.spare.of(all)
	}
	n := x.throughput(all / x.service)
	for ; n < maxReplicas; n++ {
		if all = float64(float64(n) * x.concurrency); all-x.spare.of(all) >= busy {
			break
		}
	}
	return n
}

// throughput returns how many replicas have at least the capacity for a load, in work per second.
func (x *plant) throughput(load float64) int32 {
	return int32(min(math.Ceil(load/x.capacity-1e-6), maxReplicas))
}

// maxReplicas limits every number of replicas, so that it fits in 16 bits.
const maxReplicas = 30000

func (x *plant) bounded(n int32) int32 { return min(max(min(n, x.most), x.least, 0), maxReplicas) }

// forBacklog returns how many replicas are necessary to serve the load and also the work that still waits when a replica that starts now
// becomes ready. It returns 0 if the ready replicas serve the queue within the allowed wait, or before a new replica can be ready.
func (x *plant) forBacklog(queue, ready, load float64) int32 {
	if queue <= float64(ready*x.capacity)*float64(x.wait)*x.slot {
		return 0
	}
	cold := float64(x.cold) * x.slot
	left := queue - float64((float64(ready*x.capacity)-load)*cold)
	if left <= 0 {
		return 0
	}
	return x.throughput(load + left/max(cold*x.t.Drain, float64(x.wait)*x.slot, x.slot))
}

// backlog is the number of replicas that are necessary for waiting work. Plans include at least this number for Left more time slots, even
// if the queue becomes shorter, because the new replicas would otherwise be removed before they are ready. Left starts with the time slots
// of 1.1 cold starts.
type backlog struct{ Replicas, Left uint16 }

func (b *backlog) age() {
	if b.Left > 0 {
		b.Left--
	} else {
		b.Replicas = 0
	}
}

func (b *backlog) raise(x *plant, n int32) {
	if n > 0 && n >= int32(b.Replicas) {
		b.Replicas, b.Left = uint16(min(n, maxReplicas)), uint16(min(x.cold+x.cold/10+1, math.MaxUint16))
	}
}
