package lowerbound

import (
	"context"
	"fmt"
	"math"
)

// Options configure Solve. The zero value is usable.
type Options struct {
	Tolerance   float64         // Solve ends when UB/LB - 1 is at most this; 0 means 0.001
	MaxSolves   int             // maximum number of dynamic programs; 0 means 60; the interval is valid after any number
	MemoryBytes int64           // maximum memory of the tables; 0 means 512 MiB. With less memory, Solve may drop work for LB, which lowers LB
	Progress    func(Progress)  // called about a hundred times per dynamic program, in the goroutine that called Solve
	Context     context.Context // Solve returns an error when the context ends; may be nil
}

// interrupted is the value of the panic that ends the computation of the tables when the context ends.
type interrupted struct{ error }

// Progress is the state of Solve.
type Progress struct {
	Solve               int // number of the current program, counted from 1
	TimeSlot, TimeSlots int
	LB, UB              float64 // the interval so far
	EveryN              bool    // the current program uses every number of replicas, without a window
}

// Interval is the result of Solve. No schedule that keeps the SLO costs less than LB. Schedule keeps the SLO and costs UB.
type Interval struct {
	LB, UB      float64 // in the currency of the problem, after the rebate; not negative
	Schedule    []int32 // ready replicas in each slot; UB is the cost of this schedule after the rebate
	Exact       bool    // LB equals UB, except for the rounding of the start cost
	Jobs        int64
	Allowed     int64   // jobs that may be late
	Late        int64   // jobs that are late under Schedule
	Lambda      float64 // the price of a late job for which LB was found, in the currency of the problem
	Solves      int     // number of dynamic programs
	FullSolves  int     // number of programs without a window; only these determine LB
	Clamped     bool    // MemoryBytes was too small, so the program for LB drops work without cost; LB remains a lower bound
	Bytes       int64   // memory of the tables
	Relaxations []string
}

// Gap returns UB/LB, or 1 if both are 0.
func (i Interval) Gap() float64 {
	if i.UB <= i.LB {
		return 1
	}
	return i.UB / i.LB
}

// Solve computes the interval. It returns an error for an invalid problem, ErrInfeasible, or the error of the context.
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
		return Interval{}, fmt.Errorf("bound: %w: with at most %d replicas at least %d of %d jobs are late (%d may be) and %d units unserved "+
			"at the end",
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
	if s.best.schedule == nil { // no schedule was found: some backlogs have no column, or MaxSolves was reached
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

// setMoney sets the unit of money: 2^-24 of the price of a replica slot, or more if a sum of costs would not fit in an int64. The start
// cost is rounded down to this unit, which can only lower the lower bound.
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
