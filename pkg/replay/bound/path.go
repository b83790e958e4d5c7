package bound

import "math"

// walk runs the lattice forward, then traces the cheapest schedule back. The values at every stride-th slot are kept; each
// stretch between two of them is computed again when the trace reaches it. value >= unreachable: there is no schedule.
func (g *lattice) walk(tick func(slot int)) (value int64, schedule []int32) {
	slots := g.tl.slots
	stride := stride(slots)
	kept, stretch := g.kept, g.stretch
	g.first(&kept[0])
	from := &kept[0]
	for t := 1; t <= slots; t++ {
		to := &g.pair[t%2]
		if t%stride == 0 {
			to = &kept[t/stride]
		}
		g.step(t, from, to)
		from = to
		tick(t)
	}
	trace := tracer{lattice: g, schedule: make([]int32, slots)}
	value = trace.finish(from)
	if value >= unreachable {
		return value, nil
	}
	for end := slots; end > 0; {
		base := (end - 1) / stride
		from := &kept[base]
		for t := base*stride + 1; t <= end; t++ {
			to := &stretch[t-base*stride-1]
			g.step(t, from, to)
			from = to
		}
		for t := end; t > base*stride; t-- {
			before := &kept[base]
			if t-1 > base*stride {
				before = &stretch[t-base*stride-2]
			}
			trace.back(t, before)
		}
		end = base * stride
	}
	return value, trace.schedule
}

// stride makes the kept layers and one stretch of recomputed ones about equally many, which is the least memory.
func stride(slots int) int { return int(math.Ceil(math.Sqrt(float64(slots)))) }

// tracer stands on one state of the cheapest path, beginning at the end.
type tracer struct {
	*lattice
	n, q     int
	value    int64
	schedule []int32
}

func (r *tracer) finish(last *layer) int64 {
	r.value = unreachable
	for n := last.lo; n <= last.hi; n++ {
		for q, v := range last.row(n) {
			if v < r.value {
				r.n, r.q, r.value = n, q, v
			}
		}
	}
	return r.value
}

// back records slot t and moves to a state before it from which the value at hand follows. Staying at n is tried first, so
// that of equally cheap schedules one with few changes is found.
func (r *tracer) back(t int, before *layer) {
	r.schedule[t-1] = int32(r.n)
	r.priceLate(t)
	paid := r.cost*int64(r.n) + r.late[r.q]
	by := int(r.serve*int64(r.n) - (r.arrived[t] - r.arrived[t-1]))
	first, last := r.q+by, r.q+by // the backlogs before slot t that lead to r.q
	if r.q == 0 {
		first = 0
	}
	if r.q == int(r.width[t])-1 && r.open[t] {
		last = before.width - 1
	}
	first, last = max(first, 0), min(last, before.width-1)
	if r.at(before, r.n, first, last, r.value-paid) {
		return
	}
	for n := before.hi; n >= before.lo; n-- {
		want := r.value - paid
		if n < r.n {
			if t <= r.boot {
				break
			}
			want -= r.start * int64(r.n-n)
		}
		if r.at(before, n, first, last, want) {
			return
		}
	}
	panic("bound: a value in the table follows from none before it")
}

// at moves to (n, q) for the first q in first..last whose value is want, if there is one.
func (r *tracer) at(before *layer, n, first, last int, want int64) bool {
	if n < before.lo || n > before.hi || first > last {
		return false
	}
	for i, v := range before.row(n)[first : last+1] {
		if v == want {
			r.n, r.q, r.value = n, first+i, v
			return true
		}
	}
	return false
}
