package lowerbound

// columns defines the columns of the layer (the table of the dynamic program) for one slot. A column represents one backlog, or several, at
// the end of the slot. A backlog is the units of work that wait. g is the number of units that a replica serves in a slot.
//
// Each small backlog has its own column, a fine column. Every g consecutive larger backlogs share a column, a coarse column, which
// represents the smallest of them. In a coarse column, the work served since the beginning is a multiple of g. While the queue is not
// empty, each slot serves a multiple of g, so a backlog that was rounded once needs no further rounding. A backlog is therefore rounded
// only when it first belongs to a coarse column, and by less than g units.
//
//	backlog   0 1 2 ... fine-1 | fine + g j,  j = 0..coarse-1
//	served    A_t ...          | g (top - j)
type columns struct {
	arrived int64 // A_t, the units of work that arrive until the end of the slot
	// units served at the end of the slot if the backlog is in the first coarse column, divided by g; -1: there is no coarse column
	top    int64
	fine   int // number of fine columns, each for one backlog; at least 1
	coarse int
	open   bool // true: a backlog larger than the last column can also meet the SLO, but the memory limit leaves no column for it
}

func (c *columns) width() int { return c.fine + c.coarse }

// served returns the units of work that are served by the end of the slot if the slot ends with the backlog of the given column.
func (c *columns) served(column int, g int64) int64 {
	if column < c.fine {
		return c.arrived - int64(column)
	}
	return g * (c.top - int64(column-c.fine))
}

// column returns the index of the column for the end of the slot. The given units of work have been served by then, and the remaining units
// are the backlog. If no column represents this backlog, the result is at least width().
func (c *columns) column(served, g int64) int {
	if c.coarse == 0 || served > g*c.top {
		return int(c.arrived - served)
	}
	return c.fine + int(c.top-(served+g-1)/g)
}

// move is the transition through one slot with n replicas. It computes the least cost of each backlog after the slot from the least cost of
// each backlog before the slot.
type move struct {
	from, to *columns
	late     []int64 // price of the late jobs in the slot, by column after the slot
	serve    int64   // g: units of work that a ready replica serves in a slot
	n, pay   int64
	open     bool // a backlog without a column is moved to the last column, although it is larger
}

// land returns the column after the slot for a state that is in the given column before the slot. If no column represents the remaining
// backlog, land returns the last column if m.open is true, otherwise the width of m.to.
func (m *move) land(column int) int {
	served := min(m.to.arrived, m.from.served(column, m.serve)+m.serve*m.n)
	landed := m.to.column(served, m.serve)
	switch {
	case landed < m.to.width():
		return landed
	case m.open:
		return m.to.width() - 1
	}
	return m.to.width()
}

// shift computes the row after the slot. It sets to[column] to the minimum of min(down[q], started[q]) + pay + late[column] over all
// columns q with land(q) = column. down[q] is the least cost of states that reach n replicas because replicas are stopped. started[q] is
// the least cost of states that reach n replicas because replicas are started, or without a change. shift stores the lower of both costs in
// down[q], for the call with the next smaller n.
func (m *move) shift(to, down, started []int64) {
	fine := m.from.fine
	rest := m.fine(to, down[:fine], started[:fine])
	m.coarse(to, down[fine:], started[fine:])
	m.coarsen(to, down[rest:fine], started[rest:fine], rest)
}

// fine computes the new fine columns (one backlog each) from the old fine columns. It returns the index of the first old column that it did
// not move.
func (m *move) fine(to, down, started []int64) (rest int) {
	to = to[:m.to.fine]
	cells, late := to, m.late
	if by := m.by(); by >= 0 { // more work is served than arrives: old backlogs of at most `by` units become 0
		rest = int(min(by+1, int64(len(down))))
		to[0] = stop(down[:rest], started[:rest]) + m.pay + late[0]
		down, started = down[rest:], started[rest:]
		cells, late = cells[1:], late[1:]
	} else { // more work arrives than is served: every new backlog is at least -by units
		full := int(min(-by, int64(len(to))))
		fill(cells[:full])
		cells, late = cells[full:], late[full:]
	}
	both := min(len(cells), len(down))
	m.moveFine(cells, down[:both], started[:both], late)
	return rest + both
}

// moveFine sets cells[q] to the minimum of down[q] and started[q], plus the cost of the slot. The remaining cells, for which down has no
// value, become unreachable. It also stores the minimum in down[q] (see shift for the reason).
func (m *move) moveFine(cells, down, started, late []int64) {
	inside, late, started := cells[:len(down)], late[:len(down)], started[:len(down)]
	pay := m.pay
	for q, v := range down {
		v = min(v, started[q])
		down[q] = v
		inside[q] = v + pay + late[q]
	}
	fill(cells[len(down):])
}

// by returns the number of units by which the backlog decreases in the slot. It is negative if more work arrives than is served.
func (m *move) by() int64 { return m.serve*m.n - (m.to.arrived - m.from.arrived) }

// coarsen moves the backlogs of fine columns (one backlog each) to coarse columns (g backlogs each). down and started contain the costs of
// the columns to move, and first is the index of the first of these columns.
func (m *move) coarsen(to, down, started []int64, first int) {
	g := int(m.serve)
	beyond := int(int64(first)-m.by()) - m.to.fine // units by which the new backlog exceeds the backlog of the first coarse column
	for len(down) > 0 {
		share := min(g-beyond%g, len(down))
		m.settle(to, m.to.fine+beyond/g, stop(down[:share], started[:share]))
		down, started = down[share:], started[share:]
		beyond += share
	}
}

// coarse moves the coarse columns, in each of which g backlogs share a column. If the slot reduces the backlog enough, the smallest
// backlogs move to fine columns, with one backlog each.
func (m *move) coarse(to, down, started []int64) {
	j := 0
	for ; j < len(down); j++ {
		served := min(m.serve*(m.from.top-int64(j)+m.n), m.to.arrived)
		column := m.to.column(served, m.serve)
		if column >= m.to.fine {
			break
		}
		down[j] = min(down[j], started[j])
		to[column] = min(to[column], down[j]+m.pay+m.late[column])
	}
	cells, late := to[m.to.fine:], m.late[m.to.fine:]
	ahead := min(max(m.to.top-m.from.top-m.n+int64(j), 0), int64(len(cells)))
	fill(cells[:ahead])
	cells, late = cells[ahead:], late[ahead:]
	down, started = down[j:], started[j:]
	both := min(len(cells), len(down))
	m.moveFine(cells, down[:both], started[:both], late)
	if both < len(down) {
		m.settle(to, m.to.width(), stop(down[both:], started[both:]))
	}
}

// settle sets to[column] to v plus the price of the slot, if that is less than the current value. If to has no such column, settle uses the
// last column if m.open is true, and does nothing otherwise.
func (m *move) settle(to []int64, column int, v int64) {
	if column >= len(to) {
		if !m.open {
			return
		}
		column = len(to) - 1
	}
	to[column] = min(to[column], v+m.pay+m.late[column])
}
