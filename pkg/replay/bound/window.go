package bound

// everyN makes the grid cover every number of replicas.
func (s *search) everyN() {
	s.every = true
	for t := 1; t <= s.tl.slots; t++ {
		s.grid.lo[t], s.grid.hi[t] = 0, int32(s.ceiling(t))
	}
}

// ceiling is the most replicas that can be ready in slot t.
func (s *search) ceiling(t int) int {
	if t <= s.p.BootSlots {
		return s.p.InitialReplicas
	}
	return s.p.MaxReplicas
}

// window confines the grid to the neighbourhood of some schedules: a margin of replicas around all that they use within some
// slots, so that a start can also move in time.
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
	for t := 1; t <= slots; t++ {
		lo, hi := low[t-1], high[t-1]
		for i := max(0, t-1-reach); i <= min(slots-1, t-1+reach); i++ {
			lo, hi = min(lo, low[i]), max(hi, high[i])
		}
		s.grid.hi[t] = min(hi+margin, int32(s.ceiling(t)))
		s.grid.lo[t] = min(max(lo-margin, 0), s.grid.hi[t])
	}
}

// active are the schedules to look around: the best one, and on either side of the apex the one that supports it. Not the first
// two, which serve nothing and everything.
func (s *search) active() []line {
	around := []line{s.lines[len(s.lines)-1]}
	if s.best.schedule != nil {
		around = append(around, s.best)
	}
	lambda := s.apex()
	for _, side := range []bool{true, false} {
		var least *line
		for i := range s.lines[2:] {
			l := &s.lines[2+i]
			if (l.late > s.tl.allowed) == side && (least == nil || l.at(lambda) < least.at(lambda)) {
				least = l
			}
		}
		if least != nil {
			around = append(around, *least)
		}
	}
	return around
}

// clamp sets how much backlog is kept apart after each slot: the arrivals of the last `age` slots, as far as memory allows.
func (s *search) clamp() {
	tl := s.tl
	for t := range s.grid.width {
		backlog := tl.arrived[t] - tl.arrived[max(0, t-s.age)]
		s.grid.width[t] = int32(min(backlog+1, s.columns))
		s.grid.open[t] = true
	}
}

// widen doubles the clamp; false: it cannot grow.
func (s *search) widen() bool {
	before := append([]int32(nil), s.grid.width...)
	s.age *= 2
	s.clamp()
	for t, w := range s.grid.width {
		if w > before[t] {
			return true
		}
	}
	return false
}

// size fits the scratch rows of the lattice to its widths and windows.
func (g *lattice) size() {
	width, rows := 0, 0
	for t := range g.width {
		width = max(width, int(g.width[t]))
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
}

// bytes is the memory that the tables hold.
func (g *lattice) bytes() int64 {
	cells := cap(g.late) + cap(g.down) + cap(g.up)
	for _, layers := range [][]layer{g.kept, g.stretch, g.pair[:]} {
		for i := range layers {
			cells += cap(layers[i].v)
		}
	}
	return 8 * int64(cells)
}
