package lowerbound

// unreachable is the cost of a state that no schedule reaches. It is larger than every real cost, because setMoney limits real costs. Costs
// can be added to it without an overflow.
const unreachable = int64(1) << 61

// lattice is the dynamic program for one lambda (the price of a late job). It has a layer for each slot. A layer has a state for each
// number of replicas (n) with each backlog (q).
type lattice struct {
	tl      *timeline
	serve   int64     // g: units of work that a ready replica serves in a slot
	boot    int       // no replica can be started in slots 1..boot
	cost    int64     // c: price of a ready replica for a slot, in money
	start   int64     // beta: price of a start, in money
	lambda  int64     // price of a late job, in money
	drop    bool      // true: work beyond the last column of a slot may be dropped without cost, if that slot has open columns
	columns []columns // columns of each slot
	lo, hi  []int32   // lowest and highest number of replicas in each slot; at index 0 both are the number at the beginning
	late    []int64   // price of the late jobs in the current slot, by column
	up      []int64   // least cost with n replicas after starts, by n and by column before the slot
	down    []int64   // least cost with n replicas after stops, by column before the slot; for the current n only
	kept    []layer   // the layers that run stores so that back can find the schedule
	stretch []layer
	pair    [2]layer
	last    *layer
}

// layer contains the least cost of all slots up to one slot (the slot of the layer), for each state at the end of that slot. It has one row
// for each number of replicas from lo to hi. A row has a value for each column, that is, for each backlog.
type layer struct {
	lo, hi, width int
	v             []int64
}

func (l *layer) row(n int) []int64 { return l.v[(n-l.lo)*l.width : (n-l.lo+1)*l.width] }

// shape prepares l as the layer of slot t and reuses its memory.
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

// priceLate sets g.late, the price of the late jobs for each backlog, for slot t.
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

// step computes the layer of slot t from the previous one. It adds started replicas first (from n-1 to n at the cost beta, upwards), then
// stopped replicas (without cost, downwards). Then the arrivals and the service of the slot change the backlog of each state:
//
//	q = max(0, q' + a_t - g n)
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
		started := down // n is below the lowest number of replicas in the previous slot, so only stops lead to n
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

// sweepUp sets g.up: for each number of replicas n = from.lo..top and each column, the least cost of all states with at most n replicas
// before the slot, including the price of starting the missing replicas.
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

// stop sets each down[q] to the minimum of down[q] and started[q], and returns the minimum over all q.
func stop(down, started []int64) int64 {
	least := 2 * unreachable // more than any value in the rows, because a value can be unreachable plus prices
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
