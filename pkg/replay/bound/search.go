package bound

// line is a schedule as lambda sees it: cost + lambda late.
type line struct {
	schedule []int32
	cost     int64 // money
	late     int64
}

func (l line) at(lambda int64) int64 { return l.cost + lambda*l.late }

// search looks for the best lambda and the best schedule.
type search struct {
	p         *Problem
	tl        *timeline
	o         Options
	grid      lattice
	unit      float64 // currency per money
	maxLambda int64
	age       int   // slots of arrivals that the backlog may hold before the oldest is dropped
	columns   int64 // backlogs that memory allows
	lines     []line
	best      line  // cheapest that keeps the SLO; schedule nil: none yet
	lower     int64 // money
	lambda    int64 // where lower was found
	solves    int
	full      int  // of these, over every n
	every     bool // the grid covers every n
	settled   bool // lambda is no longer the first guess
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
	s := &search{p: p, tl: tl, o: o, age: p.WaitSlots + 4}
	step := stride(tl.slots)
	s.columns = max(2, o.MemoryBytes/(8*int64(p.MaxReplicas+1)*int64(2*step+3)))
	s.grid = lattice{
		tl: tl, arrived: tl.arrived, serve: p.UnitsPerReplicaSlot, boot: p.BootSlots,
		width: make([]int32, tl.slots+1), open: make([]bool, tl.slots+1),
		lo: make([]int32, tl.slots+1), hi: make([]int32, tl.slots+1),
		kept: make([]layer, tl.slots/step+1), stretch: make([]layer, step),
	}
	s.grid.lo[0], s.grid.hi[0] = int32(p.InitialReplicas), int32(p.InitialReplicas)
	return s, s.setMoney()
}

// meet takes note of a schedule: a line for lambda, and an upper bound where it keeps the SLO.
func (s *search) meet(schedule []int32) line {
	c := play(s.p, s.tl, schedule, nil)
	l := line{schedule: schedule, cost: c.ReplicaSlots*s.grid.cost + c.Starts*s.grid.start, late: c.Late}
	s.lines = append(s.lines, l)
	if l.late <= s.tl.allowed && (s.best.schedule == nil || l.cost < s.best.cost) {
		s.best = l
	}
	return l
}

// forbid solves the problem in which no job may be late. Where the clamp binds, dropping gives LB and forbidding UB.
func (s *search) forbid() {
	tl := s.tl
	narrow := false
	for t := range s.grid.width {
		onTime := tl.arrived[t] - tl.end(tl.due[t])
		s.grid.width[t] = int32(min(onTime+1, s.columns))
		s.grid.open[t] = onTime+1 > s.columns
		narrow = narrow || s.grid.open[t]
	}
	s.everyN()
	value, schedule := s.walk(0)
	l := s.meet(schedule)
	s.lower, s.clamped = value, l.cost != value || l.late > 0
	if s.clamped && narrow {
		clear(s.grid.open)
		if _, schedule := s.walk(0); schedule != nil {
			s.meet(schedule)
		}
	}
}

// price solves the problem in which some jobs may be late.
func (s *search) price() {
	s.clamp()
	lambda, around := s.guess(), []line{s.meet(levels(s.p, needPerSlot(s.p)))}
	for s.solves < s.o.MaxSolves {
		s.window(around)
		lambda = s.settle(lambda)
		s.everyN()
		model := s.model(lambda)
		value, schedule := s.walk(lambda)
		l := s.meet(schedule)
		leans := l.at(lambda) != value
		if lower := value - lambda*s.tl.allowed; s.full == 1 || lower > s.lower {
			s.lower, s.lambda, s.clamped = lower, lambda, leans
		}
		s.patch()
		if s.closed() {
			return
		}
		next := s.apex()
		if !(leans && s.widen()) && (value >= model || next == lambda) {
			return
		}
		lambda, around = next, append(s.active(), l)
	}
}

// settle improves lambda by dynamic programs confined to a window of n, until they find nothing that the schedules at hand do
// not promise already. Their values are no bounds; their schedules are as good as any.
func (s *search) settle(lambda int64) int64 {
	for s.solves < s.o.MaxSolves-1 {
		model := s.model(lambda)
		value, schedule := s.walk(lambda)
		s.meet(schedule)
		next := s.apex()
		if next == lambda || s.settled && float64(model-value) <= s.o.Tolerance/8*float64(model) {
			return next
		}
		s.settled = true
		s.window(s.active())
		lambda = next
	}
	return lambda
}

func (s *search) closed() bool {
	return s.best.schedule != nil && float64(s.best.cost-s.lower) <= s.o.Tolerance*float64(s.lower)
}

// walk runs the dynamic program as it is set up.
func (s *search) walk(lambda int64) (int64, []int32) {
	s.solves++
	if s.every {
		s.full++
	}
	s.grid.lambda = lambda
	s.grid.size()
	shown := max(1, s.tl.slots/100)
	value, schedule := s.grid.walk(func(slot int) {
		if s.o.Progress != nil && slot%shown == 0 {
			s.o.Progress(s.progress(slot))
		}
	})
	s.bytes = max(s.bytes, s.grid.bytes())
	return value, schedule
}

func (s *search) progress(slot int) Progress {
	return Progress{
		Solve: s.solves, Slot: slot, Slots: s.tl.slots, EveryN: s.every,
		LB: max(0, float64(s.lower)*s.unit-s.p.Rebate), UB: max(0, float64(s.best.cost)*s.unit-s.p.Rebate),
	}
}

// guess is a first lambda: a start and two slots of one replica, shared by the jobs that it serves in a slot.
func (s *search) guess() int64 {
	perSlot := float64(s.grid.serve) * float64(s.tl.jobs) / float64(s.tl.arrived[s.tl.slots])
	return int64(min(float64(s.grid.start+2*s.grid.cost)/perSlot, float64(s.maxLambda)))
}

// model is the least Lagrangian that the schedules at hand promise; the true one is at most this.
func (s *search) model(lambda int64) int64 {
	least := s.lines[0].at(lambda)
	for _, l := range s.lines {
		least = min(least, l.at(lambda))
	}
	return least
}

// apex is the lambda at which the model's bound, model - lambda allowed, is greatest. It is concave in lambda and rises while
// the least line makes more jobs late than allowed.
func (s *search) apex() int64 {
	lo, hi := int64(0), s.maxLambda
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		least := s.lines[0]
		for _, l := range s.lines {
			if l.at(mid) < least.at(mid) {
				least = l
			}
		}
		if least.late > s.tl.allowed {
			lo = mid
		} else {
			hi = mid
		}
	}
	if s.model(lo)-lo*s.tl.allowed > s.model(hi)-hi*s.tl.allowed {
		return lo
	}
	return hi
}
