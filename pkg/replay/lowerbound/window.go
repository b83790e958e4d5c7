package lowerbound

// everyN sets the window so that the dynamic program uses every possible number of replicas.
func (s *search) everyN() {
	s.every = true
	for t := 1; t <= s.tl.slots; t++ {
		s.grid.lo[t], s.grid.hi[t] = 0, int32(s.ceiling(t))
	}
}

// ceiling returns the maximum number of replicas that can be ready in slot t.
func (s *search) ceiling(t int) int {
	if t <= s.p.BootSlots {
		return s.p.InitialReplicas
	}
	return s.p.MaxReplicas
}

// window limits the number of replicas in each slot to a range around the numbers of the given schedules. The range has a margin of some
// replicas. It also includes the numbers of the six slots before and after, so that the program can start a replica earlier or later. In
// the last slots, if all their work may be unserved, the range begins at 0, because an early stop can be cheaper.
func (s *search) window(around []line) {
	const reach = 6
	margin := int32(max(2, s.p.MaxReplicas/16))
	s.every = false
	slots := s.tl.slots
	low, high := make([]int32, slots), make([]int32, slots)
	for i := range low {
		low[i], high[i] = around[0].schedule[i], around[0].schedule[i]
		for _, l := range around[1:] {
			low[i], high[i] = min(low[i], l.schedule[i]), max(high[i], l.schedule[i])
		}
	}
	for i := range low {
		if s.dispensable(i + 1) {
			low[i] = 0
		}
	}
	for t := 1; t <= slots; t++ {
		lo, hi := low[t-1], high[t-1]
		for i := max(0, t-1-reach); i <= min(slots-1, t-1+reach); i++ {
			lo, hi = min(lo, low[i]), max(hi, high[i])
		}
		s.grid.hi[t] = min(hi+margin, int32(s.ceiling(t)))
		s.grid.lo[t] = min(max(lo-margin, 0), s.grid.hi[t])
	}
}

// dispensable reports whether the SLO is kept even if no work is served from slot t on.
func (s *search) dispensable(t int) bool {
	return !s.p.ServeAll && s.tl.jobs-s.tl.due[min(t-1+s.p.WaitSlots, s.tl.slots)] <= s.tl.allowed
}

// active returns the schedules around which the next window is placed:
//
//   - the schedule that was found last, and the best schedule
//   - of the schedules with too many late jobs, the one with the lowest Lagrangian at the lambda of the apex
//   - of the other schedules, the one with the lowest Lagrangian at that lambda
func (s *search) active() []line {
	around := []line{s.lines[len(s.lines)-1]}
	if s.best.schedule != nil {
		around = append(around, s.best)
	}
	lambda := s.apex()
	for _, side := range []bool{true, false} {
		least := line{modelled: -1}
		for _, l := range s.lines {
			if (l.modelled > s.tl.allowed) == side && l.at(lambda) < least.at(lambda) {
				least = l
			}
		}
		if least.schedule != nil {
			around = append(around, least)
		}
	}
	return around
}

// clamp sets the columns of each slot. A backlog with more overdue jobs than may be late in total violates the SLO and has no column. A
// backlog that is not larger than the arrivals of the last few slots has its own column. Of the larger backlogs, each g consecutive ones
// share a column. narrow is true if the largest backlogs have no column because memory is not sufficient.
func (s *search) clamp() (narrow bool) {
	tl, g := s.tl, s.p.UnitsPerReplicaSlot
	for t := range s.grid.columns {
		arrived := tl.arrived[t]
		must := tl.end(max(0, tl.due[t]-tl.allowed)) // least work that must be served by the end of slot t
		if s.p.ServeAll && t == tl.slots {
			must = arrived
		}
		fine := max(tl.arrived[max(0, t-s.p.WaitSlots-2)], arrived-s.most/2)
		c := columns{arrived: arrived, top: min(fine, arrived-1) / g}
		if fine == 0 || must > g*c.top {
			c.top, c.fine = -1, int(arrived-must+1)
		} else {
			deepest := (must + g - 1) / g
			c.fine = int(arrived - g*c.top)
			c.coarse = int(min(c.top-deepest+1, max(1, s.most-int64(c.fine))))
			c.open = c.top-int64(c.coarse)+1 > deepest
		}
		s.grid.columns[t] = c
		narrow = narrow || c.open
	}
	return narrow
}

// size allocates the temporary rows, whose lengths depend on the columns and on the windows.
func (g *lattice) size() {
	width, rows := 0, 0
	for t := range g.columns {
		width = max(width, g.columns[t].width())
		from := max(0, t-1)
		rows = max(rows, int(max(g.hi[from], g.hi[t])-g.lo[from])+1)
	}
	if cap(g.late) < width {
		g.late, g.down = make([]int64, width), make([]int64, width)
	}
	if cap(g.up) < width*rows {
		g.up = make([]int64, width*rows)
	}
	g.up = g.up[:cap(g.up)]
	g.down = g.down[:cap(g.down)]
}

// bytes returns the memory that the tables need.
func (g *lattice) bytes() int64 {
	cells := cap(g.late) + cap(g.down) + cap(g.up)
	for _, layers := range [][]layer{g.kept, g.stretch, g.pair[:]} {
		for i := range layers {
			cells += cap(layers[i].v)
		}
	}
	return 8 * int64(cells)
}
