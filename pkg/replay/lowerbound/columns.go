package lowerbound

// columns says which backlogs are told apart after a slot.
//
// Small backlogs each have a column of their own. Greater ones share one per g units, and are rounded down to it. That
// loses little: while a queue does not run empty, served work grows by multiples of g, so the columns are laid where served
// work is a multiple of g, and a backlog is rounded once, by less than g units, when it enters them, and never again
// until it has left them.
//
//	backlog   0 1 2 ... fine-1 | fine + g j,  j = 0..coarse-1
//	served    A_t ...          | g (top - j)
type columns struct {
	arrived int64 // A_t
	top     int64 // served work of the first coarse column, over g; -1: there is none
	fine    int   // columns of one backlog each, >= 1
	coarse  int
	open    bool // greater backlogs than the last column's keep the SLO too; they are out of sight, not forbidden
}

func (c *columns) width() int { return c.fine + c.coarse }

// served is the work served in a column.
func (c *columns) served(column int, g int64) int64 {
	if column < c.fine {
		return c.arrived - int64(column)
	}
	return g * (c.top - int64(column-c.fine))
}

// column is where so much served work belongs; width() or more where it has no column.
func (c *columns) column(served, g int64) int {
	if c.coarse == 0 || served > g*c.top {
		return int(c.arrived - served)
	}
	return c.fine + int(c.top-(served+g-1)/g)
}

// move is what a slot with n replicas does to a row of backlogs.
type move struct {
	from, to *columns
	late     []int64 // by column of to
	serve    int64   // g
	n, pay   int64
	open     bool // drop what has no column into the last one
}

// land is the column to which the move takes one; width() of to: none.
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

// shift writes to[land(q)] = min over q of min(down[q], started[q]) + pay + late. down is the best value over more than n replicas, by
// column before the slot, started the best over at most n; their minimum is left in down, for the next n.
func (m *move) shift(to, down, started []int64) {
	fine := m.from.fine
	rest := m.fine(to, down[:fine], started[:fine])
	m.coarse(to, down[fine:], started[fine:])
	m.coarsen(to, down[rest:fine], started[rest:fine], rest)
}

// fine moves the columns that stay fine, and returns the first that does not.
func (m *move) fine(to, down, started []int64) (rest int) {
	to = to[:m.to.fine]
	cells, late := to, m.late
	if by := m.by(); by >= 0 { // service beyond the backlog leaves none: columns 0..by become column 0
		rest = int(min(by+1, int64(len(down))))
		to[0] = stop(down[:rest], started[:rest]) + m.pay + late[0]
		down, started = down[rest:], started[rest:]
		cells, late = cells[1:], late[1:]
	} else { // arrivals beyond the service leave at least -by
		full := int(min(-by, int64(len(to))))
		fill(cells[:full])
		cells, late = cells[full:], late[full:]
	}
	both := min(len(cells), len(down))
	m.side(cells, down[:both], started[:both], late)
	return rest + both
}

// side moves columns to as many cells side by side, and fills the cells that are left.
func (m *move) side(cells, down, started, late []int64) {
	inside, late, started := cells[:len(down)], late[:len(down)], started[:len(down)]
	pay := m.pay
	for q, v := range down {
		v = min(v, started[q])
		down[q] = v
		inside[q] = v + pay + late[q]
	}
	fill(cells[len(down):])
}

// by is how far the slot moves a backlog down.
func (m *move) by() int64 { return m.serve*m.n - (m.to.arrived - m.from.arrived) }

// coarsen moves fine columns, the first of which is number `first`, to where g of them share one.
func (m *move) coarsen(to, down, started []int64, first int) {
	g := int(m.serve)
	beyond := int(int64(first)-m.by()) - m.to.fine // units beyond the first coarse column
	for len(down) > 0 {
		share := min(g-beyond%g, len(down))
		m.settle(to, m.to.fine+beyond/g, stop(down[:share], started[:share]))
		down, started = down[share:], started[share:]
		beyond += share
	}
}

// coarse moves coarse columns: the first few to where each backlog has a column, the others side by side.
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
	m.side(cells, down[:both], started[:both], late)
	if both < len(down) {
		m.settle(to, m.to.width(), stop(down[both:], started[both:]))
	}
}

// settle puts a value into a column, or where it goes if there is no such column.
func (m *move) settle(to []int64, column int, v int64) {
	if column >= len(to) {
		if !m.open {
			return
		}
		column = len(to) - 1
	}
	to[column] = min(to[column], v+m.pay+m.late[column])
}
