package lowerbound

// unreachable is more than any reachable value (see setMoney), and far enough from the end of int64 to be added to.
const unreachable = int64(1) << 61

// lattice is the dynamic program for one lambda: its layers are the slots, its states (replicas, backlog).
type lattice struct {
	tl      *timeline
	serve   int64     // g
	boot    int       // no start in slots 1..boot
	cost    int64     // c, in money
	start   int64     // beta, in money
	lambda  int64     // price of a late job, in money
	drop    bool      // a backlog beyond an open slot's last column is dropped into it, for free; otherwise it is forbidden
	columns []columns // by slot
	lo, hi  []int32   // window of n in slot t; at index 0 both are n_0
	late    []int64   // late price by column in the slot at hand
	up      []int64   // best value after starts, by (n, column before the slot)
	down    []int64   // best value after stops, for one n
	kept    []layer   // see run
	stretch []layer
	pair    [2]layer
	last    *layer
}

// layer holds V_t: one row for each n in lo..hi, one column for each backlog told apart.
type layer struct {
	lo, hi, width int
	v             []int64
}

func (l *layer) row(n int) []int64 { return l.v[(n-l.lo)*l.width : (n-l.lo+1)*l.width] }

// shape makes l the layer of slot t, reusing its memory.
func (g *lattice) shape(l *layer, t int) {
	l.lo, l.hi, l.width = int(g.lo[t]), int(g.hi[t]), g.columns[t].width()
	size := (l.hi - l.lo + 1) * l.width
	if cap(l.v) < size {
		l.v = make([]int64, size)
	}
	l.v = l.v[:size]
}

func (g *lattice) first(l *layer) {
	g.shape(l, 0)
	fill(l.v)
	l.v[0] = 0
}

// priceLate fills g.late for slot t.
func (g *lattice) priceLate(t int) {
	c := &g.columns[t]
	g.late = g.late[:c.width()]
	g.tl.lateRow(t, g.late[:c.fine])
	for j := c.fine; j < len(g.late); j++ {
		g.late[j] = g.tl.late(t, c.served(j, g.serve))
	}
	for j := range g.late {
		g.late[j] *= g.lambda
	}
}

// step computes the layer of slot t from the one before it. Starts first (n-1 -> n at beta, sweeping up), stops next (free,
// sweeping down), then the slot's arrivals and service shift each row: q = max(0, q' + a_t - g n).
func (g *lattice) step(t int, from, to *layer) {
	g.shape(to, t)
	g.priceLate(t)
	top, start := from.hi, unreachable
	if t > g.boot {
		top, start = max(top, to.hi), g.start
	}
	g.sweepUp(from, top, start)
	width := from.width
	down := g.down[:width]
	fill(down)
	for n := to.hi; n > top; n-- {
		fill(to.row(n))
	}
	m := move{from: &g.columns[t-1], to: &g.columns[t], serve: g.serve, late: g.late}
	m.open = g.drop && m.to.open
	for n := top; n >= to.lo; n-- {
		started := down // below from.lo there is only stopping
		if n >= from.lo {
			started = g.up[(n-from.lo)*width:][:width]
		}
		if n > to.hi {
			stop(down, started)
			continue
		}
		m.n, m.pay = int64(n), g.cost*int64(n)
		m.shift(to.row(n), down, started)
	}
}

// sweepUp fills g.up for n = from.lo..top.
func (g *lattice) sweepUp(from *layer, top int, start int64) {
	width := from.width
	below := g.up[:width]
	copy(below, from.row(from.lo))
	for n := from.lo + 1; n <= top; n++ {
		row := g.up[(n-from.lo)*width:][:len(below)]
		if n > from.hi {
			for q, v := range below {
				row[q] = v + start
			}
		} else {
			same := from.row(n)[:len(below)]
			for q, v := range below {
				row[q] = min(v+start, same[q])
			}
		}
		below = row
	}
}

// stop lowers down to started where that is less, and returns the least.
func stop(down, started []int64) int64 {
	least := 2 * unreachable // an unreachable value that has been added to is above unreachable
	started = started[:len(down)]
	for q, v := range down {
		v = min(v, started[q])
		down[q] = v
		least = min(least, v)
	}
	return least
}

func fill(v []int64) {
	for i := range v {
		v[i] = unreachable
	}
}
