package objective

import "math"

// spread measures how unevenly work arrives. Index is the index of dispersion: the variance of the work that arrives in a time, divided by
// its mean. If single requests arrive at random, it is 1. It is greater if requests arrive in groups, or if a unit of work is only a part
// of a request, as a token is. It does not depend on the length of the time, so it can be measured with rates over a minute and used for
// shorter times.
type spread struct {
	Index float64
	Count int64
}

// firstSpreads is the number of first samples whose size is not limited.
const firstSpreads = 8

// maxSpread limits a sample to this multiple of the index, because a change of the load is not a random variation. In 46 cells of the
// benchmark (make bench-decisions) with rates over a minute, the model meets the SLO in 44, at 1.08 of the cost of the oracle. Half: 43
// cells at 1.03. Twice: no change.
const maxSpread = 4

// add adds the newest time slot. It compares the load with the load before the time of which the load is a mean, so that both are means of
// different times. span is this time in seconds, and slot is the length of a time slot.
func (s *spread) add(r *recent, span, slot float64) {
	n := min(max(int(math.Round(span/slot)), 1), recentSlots-1)
	if n >= int(r.Count) {
		return
	}
	now, before := float64(slot*float64(r.Load[r.before(0)])), float64(slot*float64(r.Load[r.before(n)]))
	if now+before <= 0 {
		return
	}
	change := now - before
	v := float64(n) * float64(change*change) / (now + before)
	if s.Count++; s.Count > firstSpreads {
		v = min(v, maxSpread*s.Index)
	}
	s.Index += float64(max(slot/squareSeconds, 1/float64(s.Count)) * (v - s.Index))
}
