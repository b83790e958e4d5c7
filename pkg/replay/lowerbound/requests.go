package lowerbound

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Request is one request of a log, as the bounds use it.
type Request struct {
	At      time.Duration // time of arrival since the beginning of the trace, >= 0; requests are in the order of arrival
	Work    time.Duration // replica time at the highest throughput of a replica (a full batch), >= 0
	Service time.Duration // longest time from its start to its end, >= Work; C * Work in a replica with C slots
}

// Setup has the common properties of the compared runs.
type Setup struct {
	TimeSlot        time.Duration // length of a slot
	Horizon         time.Duration // end of the charged time, which begins at 0; no request may arrive later
	ColdStart       time.Duration // shortest time from launch to ready
	Wait            time.Duration // W: a request is on time if it starts within W after its arrival
	LateShare       float64       // eps: share of the requests that may be late
	MaxReplicas     int           // maximum number of replicas, including booting and draining ones
	InitialReplicas int           // replicas that are ready at time 0; no other replica is booting then
	HourlyPrice     float64       // price of a replica per hour, which is paid from its launch to the end of draining
	StartFee        float64       // additional price of each launch
	ServeAll        bool          // the runs serve every request before Horizon
	Units           int64         // units of work per replica slot; 0: a slot at MaxReplicas has about 512
}

// longest is the maximum of each time, so that sums of times fit in 64 bits.
const longest = time.Duration(1 << 60)

// Fluid returns the slot model of a request log. The ready replicas serve the work of each slot, the oldest first. A request is on time if
// its last unit is served within floor(W/slot) slots after the slot of its arrival.
//
// Units are integers: the work up to each request is rounded down. The work served at the end of each slot is then that of the model with
// real numbers, also rounded down, so that no request is late that is not late in that model. LB remains a lower bound of that model.
//
// With servers of whole requests, the schedule of UB keeps the SLO at a wait of about W plus half a slot to a slot, because a slot is
// served as if its requests arrived at its beginning. For a schedule that keeps W, use W minus a slot.
func Fluid(requests []Request, s Setup) (Problem, error) {
	wait := int(s.Wait / max(1, s.TimeSlot))
	p, err := s.problem(requests, func(r Request) (time.Duration, int) { return r.Work, int(r.At/s.TimeSlot) + 1 + wait })
	if err != nil {
		return Problem{}, err
	}
	boot := slotsUp(s.ColdStart, s.TimeSlot)
	p.WaitSlots, p.BootSlots = wait, boot
	p.StartCost = s.price(s.ColdStart) + s.StartFee
	p.Relaxations = []string{
		"demand and service are fluid within slots of " + s.TimeSlot.String() + ": waiting work is served at the throughput of full batches",
		fmt.Sprintf("waits are counted in whole slots: a request that is on time may wait up to %s longer than W", s.TimeSlot),
		fmt.Sprintf("work is counted in units of 1/%d replica slot, rounded down over the whole log by less than one "+
			"unit", p.UnitsPerReplicaSlot),
		"the future is known: a cold start of " + s.ColdStart.String() + " costs only its boot time, except before " + s.ColdStart.String(),
		"a replica stops without delay and cost at the end of any slot",
		"nodes are not modeled: each replica is paid for separately",
	}
	return p, nil
}

// RequestLevel returns the problem whose LB is valid for every FIFO run of real servers, at any times.
//
// Proof: let a run start requests in the order of their arrival, and let x be the cut (0: the longest service time). If request i is on
// time, all requests up to i have started by r_i + W, so by r_i + W + x each of them has received the work of its first x of service. Count
// only that work: then the run has processed at any time at most as much as a fluid queue with the same replicas, and request i is on time
// in the fluid queue with the deadline r_i + W + x. In a fluid queue with slots, with arrivals at the start of their slot, deadlines at the
// end of theirs, and with all replicas that are ready at any time of a slot counted for the whole slot, no request is later. This counting
// adds less than one slot at the start and at the end of the life of a replica: so two slots are subtracted from the start cost, and one
// slot per warm replica from the total. (A ready replica existed, booting, during the cold start before; so the replicas counted in a slot
// existed together at its beginning and are at most MaxReplicas.)
//
// A smaller cut counts less work with an earlier deadline. Every cut is valid, so the best of several can be used. The bound assumes that
// service progresses evenly at worst: after a share of Service, at least that share of Work is done.
func RequestLevel(requests []Request, s Setup, cut time.Duration) (Problem, error) {
	slowest := time.Duration(0)
	for _, r := range requests {
		slowest = max(slowest, r.Service)
	}
	if cut <= 0 || cut > slowest {
		cut = slowest
	}
	if s.ColdStart < 2*s.TimeSlot {
		return Problem{}, fmt.Errorf("bound: a slot of %s is more than half the cold start of %s; the request-level bound takes two slots off it",
			s.TimeSlot, s.ColdStart)
	}
	allowance := s.Wait + cut
	p, err := s.problem(requests, func(r Request) (time.Duration, int) {
		return share(r.Work, cut, r.Service), max(slotsUp(r.At+allowance, s.TimeSlot), int(r.At/s.TimeSlot)+1)
	})
	if err != nil {
		return Problem{}, err
	}
	p.OpenEnd = true
	p.WaitSlots, p.BootSlots = slotsUp(allowance, s.TimeSlot), int(s.ColdStart/s.TimeSlot)
	p.StartCost = s.price(s.ColdStart-2*s.TimeSlot) + s.StartFee
	p.Rebate = float64(s.InitialReplicas) * p.ReplicaSlotCost
	p.Relaxations = []string{
		fmt.Sprintf("a request is late only if its work is unfinished %s after it arrived (%s of wait + %s of service)", allowance, s.Wait, cut),
		fmt.Sprintf("only the work of a request's first %s of service is counted; every replica serves at its full-batch throughput", cut),
		"a replica ready at any moment of a slot of " + s.TimeSlot.String() + " serves for the whole slot",
		"a start costs the cold start less two slots; one slot per warm replica is given back",
		"drains are free, nodes are not modelled, requests still waiting at the end of the trace are not late before their deadline",
		"assumed of the run: first in, first out; no request dropped; a replica is paid from launch to the end of its drain",
	}
	return p, nil
}

