package evaluate

import (
	"cmp"
	"math"
	"slices"
)

// missTolerance is used if no setting meets the SLO: a cheaper setting is then preferred if it has at most this factor times the fewest
// late requests.
const missTolerance = 1.1

// cheapestMiss returns the cheapest setting with at most missTolerance times the fewest late requests. It is used if no setting meets the
// SLO: avoiding a few more late requests does not justify any cost.
func (s *Search) cheapestMiss() *Tried {
	out := s.best
	late := missTolerance * (1 - s.best.Run.OnTime)
	for _, key := range s.order {
		if t := s.known[key]; 1-t.Run.OnTime <= late && t.Run.Cost < out.Run.Cost {
			out = t
		}
	}
	return out
}

// worth estimates the cost of a run if exactly the allowed number of requests were late; less is better. On the shared traces, twice as
// many late requests save about 7% of the cost, and worth corrects the cost accordingly. Fewer than 0.25 times the allowed late requests
// are treated as 0.25 times. With more than twice the allowed number this estimate is not useful, and the cost is also multiplied by the
// ratio of late to allowed requests.
func (s *Search) worth(t *Tried) float64 {
	const gain = 0.1
	late := (1 - t.Run.OnTime) / max(1-s.Share, 1e-6)
	if late > 2 {
		return t.Run.Cost * math.Pow(2, gain) * late
	}
	return t.Run.Cost * math.Pow(max(late, 0.25), gain)
}

// farMiss reports whether a run has more than twice the allowed late requests: then worth is not a useful estimate.
func (s *Search) farMiss(t *Tried) bool { return 1-t.Run.OnTime > 2*max(1-s.Share, 1e-6) }

// byWorth returns a copy of the list, sorted by worth with the lowest, which is the best, first. Settings that miss the SLO by far follow
// all others.
func (s *Search) byWorth(list []*Tried) []*Tried {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *Tried) int {
		if far := s.farMiss(a); far != s.farMiss(b) {
			if far {
				return 1
			}
			return -1
		}
		return cmp.Compare(s.worth(a), s.worth(b))
	})
	return list
}

// Ranked returns all settings that were tried, the best first.
func (s *Search) Ranked() []Tried {
	var out []Tried
	for _, key := range s.order {
		out = append(out, *s.known[key])
	}
	slices.SortStableFunc(out, func(a, b Tried) int {
		switch {
		case better(&a.Run, &b.Run):
			return -1
		case better(&b.Run, &a.Run):
			return 1
		}
		return 0
	})
	return out
}
