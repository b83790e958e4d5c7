package objective

import "math"

// expert is the simulated state of the workload if one rule had always determined its number of replicas. The simulation uses the observed
// work, the learned capacity and the learned cold start. It advances in time slots of equal length (see slotSeconds) and adds up its
// results in blocks of consecutive slots (see blockSeconds). The exported fields are saved.
type expert struct {
	Queue float32
	// Target contains the smallest number of replicas that the rule proposed in each part of the last cold start. The minimum of these
	// numbers is the number of ready replicas, because a replica is ready one cold start after the proposal.
	Target  [buckets]uint16
	Back    backlog
	Cost    float32 // sum of the proposed replicas over the slots of the closed blocks; older blocks have less weight
	Late    float32 // work of the closed blocks that was served late; older blocks have less weight
	Square  float32 // sum of the squares of the late work of each closed block; older blocks have less weight
	NewCost float32 // sum of the proposed replicas over the slots of the current block
	NewLate float32 // work of the current block that was served late
}

// bank contains one expert for each rule. Actual contains the observed queue and the observed late work of the workload itself.
type bank struct {
	Experts [numRules]expert
	Actual  expert
	// At is the index, in expert.Target, of the part of the cold start to which the current slot belongs.
	At uint8
	// Filled is the number of slots that have passed in part At of the cold start.
	Filled  uint32
	Work    float64
	NewWork float64 // work in the current block
	Block   int32   // number of slots in the current block
	Best    int32
	Started bool
	Met     bool // whether the best rule meets the objective
	// Surge is the greatest past surge of the load in work per second (features.surge). It decreases with the time constant Tuning.Memory.
	// It is 0 in a model that was saved before this field existed, because versions 3 to 5 of the encoding have eight zero bytes there.
	Surge float64
}

// plant contains what is known about the replicas of the workload. The simulation of the experts uses it.
type plant struct {
	slot        float64 // length of a slot in seconds
	wait, cold  int     // allowed wait and cold start, in slots
	capacity    float64 // work per second that a replica serves
	least, most int32
	allowed     float64 // share of the work that the objective allows to be late
	// the work that a replica processes at once; 0: not known, because no work has waited yet
	concurrency float64
	service     float64 // mean time in seconds that a unit of work takes, if the concurrency is known
	limit       float64 // allowed wait in seconds
	spare       *spare  // used if the concurrency is known
	requests    bool    // the requests in flight are measured, so waits shorter than a slot can be distinguished
	t           Tuning
}

// blockSeconds is the length of a block in seconds. It is several times as long as a cold start, so the late work of two blocks is treated
// as independent.
const blockSeconds = 1800

