package lowerbound

import "fmt"

// line is a known schedule. Its Lagrangian, which is its cost plus lambda for each late job, is a linear function of lambda.
type line struct {
	schedule []int32
	cost     int64 // cost of the schedule, in money
	late     int64 // number of late jobs
	// late jobs as the dynamic program counts them, with large backlogs rounded down; -1: the schedule is not from a dynamic program
	modelled int64
}

func (l line) at(lambda int64) int64 {
	if l.modelled < 0 {
		return unreachable
	}
	return l.cost + lambda*l.modelled
}

// search finds the best lambda and the best schedule.
type search struct {
	p         *Problem
	tl        *timeline
	o         Options
	grid      lattice
	unit      float64 // amount of the currency per unit of money
	maxLambda int64
	most      int64  // maximum number of columns in memory
	lines     []line // known valid schedules; some of them miss the SLO
	best      line   // cheapest schedule that keeps the SLO; nil: none yet
	lower     int64  // best lower bound so far, in money
	lambda    int64  // the lambda for which lower was found
	low, high int64  // highest lambda for which too many jobs were late, and lowest lambda for which no more than allowed were late
	streak    int    // how many programs in a row had a lambda that was too low; negative: too high
	solves    int
	full      int  // number of programs without a window: they used every number of replicas
	every     bool // whether the window, the range of replicas in each slot, contains every number of replicas
	clamped   bool
	bytes     int64
}

func newSearch(p *Problem, tl *timeline, o Options) (*search, error) {
	if o.Tolerance <= 0 {
		o.Tolerance = 0.001
	}
	if o.MaxSolves <= 0 {
		o.MaxSolves = 60
	}
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = 512 << 20
	}
	s := &search{p: p, tl: tl, o: o}
	step := stride(tl.slots)
	s.most = o.MemoryBytes / (8 * int64(p.MaxReplicas+1) * int64(2*step+3))
	if s.most < max(8, 2*p.UnitsPerReplicaSlot) {
		return nil, fmt.Errorf("bound: %d MiB of tables hold %d backlogs for each of %d replicas over %d slots, fewer than two replica slots "+
			"of %d units",
			o.MemoryBytes>>20, s.most, p.MaxReplicas, tl.slots, p.UnitsPerReplicaSlot)
	}
	s.grid = lattice{
		tl: tl, serve: p.UnitsPerReplicaSlot, boot: p.BootSlots,
		columns: make([]columns, tl.slots+1), lo: make([]int32, tl.slots+1), hi: make([]int32, tl.slots+1),
		kept: make([]layer, tl.slots/step+1), stretch: make([]layer, step),
	}
	s.grid.lo[0], s.grid.hi[0] = int32(p.InitialReplicas), int32(p.InitialReplicas)
	err := s.setMoney()
	s.high = s.maxLambda
	return s, err
}

// meet adds a schedule to the known schedules. If it keeps the SLO and costs less than the best schedule, it becomes the best schedule, and
// its cost is the new upper bound.
func (s *search) meet(schedule []int32) line {
	c := play(s.p, s.tl, schedule, nil)
	l := line{schedule: schedule, cost: c.ReplicaSlots*s.grid.cost + c.Starts*s.grid.start, late: c.Late, modelled: -1}
	if s.p.ServeAll && c.Backlog > 0 {
		return l
	}
	if l.late <= s.tl.allowed {
		l.modelled = l.late
		if s.best.schedule == nil || l.cost < s.best.cost {
			s.best = l
		}
	}
	s.lines = append(s.lines, l)
	return l
}

// trace reads the schedule that the last dynamic program found, adds it to the known schedules, and returns it as a line. value is the
// minimum that the program found. dropped is true if the program dropped work without cost, so that the schedule does not serve all of it.
func (s *search) trace(value int64) (l line, dropped bool) {
	schedule, dropped := s.grid.back()
	l = s.meet(schedule)
	l.modelled = l.late // with lambda 0, late jobs do not change the value
	if s.grid.lambda > 0 {
		l.modelled = (value - l.cost) / s.grid.lambda
	}
	s.lines = append(s.lines, l)
	s.narrow(s.grid.lambda, l)
	return l, dropped
}

// forbid solves a problem in which no job may be late. If memory is not sufficient for all backlogs, the dynamic program drops work without
// cost, and its minimum is LB. In that case, a second program that drops no work computes UB.
func (s *search) forbid() {
	s.grid.drop = s.clamp()
	s.everyN()
	s.lower = s.run(0)
	_, s.clamped = s.trace(s.lower)
	if s.clamped {
		s.grid.drop = false
		if value := s.run(0); value < unreachable {
			s.trace(value)
		}
	}
}

// price solves a problem in which some jobs may be late: it searches for the best price of a late job, lambda.
func (s *search) price() {
	s.grid.drop = s.clamp()
	lambda, around := s.guess(), []line{s.meet(levels(s.p, needPerSlot(s.p)))}
	for s.solves < s.o.MaxSolves {
		s.window(around)
		lambda = s.settle(lambda)
		s.everyN()
		model := s.model(lambda)
		value := s.run(lambda)
		better := s.full == 1 || value-lambda*s.tl.allowed > s.lower
		if better {
			s.lower, s.lambda = value-lambda*s.tl.allowed, lambda
		}
		s.recombine()
		if s.closed() {
			return
		}
		l, dropped := s.trace(value)
		if better {
			s.clamped = dropped
		}
		s.recombine()
		next := s.next(lambda)
		if s.closed() || value >= model || next == lambda {
			return
		}
		lambda, around = next, append(s.active(), l)
	}
}

// settle improves lambda with dynamic programs that use only the numbers of replicas in the window, and returns the last lambda. It ends
// when a program finds no schedule with a lower Lagrangian than the known schedules. A program with a window finds valid schedules, but its
// value is not a lower bound.
func (s *search) settle(lambda int64) int64 {
	for s.solves < s.o.MaxSolves-1 {
		model := s.model(lambda)
		value := s.run(lambda)
		if value >= unreachable { // no schedule in the window keeps the SLO
			return lambda
		}
		s.trace(value)
		next := s.next(lambda)
		if next == lambda || float64(model-value) <= s.o.Tolerance/4*float64(value) {
			return next
		}
		s.window(s.active())
		lambda = next
	}
	return lambda
}

func (s *search) closed() bool {
	return s.best.schedule != nil && float64(s.best.cost-s.lower) <= s.o.Tolerance*float64(s.lower)
}

// run computes one dynamic program for the numbers of replicas in the current window, and returns the minimum of its Lagrangian.
func (s *search) run(lambda int64) int64 {
	s.solves++
	if s.every {
		s.full++
	}
	s.grid.lambda = lambda
	s.grid.size()
	shown := max(1, s.tl.slots/100)
	value := s.grid.run(func(slot int) {
		if s.o.Context != nil && slot%shown == 0 && s.o.Context.Err() != nil {
			panic(interrupted{s.o.Context.Err()})
		}
		if s.o.Progress != nil && slot%shown == 0 {
			s.o.Progress(s.progress(slot))
		}
	})
	s.bytes = max(s.bytes, s.grid.bytes())
	return value
}

func (s *search) progress(slot int) Progress {
	return Progress{
		Solve: s.solves, TimeSlot: slot, TimeSlots: s.tl.slots, EveryN: s.every,
		LB: max(0, float64(s.lower)*s.unit-s.p.Rebate), UB: max(0, float64(s.best.cost)*s.unit-s.p.Rebate),
	}
}
