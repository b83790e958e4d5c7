package bound

import "sort"

// detour is a stretch of slots in which two schedules differ; before and after it they stand on the same state, so that
// either may take the other's way through it without touching the rest.
type detour struct {
	from, to int   // slot indices, to excluded
	saves    int64 // money, by taking the other's way; may be negative
	late     int64 // more jobs late by it; may be negative
}

// patch tries to cheapen the best schedule by detours through the others. At the best lambda the schedules on its two sides cost
// the same Lagrangian, so every detour trades money for late jobs at that price: those that fill what the SLO still allows
// close most of the duality gap.
func (s *search) patch() {
	for improved := s.best.schedule != nil; improved; {
		improved = false
		for _, other := range s.lines[:len(s.lines):len(s.lines)] {
			before := s.best
			s.mend(other)
			improved = improved || s.best.cost < before.cost
		}
	}
}

// mend improves the best schedule by the detours through another: those of most savings per late job first, whole while the
// SLO has room, then parts of the greatest that had none.
func (s *search) mend(other line) {
	detours := s.detours(s.best.schedule, other.schedule)
	sort.SliceStable(detours, func(i, j int) bool {
		a, b := detours[i], detours[j]
		if a.late <= 0 || b.late <= 0 {
			return a.late < b.late
		}
		if x, y := float64(a.saves)*float64(b.late), float64(b.saves)*float64(a.late); x != y {
			return x > y
		}
		return a.late > b.late
	})
	schedule := append([]int32(nil), s.best.schedule...)
	room := s.tl.allowed - s.best.late
	var refused []detour
	taken := false
	for _, d := range detours {
		switch {
		case d.saves <= 0:
		case d.late > room:
			refused = append(refused, d)
		default:
			copy(schedule[d.from:d.to], other.schedule[d.from:d.to])
			room -= d.late
			taken = true
		}
	}
	if taken {
		s.meet(schedule)
	}
	for _, d := range refused[:min(len(refused), 4)] {
		s.part(d, other)
	}
}

// part takes the beginning or the end of a detour that as a whole makes too many jobs late.
func (s *search) part(d detour, other line) {
	const cuts = 32
	step := max(1, (d.to-d.from)/cuts)
	base := s.best
	for cut := d.from + step; cut < d.to; cut += step {
		for _, part := range [2][2]int{{d.from, cut}, {cut, d.to}} {
			schedule := append([]int32(nil), base.schedule...)
			copy(schedule[part[0]:part[1]], other.schedule[part[0]:part[1]])
			s.improve(schedule)
		}
	}
}

// improve is meet for a schedule that is worth keeping only as the best.
func (s *search) improve(schedule []int32) {
	c := play(s.p, s.tl, schedule, nil)
	cost := c.ReplicaSlots*s.grid.cost + c.Starts*s.grid.start
	if c.Late <= s.tl.allowed && cost < s.best.cost && !s.grows(schedule) {
		s.meet(schedule)
	}
}

// grows reports a start where none is possible, which a cut inside a detour can bring about.
func (s *search) grows(schedule []int32) bool {
	before := int32(s.p.InitialReplicas)
	for _, n := range schedule[:min(s.p.BootSlots, len(schedule))] {
		if n > before {
			return true
		}
		before = n
	}
	return false
}

func (s *search) detours(base, other []int32) []detour {
	var found []detour
	b, o := runner{search: s, schedule: base}, runner{search: s, schedule: other}
	b.n, o.n = int32(s.p.InitialReplicas), int32(s.p.InitialReplicas)
	var open detour
	apart := false
	for i := range base {
		if !apart && base[i] != other[i] {
			apart, open = true, detour{from: i}
		}
		costB, lateB := b.advance(i)
		costO, lateO := o.advance(i)
		if !apart {
			continue
		}
		open.saves += costB - costO
		open.late += lateO - lateB
		if i+1 == len(base) || b.n == o.n && b.q == o.q {
			open.to = i + 1
			found = append(found, open)
			apart = false
		}
	}
	return found
}

// runner plays a schedule slot by slot.
type runner struct {
	*search
	schedule []int32
	n        int32
	q        int64
}

func (r *runner) advance(i int) (cost, late int64) {
	n := r.schedule[i]
	cost = r.grid.cost*int64(n) + r.grid.start*int64(max(0, n-r.n))
	r.n, r.q = n, max(0, r.q+r.p.Arrivals[i]-r.p.UnitsPerReplicaSlot*int64(n))
	return cost, r.tl.late(i+1, r.tl.arrived[i+1]-r.q)
}
