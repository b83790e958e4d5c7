package lowerbound

import (
	"cmp"
	"slices"
)

// detour is a range of slots in which two schedules differ. Before and after the range, the two schedules have the same number
// of replicas and the same backlog. The slots of the range can therefore be copied from one schedule to the other without other changes.
type detour struct {
	from, to int   // index of the first slot, and of the slot after the last one
	saves    int64 // money that the copied slots save; may be negative
	late     int64 // late jobs that the copied slots add; may be negative
}

// recombine combines the known schedules to find a cheaper one that keeps the SLO. The Lagrangian is the cost plus lambda for each late
// job. At the best lambda it is about the same for a schedule with too many late jobs and for a schedule with few late jobs. Copying a
// detour between them therefore saves about lambda for each additional late job. Detours that use the late jobs that are still allowed
// remove most of the difference between UB and LB.
func (s *search) recombine() {
	const bases, ways = 6, 12
	lines := slices.Clone(s.lines)
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.promise(s.lambda), b.promise(s.lambda)) })
	tried := 0
	for _, base := range lines {
		if base.late > s.tl.allowed {
			continue
		}
		for _, other := range lines[:min(ways, len(lines))] {
			s.takeDetours(base, other)
		}
		if tried++; tried == bases {
			break
		}
	}
	for before := int64(-1); s.best.schedule != nil && before != s.best.cost; {
		before = s.best.cost
		for _, other := range lines[:min(ways, len(lines))] {
			s.takeDetours(s.best, other)
		}
	}
}

// promise returns the Lagrangian of the schedule: its cost plus lambda for each job that is really late. The count of line.modelled is
// lower, because it uses rounded backlogs.
func (l line) promise(lambda int64) int64 { return l.cost + lambda*l.late }

// takeDetours replaces detours (ranges of slots) in the schedule of base by the same slots of the schedule of other, and passes each new
// schedule to improve. It begins with the detours that save the most per additional late job. It takes whole detours while the SLO allows
// their late jobs, and then parts of the best remaining detours.
func (s *search) takeDetours(base, other line) {
	const parts = 2
	detours := s.detours(base.schedule, other.schedule)
	slices.SortStableFunc(detours, func(a, b detour) int {
		if a.late <= 0 || b.late <= 0 {
			return cmp.Compare(a.late, b.late)
		}
		return cmp.Or(
			cmp.Compare(float64(b.saves)*float64(a.late), float64(a.saves)*float64(b.late)),
			cmp.Compare(b.late, a.late))
	})
	schedule := slices.Clone(base.schedule)
	room := s.tl.allowed - base.late
	var refused []detour
	for _, d := range detours {
		switch {
		case d.saves <= 0:
		case d.late > room:
			refused = append(refused, d)
		default:
			copy(schedule[d.from:d.to], other.schedule[d.from:d.to])
			room -= d.late
		}
	}
	s.improve(schedule)
	for _, d := range refused[:min(parts, len(refused))] {
		s.part(schedule, other.schedule, d)
	}
}

// part copies only a part of a detour: the longest part from its beginning, and the longest part up to its end, for which base keeps the
// SLO. It passes the new schedules to improve.
func (s *search) part(base, other []int32, d detour) {
	for _, fromEnd := range []bool{false, true} {
		taken, refused := 0, d.to-d.from
		for refused-taken > 1 {
			slots := (taken + refused) / 2
			schedule := slices.Clone(base)
			if fromEnd {
				copy(schedule[d.to-slots:d.to], other[d.to-slots:d.to])
			} else {
				copy(schedule[d.from:d.from+slots], other[d.from:d.from+slots])
			}
			if s.improve(schedule) {
				taken = slots
			} else {
				refused = slots
			}
		}
	}
}

// improve adds a schedule to the known schedules if it keeps the SLO and costs less than the best schedule. It reports whether the schedule
// keeps the SLO.
func (s *search) improve(schedule []int32) bool {
	c := play(s.p, s.tl, schedule, nil)
	if c.Late > s.tl.allowed || s.p.ServeAll && c.Backlog > 0 || s.grows(schedule) {
		return false
	}
	if cost := c.ReplicaSlots*s.grid.cost + c.Starts*s.grid.start; cost < s.best.cost {
		s.meet(slices.Clone(schedule))
	}
	return true
}

// grows reports whether the schedule starts a replica in slots 1..BootSlots, in which no replica can become ready. A schedule that contains
// only a part of a detour can do this.
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

// runner simulates a schedule slot by slot.
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
