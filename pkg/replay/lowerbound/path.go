package lowerbound

import (
	"math"
	"sort"
)

// run computes the layers from the first slot to the last and returns the minimum of the Lagrangian, or a value >= unreachable if there is
// no schedule. It stores the layer of every stride-th slot, so that back can find the schedule.
func (g *lattice) run(tick func(slot int)) int64 {
	stride := stride(g.tl.slots)
	from := &g.kept[0]
	g.first(from)
	for t := 1; t <= g.tl.slots; t++ {
		to := &g.pair[t%2]
		if t%stride == 0 {
			to = &g.kept[t/stride]
		}
		g.step(t, from, to)
		from = to
		tick(t)
	}
	g.last = from
	return g.finish().value
}

// back returns the cheapest schedule of the last run. It computes the layers between two stored layers again. dropped is true if the cost
// of that schedule is valid only because work beyond the last column was dropped.
func (g *lattice) back() (schedule []int32, dropped bool) {
	slots := g.tl.slots
	stride := stride(slots)
	trace := g.finish()
	trace.schedule = make([]int32, slots)
	for end := slots; end > 0; {
		base := (end - 1) / stride
		from := &g.kept[base]
		for t := base*stride + 1; t <= end; t++ {
			to := &g.stretch[t-base*stride-1]
			g.step(t, from, to)
			from = to
		}
		for t := end; t > base*stride; t-- {
			before := &g.kept[base]
			if t-1 > base*stride {
				before = &g.stretch[t-base*stride-2]
			}
			trace.retreat(t, before)
		}
		end = base * stride
	}
	return trace.schedule, trace.dropped
}

// stride returns the number of slots between two stored layers. With this number, the tables need the least memory: there are about as many
// stored layers as layers that are computed again between two of them.
func stride(slots int) int { return int(math.Ceil(math.Sqrt(float64(slots)))) }

// tracer finds the cheapest path through the layers, from the last slot to the first, and records the number of replicas in each slot.
type tracer struct {
	*lattice
	n, column int
	value     int64
	schedule  []int32
	dropped   bool
}

func (g *lattice) finish() tracer {
	r := tracer{lattice: g, value: unreachable}
	for n := g.last.lo; n <= g.last.hi; n++ {
		for column, v := range g.last.row(n) {
			if v < r.value {
				r.n, r.column, r.value = n, column, v
			}
		}
	}
	return r
}

// retreat records the number of replicas in slot t. It then moves to a state before slot t from which the current state is reached at its
// cost. It prefers a state with the same number of replicas, which gives a schedule with few changes. It uses a transition that drops work
// only if there is no other.
func (r *tracer) retreat(t int, before *layer) {
	r.schedule[t-1] = int32(r.n)
	r.priceLate(t)
	m := move{from: &r.columns[t-1], to: &r.columns[t], serve: r.serve, n: int64(r.n)}
	first := sort.Search(before.width, func(c int) bool { return m.land(c) >= r.column })
	last := sort.Search(before.width, func(c int) bool { return m.land(c) > r.column })
	want := r.value - r.cost*int64(r.n) - r.late[r.column]
	if r.from(t, before, want, first, last) {
		return
	}
	if r.column == m.to.width()-1 && r.drop && m.to.open && r.from(t, before, want, last, before.width) {
		r.dropped = true
		return
	}
	panic("bound: a value in the table follows from none before it")
}

// from looks for a state of the previous layer in the columns first..last-1. The cost of that state plus the price of the replicas started
// after it must be equal to want. from moves to that state and reports whether it found one.
func (r *tracer) from(t int, before *layer, want int64, first, last int) bool {
	if r.at(before, r.n, want, first, last) {
		return true
	}
	for n := before.hi; n >= before.lo; n-- {
		paid := int64(0)
		if n < r.n {
			if t <= r.boot {
				return false
			}
			paid = r.start * int64(r.n-n)
		}
		if r.at(before, n, want-paid, first, last) {
			return true
		}
	}
	return false
}

func (r *tracer) at(before *layer, n int, want int64, first, last int) bool {
	if n < before.lo || n > before.hi {
		return false
	}
	for i, v := range before.row(n)[first:last] {
		if v == want {
			r.n, r.column, r.value = n, first+i, v
			return true
		}
	}
	return false
}