// step advances all experts by one slot and chooses the rule. queued is the work that waits at the workload. late is the measured share of
// late work. It is negative if the share is not measured.
func (b *bank) step(f *features, s *signals, x *plant, queued, late float64) {
	length, count := division(x.cold + 1)
	b.Filled++
	next := int(b.Filled) > length
	if next {
		b.At, b.Filled = (b.At+1)%uint8(count), 1
	}
	work, young := float64(f.Ring[f.Head]), f.work(x.wait+1)
	if x.requests {
		// A request arrives within its slot, so half of the requests of the oldest slot have waited longer than the limit.
		young = (young + f.work(x.wait)) / 2
	}
	var chance delays
	chance.compute(x, f.Level[0])
	for i := range rules {
		e := &b.Experts[i]
		level, margin, hold := s.want(&rules[i])
		n := x.replicas(max(level+margin, hold))
		if !b.Started {
			// In the first slot, all replicas that an expert proposes are ready at once. Otherwise, the simulation would begin without
			// replicas, and each rule would be charged for the work that is late during the first cold start.
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
	if late < 0 {
		b.Actual.NewLate += float32(max(0, min(total-queued, total-young)))
	} else {
		b.Actual.NewLate += float32(late * work)
	}
	b.Actual.Queue = float32(queued)
	b.NewWork += work
	b.Started = true
	if b.Block++; float64(b.Block)*x.slot >= blockSeconds {
		b.closeBlock(f, x)
	}
	b.Surge = max(float64(b.Surge*max(1-x.slot/x.t.Memory, 0)), f.surge(x))
	b.choose(f, x)
}

// repeat returns the work that would be late with a rule if the greatest past surge occurred once more now and lasted for a cold start.
// Without it, a rule that has just removed the replicas of past surges has the same late work as a rule that keeps them, and costs less.
//
// With less capacity than the load, the wait reaches the limit after limit*ready/(load-ready) seconds, and from then on all work is late
// until new replicas have served the queue. Work that arrives at the end of this time, at most the limit before its end, is not late.
//
// The load of the surge does not include the usual load. It is at most what the greatest number of replicas serves, because no rule can
// serve more.
func (b *bank) repeat(e *expert, x *plant) float64 {
	_, count := division(x.cold + 1)
	load, ready := min(b.Surge, float64(x.most)*x.capacity), float64(e.ready(count))*x.capacity
	if load <= ready {
		return 0
	}
	served := float64((1+x.t.Drain)*float64(x.cold)) * x.slot // seconds until new replicas have served the queue
	return x.t.Repeat * load * max(served-x.limit*load/(load-ready), 0)
}

// closeBlock adds the current block to the history and reduces the weight of older blocks. While the history is short, mainly its second
// half has weight, because the first plans were computed from little data.
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

// allowed returns the amount of work that may be late with a rule. If the workload itself had more late work than the objective permits,
// the result is reduced (Tuning.Feedback).
func (b *bank) allowed(x *plant) float64 {
	allowed := x.allowed * (b.Work + b.NewWork)
	if actual := b.Actual.late(); actual > allowed {
		allowed *= max(1-float64(x.t.Feedback*(1-allowed/actual)), 0.1)
	}
	return allowed
}

// choose sets Best to the cheapest rule whose late work is at most the result of allowed. The uncertainty of what was observed
// (Tuning.Caution) or a repeated surge (Tuning.Repeat), the greater of both, is added to the late work of each rule, and also an assumed
// amount for events that have not occurred yet (Tuning.Event). If every rule has more late work than allowed, choose increases the
// cost of each rule in proportion to its late work, and then chooses the cheapest.
func (b *bank) choose(f *features, x *plant) {
	allowed := max(b.allowed(x), 1e-9)
	event := x.t.Event * float64(x.cold) * x.slot * f.Level[levels-1]
	best, met, bestCost, prior, before := -1, false, 0.0, event, 0.0
	for i := range rules {
		if rules[i].isIn(x.t.Without) {
			continue
		}
		e := &b.Experts[i]
		square := float64(e.Square) + float64(float64(e.NewLate)*float64(e.NewLate))
		if x.requests {
			square += e.late() // a number of late requests has at least the variance of a Poisson distribution, which is its mean
		}
		late := e.late() + max(float64(x.t.Caution*math.Sqrt(square)), b.repeat(e, x))
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

// price returns how much the best rule costs for each unit of late work that it avoids, in replica-seconds. It compares the best rule with
// each cheaper rule, and returns the greatest result, or 0 if no rule is cheaper.
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

// replicas returns the number of replicas that are necessary to serve a load within the allowed wait. If the concurrency of a replica is
// known, it includes the free serving slots that are necessary because work arrives at random.
func (x *plant) replicas(load float64) int32 {
	// The mean of a load that has ended becomes small but never 0. A load that needs no replica needs no free serving slots either.
	if n := x.throughput(load); x.concurrency <= 0 || n <= 0 {
		return n
	}
	busy := load * x.service
	all := busy
	for range 3 { // three rounds, because the free serving slots depend on all of them; the result is at most a few replicas too small
		all = busy + x.spare.of(all)
	}
	n := x.throughput(all / x.service)
	for ; n < maxReplicas; n++ {
		if all = float64(n) * x.concurrency; all-x.spare.of(all) >= busy {
			break
		}
	}
	return n
}

// throughput returns the number of replicas whose capacity is at least a load.
func (x *plant) throughput(load float64) int32 {
	return int32(min(math.Ceil(load/x.capacity-1e-6), maxReplicas))
}

// maxReplicas limits every number of replicas, so that it fits in 16 bits.
const maxReplicas = 30000

func (x *plant) bounded(n int32) int32 { return min(max(min(n, x.most), x.least, 0), maxReplicas) }

// forBacklog returns how many replicas are necessary to serve the load and, in addition, the work that still waits when a replica that
// starts now becomes ready. It returns 0 if the ready replicas serve the queue within the allowed wait, or before a new replica can be
// ready. ready is the number of ready replicas.
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

// backlog is the number of replicas that are necessary for waiting work. The plan keeps at least this number for Left more slots, even if
// the queue becomes shorter. Otherwise, the new replicas would be removed before they are ready. At the beginning, Left is the number of
// slots in 1.1 cold starts.
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
