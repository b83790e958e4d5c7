package search

import (
	"cmp"
	"math"
	"slices"
)

// missTolerance is used if no setting meets the SLO. The search then prefers the cheapest of the settings whose late requests are at most
// missTolerance times the lowest number of late requests of any setting.
const missTolerance = 1.1

// cheapestMiss returns the cheapest of the settings whose late requests are at most missTolerance times the lowest number of late requests
// of any setting. It is used if no setting meets the SLO, because a few late requests less are not worth a much higher cost.
func (s *Search[R]) cheapestMiss() *Tried[R] {
	out := s.best
	late := missTolerance * (1 - s.best.outcome.OnTime)
	for _, key := range s.order {
		if t := s.known[key]; 1-t.outcome.OnTime <= late && t.outcome.Cost < out.outcome.Cost {
			out = t
		}
	}
	return out
}

// worth estimates what a run would cost if exactly the allowed number of requests were late; a lower worth is better. It assumes that twice
// as many late requests save about 7% of the cost, as measured on the shared traces, and corrects the cost of the run accordingly. If a run
// has less than a quarter of the allowed late requests, worth assumes a quarter. If it has more than twice the allowed number, the estimate
// is not useful; worth then also multiplies the cost by the ratio of late to allowed requests, so that the run ranks low.
func (s *Search[R]) worth(t *Tried[R]) float64 {
	const gain = 0.1
	late := (1 - t.outcome.OnTime) / max(1-s.Share, 1e-6)
	if late > 2 {
		return t.outcome.Cost * math.Pow(2, gain) * late
	}
	return t.outcome.Cost * math.Pow(max(late, 0.25), gain)
}

// farMiss reports whether a run has more than twice the allowed late requests: then worth is not a useful estimate.
func (s *Search[R]) farMiss(t *Tried[R]) bool { return 1-t.outcome.OnTime > 2*max(1-s.Share, 1e-6) }

// byWorth returns a copy of the list, sorted by worth. The setting with the lowest worth, which is the best, is first. Settings that miss
// the SLO by far are after all others.
func (s *Search[R]) byWorth(list []*Tried[R]) []*Tried[R] {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *Tried[R]) int {
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
func (s *Search[R]) Ranked() []Tried[R] {
	var out []Tried[R]
	for _, key := range s.order {
		out = append(out, *s.known[key])
	}
	slices.SortStableFunc(out, func(a, b Tried[R]) int {
		switch {
		case a.outcome.Better(b.outcome):
			return -1
		case b.outcome.Better(a.outcome):
			return 1
		}
		return 0
	})
	return out
}

// Better reports whether the run with outcome o is preferred to the run with the outcome `than`. A run that meets the SLO is preferred to
// one that misses it. Of two runs that meet the SLO, the cheaper one is preferred; of two that miss it, the one with more requests on time.
func (o Outcome) Better(than Outcome) bool {
	switch {
	case o.MeetsSLO != than.MeetsSLO:
		return o.MeetsSLO
	case o.MeetsSLO:
		return o.Cost < than.Cost
	case o.OnTime != than.OnTime:
		return o.OnTime > than.OnTime
	}
	return o.Cost < than.Cost
}
