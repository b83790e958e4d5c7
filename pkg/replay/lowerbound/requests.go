package lowerbound

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Request contains the data of one request that the bounds use.
type Request struct {
	At      time.Duration // time of arrival since the beginning of the trace, >= 0; requests are in the order of arrival
	Work    time.Duration // replica time that the request needs if all slots of the replica are in use (highest throughput), >= 0
	Service time.Duration // longest time from the start of the request to its end, >= Work; for a replica with C slots: C * Work
}

// Setup has the common properties of the compared runs.
type Setup struct {
	TimeSlot        time.Duration // length of a slot
	Horizon         time.Duration // end of the time for which replicas are paid; the time begins at 0, and no request may arrive after it
	ColdStart       time.Duration // shortest time from launch to ready
	Wait            time.Duration // W: a request is on time if it starts within W after its arrival
	LateShare       float64       // eps: share of the requests that may be late
	MaxReplicas     int           // maximum number of replicas, including starting and draining replicas
	InitialReplicas int           // replicas that are ready at time 0; no other replica is starting then
	HourlyPrice     float64       // price of a replica per hour, from its launch until it has drained
	StartFee        float64       // additional price of each launch
	ServeAll        bool          // the runs serve every request before Horizon
	Units           int64         // units of work that a replica serves in a slot; 0: chosen so that MaxReplicas serve about 512 in a slot
}

// longest is the limit of each duration in the input, so that a sum of durations fits in 64 bits.
const longest = time.Duration(1 << 60)

// Fluid returns the slot model of a request log. The ready replicas serve the work of each slot, the oldest first. A request is on time if
// its last unit is served within floor(W/slot) slots after the slot of its arrival.
//
// Units are integers: the cumulative work up to each request is rounded down. The served work at the end of each slot is then the same as
// in the model with real numbers, also rounded down. A request that is on time in that model is therefore on time here, and LB remains a
// lower bound of that model.
//
// Real servers serve whole requests, and the model assumes that the requests of a slot arrive at its beginning. In a run with the schedule
// of UB, waits are therefore about half a slot to one slot longer than in the model. For a schedule whose real waits are at most W, call
// Fluid with a Wait that is one slot shorter than W.
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

// RequestLevel returns the problem whose LB is valid for every FIFO run of real servers, in which arrivals and starts occur at any time.
//
// Proof: consider a run that starts requests in the order of their arrival. Let r_i be the arrival time of request i, and x the cut (0: the
// longest service time).
//
//   - If request i is on time, all requests up to i have started by r_i + W. By r_i + W + x, each of them has received the work of its
//     first x of service. Count only that work. At any time, the run has then processed at most as much as a fluid queue with the same
//     replicas, so request i is on time in the fluid queue with the deadline r_i + W + x.
//   - Now use a fluid queue with slots: requests arrive at the start of their slot, deadlines are at the end of their slot, and a replica
//     that is ready at any time of a slot counts for the whole slot. None of these three changes makes a request later.
//   - The third change adds less than one slot at the start and at the end of the life of a replica. The start cost is therefore reduced by
//     two slots, and the total by one slot for each replica that is ready at the beginning.
//   - The replicas that count in a slot existed together at its beginning, because each was launched a cold start before it was ready.
//     Their number is therefore at most MaxReplicas.
//
// A smaller cut counts less work with an earlier deadline. Every cut gives a valid bound, so the caller can use the highest of several. The
// bound assumes that after any share of Service, at least the same share of Work is done.
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

// problem returns the Problem with the fields that Fluid and RequestLevel set in the same way. The function count returns the work of a
// request that the problem includes, and the slot in which the request is due.
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

// wide is a sum of products in 128 bits. The nanoseconds that many replicas need in a week exceed 64 bits.
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
