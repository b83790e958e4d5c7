package bound

// unreachable is more than any reachable value (see newMoney), and far enough from the end of int64 to be added to.
const unreachable = int64(1) << 61

// lattice is the dynamic program for one lambda: its layers are the slots, its states (replicas, backlog).
type lattice struct {
	tl      *timeline
	arrived []int64 // A_t
	serve   int64   // g
	boot    int     // no start in slots 1..boot
	cost    int64   // c, in money
	start   int64   // beta, in money
	lambda  int64   // price of a late job, in money
	width   []int32 // backlogs 0..width[t]-1 are kept apart after slot t
	open    []bool  // a backlog beyond width[t] is dropped for free into its last column; otherwise it is forbidden
	lo, hi  []int32 // window of n in slot t; at index 0 both are n_0
	late    []int64 // late price by backlog in the slot at hand
	up      []int64 // best value after starts, by (n, backlog before the slot)
	down    []int64 // best value after stops, for one n
	kept    []layer // see walk
	stretch []layer
	pair    [2]layer
}

// layer holds V_t: one row of `width` values for each n in lo..hi.
type layer struct {
	lo, hi, width int
	v             []int64
}

func (l *layer) row(n int) []int64 { return l.v[(n-l.lo)*l.width : (n-l.lo+1)*l.width] }

// shape makes l the layer of slot t, reusing its memory.
func (g *lattice) shape(l *layer, t int) {
	l.lo, l.hi, l.width = int(g.lo[t]), int(g.hi[t]), int(g.width[t])
	size := (l.hi - l.lo + 1) * l.width
	if cap(l.v) < size {
		l.v = make([]int64, size)
	}
	l.v = l.v[:size]
}

func (g *lattice) first(l *layer) {
	g.shape(l, 0)
	for i := range l.v {
		l.v[i] = unreachable
	}
	l.v[0] = 0
}

// priceLate fills g.late for slot t.
func (g *lattice) priceLate(t int) {
	g.late = g.late[:g.width[t]]
	g.tl.lateRow(t, g.late)
	for q := range g.late {
		g.late[q] *= g.lambda
	}
}

// step computes the layer of slot t from the one before it. Starts first (n-1 -> n at beta, sweeping up), stops next (free,
// sweeping down), then the slot's arrivals and service shift each row: q = max(0, q' + a_t - g n).
func (g *lattice) step(t int, from, to *layer) {
	g.shape(to, t)
	g.priceLate(t)
	top := from.hi
	if t > g.boot {
		top = max(top, to.hi)
	}
	g.sweepUp(t, from, top)
	width := from.width
	down := g.down[:width]
	for q := range down {
		down[q] = unreachable
	}
	for n := to.hi; n > top; n-- {
		row := to.row(n)
		for q := range row {
			row[q] = unreachable
		}
	}
	arrive := g.arrived[t] - g.arrived[t-1]
	for n := top; n >= to.lo; n-- {
		if n >= from.lo {
			best := g.up[(n-from.lo)*width:][:width]
			for q, v := range best {
				down[q] = min(down[q], v)
			}
		}
		if n <= to.hi {
			g.shift(to.row(n), down, move{by: g.serve*int64(n) - arrive, pay: g.cost * int64(n), open: g.open[t]})
		}
	}
}

// sweepUp fills g.up for n = from.lo..top.
func (g *lattice) sweepUp(t int, from *layer, top int) {
	width, start := from.width, g.start
	if t <= g.boot {
		start = unreachable
	}
	below := g.up[:width]
	copy(below, from.row(from.lo))
	for n := from.lo + 1; n <= top; n++ {
		row := g.up[(n-from.lo)*width:][:width]
		if n > from.hi {
			for q, v := range below {
				row[q] = v + start
			}
		} else {
			same := from.row(n)[:len(row)]
			for q, v := range below[:len(row)] {
				row[q] = min(v+start, same[q])
			}
		}
		below = row
	}
}

// move is what a slot with n replicas does to a row: the backlog falls by `by` (or rises), and `pay` is due.
type move struct {
	by, pay int64
	open    bool
}

// shift writes to[max(0, q-by)] = min(from[q]) + pay + late.
func (g *lattice) shift(to, from []int64, m move) {
	last, late := len(to)-1, g.late
	cells, from := g.collapse(to, from, m)
	late = late[len(to)-len(cells):][:len(cells)]
	both := min(len(cells), len(from))
	for q, v := range from[:both] {
		cells[q] = v + m.pay + late[q]
	}
	for q := both; q < len(cells); q++ {
		cells[q] = unreachable
	}
	if beyond := from[both:]; len(beyond) > 0 && m.open {
		to[last] = min(to[last], least(beyond)+m.pay+g.late[last])
	}
}

// collapse fills the columns of to that no single column of from maps to, and returns what is left of both, aligned: service
// beyond the backlog leaves none (columns 0..by of from become column 0); arrivals beyond the service leave at least -by.
func (g *lattice) collapse(to, from []int64, m move) (cells, rest []int64) {
	if m.by >= 0 {
		empty := int(min(m.by+1, int64(len(from))))
		to[0] = least(from[:empty]) + m.pay + g.late[0]
		return to[1:], from[empty:]
	}
	full := int(min(-m.by, int64(len(to))))
	for q := range to[:full] {
		to[q] = unreachable
	}
	return to[full:], from
}

func least(v []int64) int64 {
	m := v[0]
	for _, x := range v[1:] {
		m = min(m, x)
	}
	return m
}
