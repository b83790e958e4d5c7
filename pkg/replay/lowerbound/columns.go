package lowerbound

// columns defines the columns of a layer. A column represents one backlog, or several, at the end of a slot. g is the number of units that
// a replica serves in a slot.
//
// Each small backlog has its own column. Of the larger backlogs, g share a column and are rounded down to the smallest of them. These
// columns are at multiples of g of the served work. The rounding error is small: while the queue is not empty, the served work grows by
// multiples of g. A backlog is therefore rounded by less than g units when it enters the shared columns, and not again before it leaves
// them.
//
//	backlog   0 1 2 ... fine-1 | fine + g j,  j = 0..coarse-1
//	served    A_t ...          | g (top - j)
type columns struct {
	arrived int64 // A_t: units of work that arrive until the end of the slot
	top     int64 // served work of the first coarse column divided by g; -1: no coarse column
	fine    int   // number of columns with one backlog each, >= 1
	coarse  int
	open    bool // larger backlogs than that of the last column also keep the SLO; they have no column
}

func (c *columns) width() int { return c.fine + c.coarse }

// served returns the units of work that are served until the end of the slot if the backlog is that of the column.
func (c *columns) served(column int, g int64) int64 {
	if column < c.fine {
		return c.arrived - int64(column)
	}
	return g * (c.top - int64(column-c.fine))
}

// column returns the index of the column for the backlog that is left after the given amount of work was served, or an index of at least
// width() if there is no such column.
func (c *columns) column(served, g int64) int {
	if c.coarse == 0 || served > g*c.top {
		return int(c.arrived - served)
	}
	return c.fine + int(c.top-(served+g-1)/g)
}

// move is the transition of a row, which has a value for each backlog, through a slot with n replicas.
type move struct {
	from, to *columns
	late     []int64 // price of the late jobs, by column of to
	serve    int64   // g: units of work that a ready replica serves in a slot
	n, pay   int64
	open     bool // for a backlog without a column, the last column is used, which has a smaller backlog
}

// land returns the column at the end of the slot for a column before it, or the width of m.to if that backlog has no column.
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

// shift sets each to[column] to the minimum of min(down[q], started[q]) + pay + late[column] over the columns q with land(q) = column.
// down[q] is the best value that reaches n replicas from more, and started[q] the best value that reaches n replicas from at most n. shift
// stores the minimum of both in down[q], for the call with the next smaller n.
func (m *move) shift(to, down, started []int64) {
	fine := m.from.fine
	rest := m.fine(to, down[:fine], started[:fine])
	m.coarse(to, down[fine:], started[fine:])
	m.coarsen(to, down[rest:fine], started[rest:fine], rest)
}

// fine moves the columns that have one backlog each before and after the slot. It returns the index of the first column that it did not
// move.
func (m *move) fine(to, down, started []int64) (rest int) {
	to = to[:m.to.fine]
	cells, late := to, m.late
	if by := m.by(); by >= 0 { // more is served than the backlog: the columns 0..by become column 0
		rest = int(min(by+1, int64(len(down))))
		to[0] = stop(down[:rest], started[:rest]) + m.pay + late[0]
		down, started = down[rest:], started[rest:]
		cells, late = cells[1:], late[1:]
	} else { // more arrives than is served: the backlog is at least -by
		full := int(min(-by, int64(len(to))))
		fill(cells[:full])
		cells, late = cells[full:], late[full:]
	}
	both := min(len(cells), len(down))
	m.moveFine(cells, down[:both], started[:both], late)
	return rest + both
}

// moveFine sets cells[q] to the minimum of down[q] and started[q], plus the cost of the slot. The remaining cells are unreachable. It also
// stores the minimum in down[q]; see shift.
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

// by returns the number of units by which the slot reduces a backlog. It is negative if more work arrives than is served.
func (m *move) by() int64 { return m.serve*m.n - (m.to.arrived - m.from.arrived) }

// coarsen moves columns with one backlog each to columns with g backlogs each. first is the index of the first column to move.
func (m *move) coarsen(to, down, started []int64, first int) {
	g := int(m.serve)
	beyond := int(int64(first)-m.by()) - m.to.fine // units after the first coarse column
	for len(down) > 0 {
		share := min(g-beyond%g, len(down))
		m.settle(to, m.to.fine+beyond/g, stop(down[:share], started[:share]))
		down, started = down[share:], started[share:]
		beyond += share
	}
}

// coarse moves the columns with g backlogs each: the first ones to columns with one backlog each, and the others to columns with g backlogs
// each.
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

// settle sets a column to v plus the price of the slot if that is less than its value. If there is no such column, it uses the last column
// if m.open is true, and does nothing otherwise.
func (m *move) settle(to []int64, column int, v int64) {
	if column >= len(to) {
		if !m.open {
			return
		}
		column = len(to) - 1
	}
	to[column] = min(to[column], v+m.pay+m.late[column])
}
