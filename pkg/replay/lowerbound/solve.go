package lowerbound

import (
	"context"
	"fmt"
	"math"
)

// Options limit and show the work of Solve. The zero value is good.
type Options struct {
	Tolerance   float64         // stop once UB/LB - 1 is at most this; 0 means 0.001
	MaxSolves   int             // dynamic programs to run at most; 0 means 60. The interval is valid wherever it stops
	MemoryBytes int64           // for the tables; 0 means 512 MiB. Less may clamp the backlog, which lowers LB
	Progress    func(Progress)  // called about a hundred times per dynamic program, on the caller's goroutine
	Context     context.Context // its end stops Solve, with its error; nil: nothing does
}

// interrupted leaves the tables from wherever they are being filled.
type interrupted struct{ error }

// Progress is where Solve stands.
type Progress struct {
	Solve       int // the dynamic program at hand, counted from 1
	Slot, Slots int
	LB, UB      float64 // the interval so far
	EveryN      bool    // the program at hand covers every n, rather than a window
}

// Interval is the certified answer: no schedule that keeps the SLO costs less than LB, and Schedule keeps it at UB.
type Interval struct {
	LB, UB      float64 // currency of the problem, after its rebate; never below 0
	Schedule    []int32 // ready replicas in each slot; costs UB (before the rebate)
	Exact       bool    // LB and UB meet, but for rounding of the start cost to 2^-24 of a replica slot
	Jobs        int64
	Allowed     int64   // jobs that may be late
	Late        int64   // jobs that are late under Schedule
	Lambda      float64 // price of a late job at which LB was found, in currency
	Solves      int     // dynamic programs run
	FullSolves  int     // of these, over every n: the ones that LB rests on
	Clamped     bool    // LB leans on backlog dropped for free (MemoryBytes too small); still a bound
	Bytes       int64   // memory of the tables
	Relaxations []string
}

// Gap is UB/LB, 1 where both are 0.
func (i Interval) Gap() float64 {
	if i.UB <= i.LB {
		return 1
	}
	return i.UB / i.LB
}

// Solve finds the interval. It fails on a malformed problem, with ErrInfeasible, and with its context's error.
func Solve(p Problem, o Options) (out Interval, err error) {
	defer func() {
		switch stopped := recover().(type) {
		case nil:
		case interrupted:
			out, err = Interval{}, stopped.error
		default:
			panic(stopped)
		}
	}()
	tl, err := newTimeline(&p)
	if err != nil {
		return Interval{}, err
	}
	s, err := newSearch(&p, tl, o)
	if err != nil {
		return Interval{}, err
	}
	effort := play(&p, tl, bestEffort(&p), nil)
	if effort.Late > tl.allowed || p.ServeAll && effort.Backlog > 0 {
		return Interval{}, fmt.Errorf("bound: %w: with at most %d replicas at least %d of %d jobs are late (%d may be) and %d units unserved at the end",
			ErrInfeasible, p.MaxReplicas, effort.Late, tl.jobs, tl.allowed, effort.Backlog)
	}
	nothing := make([]int32, tl.slots)
	switch c := play(&p, tl, nothing, nil); {
	case c.Late <= tl.allowed && !(p.ServeAll && c.Backlog > 0):
		s.meet(nothing)
	case tl.allowed == 0 && tl.immediate():
		s.meet(levels(&p, needPerSlot(&p)))
		s.lower = s.best.cost
	case tl.allowed == 0:
		s.forbid()
	default:
		s.price()
	}
	if s.best.schedule == nil { // the clamps, or MaxSolves, kept every better schedule out of sight
		s.meet(bestEffort(&p))
	}
	return s.interval(), nil
}

func (s *search) interval() Interval {
	p, tl := s.p, s.tl
	c := play(p, tl, s.best.schedule, nil)
	i := Interval{
		LB:       max(0, min(float64(s.lower)*s.unit, c.Total)-p.Rebate),
		UB:       max(0, c.Total-p.Rebate),
		Schedule: s.best.schedule, Exact: s.lower == s.best.cost,
		Jobs: tl.jobs, Allowed: tl.allowed, Late: c.Late,
		Lambda: float64(s.lambda) * s.unit, Solves: s.solves, FullSolves: s.full, Clamped: s.clamped,
		Bytes: s.bytes, Relaxations: p.Relaxations,
	}
	return i
}

// setMoney chooses the integer unit of money: 2^-24 of a replica slot, coarser where sums along a path could outgrow int64.
// The start cost is rounded down, which can only lower the lower bound.
func (s *search) setMoney() error {
	p := s.p
	most := float64(s.tl.slots) * float64(p.MaxReplicas)
	for bits := 24; bits >= 8; bits-- {
		cost := math.Ldexp(1, bits)
		start := math.Floor(p.StartCost / p.ReplicaSlotCost * cost)
		if most*(cost+start) < 1<<59 {
			s.grid.cost, s.grid.start = int64(cost), int64(start)
			s.unit = p.ReplicaSlotCost / cost
			s.maxLambda = (1 << 59) / max(1, s.tl.jobs)
			return nil
		}
	}
	return fmt.Errorf("bound: a start (%v) costs too many replica slots (at %v) for %d slots", p.StartCost, p.ReplicaSlotCost, s.tl.slots)
}