// Cuts returns useful cuts for RequestLevel: the p50, p90, p99 and maximum of the service times, without duplicates.
func Cuts(requests []Request) []time.Duration {
	if len(requests) == 0 {
		return nil
	}
	sorted := make([]time.Duration, len(requests))
	for i, r := range requests {
		sorted[i] = r.Service
	}
	slices.Sort(sorted)
	var cuts []time.Duration
	for _, percent := range []int{50, 90, 99, 100} {
		cuts = append(cuts, sorted[(len(sorted)*percent+99)/100-1])
	}
	return slices.Compact(cuts)
}

// problem returns the Problem with the fields that are the same for Fluid and RequestLevel. count returns the counted work of a request and
// the slot in which it is due.
func (s Setup) problem(requests []Request, count func(Request) (time.Duration, int)) (Problem, error) {
	if s.TimeSlot <= 0 || s.Horizon < s.TimeSlot || s.Horizon/s.TimeSlot > 1<<24 {
		return Problem{}, fmt.Errorf("bound: slots of %s do not divide a horizon of %s into 1..2^24 slots", s.TimeSlot, s.Horizon)
	}
	if s.ColdStart < 0 || s.Wait < 0 || max(s.ColdStart, s.Wait, s.Horizon) > longest {
		return Problem{}, fmt.Errorf("bound: cold start %s, wait %s, horizon %s: none may be below 0 or beyond 36 "+
			"years", s.ColdStart, s.Wait, s.Horizon)
	}
	if !(s.HourlyPrice > 0) || !(s.StartFee >= 0) || s.MaxReplicas < 1 || s.Units < 0 {
		return Problem{}, fmt.Errorf("bound: price %v, fee %v, max replicas %d, units %d: price and replicas must be above 0, nothing below",
			s.HourlyPrice, s.StartFee, s.MaxReplicas, s.Units)
	}
	units := s.Units
	if units == 0 {
		units = min(max(512/int64(s.MaxReplicas), 4), 64)
	}
	p := Problem{
		TimeSlot: s.TimeSlot, Arrivals: make([]int64, slotsUp(s.Horizon, s.TimeSlot)), UnitsPerReplicaSlot: units,
		MaxReplicas: s.MaxReplicas, InitialReplicas: s.InitialReplicas,
		ReplicaSlotCost: s.price(s.TimeSlot), LateShare: s.LateShare, ServeAll: s.ServeAll, Jobs: make([]Job, 0, len(requests)),
	}
	var work wide
	last, due, before := Request{}, int32(1), int64(0)
	for i, r := range requests {
		if r.At < last.At || r.At >= s.Horizon || r.Work < 0 || r.Service < r.Work || r.Service > longest {
			return Problem{}, fmt.Errorf("bound: request %d (at %s, work %s, service %s): out of order, beyond the horizon of %s or impossible",
				i, r.At, r.Work, r.Service, s.Horizon)
		}
		last = r
		counted, slot := count(r)
		work = work.plus(uint64(counted), uint64(units))
		end, ok := work.over(uint64(s.TimeSlot))
		if !ok {
			return Problem{}, fmt.Errorf("bound: request %d brings the work beyond 2^40 units", i)
		}
		due = max(due, int32(min(slot, len(p.Arrivals)+1)))
		p.Arrivals[r.At/s.TimeSlot] += end - before
		p.Jobs = append(p.Jobs, Job{End: end, Due: due})
		before = end
	}
	return p, nil
}

func (s Setup) price(d time.Duration) float64 { return s.HourlyPrice * d.Hours() }

func slotsUp(d, slot time.Duration) int { return int((d + slot - 1) / slot) }

// share returns the work that a request has received when its service reaches the cut: floor(work * cut / service), or all of the work if
// the service ends before the cut.
func share(work, cut, service time.Duration) time.Duration {
	if service <= cut {
		return work
	}
	hi, lo := bits.Mul64(uint64(work), uint64(cut))
	q, _ := bits.Div64(hi, lo, uint64(service)) // work <= service, so the quotient fits in 64 bits
	return time.Duration(q)
}

// wide is a sum of products in 128 bits: the nanoseconds of a week of many replicas do not fit 64 bits.
type wide struct{ hi, lo uint64 }

func (w wide) plus(a, b uint64) wide {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(w.lo, lo, 0)
	hi, _ = bits.Add64(w.hi, hi, carry)
	return wide{hi, lo}
}

func (w wide) over(d uint64) (int64, bool) {
	if w.hi >= d {
		return 0, false
	}
	q, _ := bits.Div64(w.hi, w.lo, d)
	return int64(q), q <= maxUnits
}
