package lowerbound

// guess is a first lambda. Where work may be left unserved at the end, a late job is worth at least what serving it costs, and
// seldom much more; otherwise a late job saves no work, only haste.
func (s *search) guess() int64 {
	perSlot := float64(s.grid.serve) * float64(s.tl.jobs) / float64(max(1, s.tl.arrived[s.tl.slots]))
	factor := 1.02
	if s.p.ServeAll {
		factor = 0.3
	}
	return int64(min(factor*float64(s.grid.cost)/perSlot, float64(s.maxLambda)))
}

// next is the lambda to try after a dynamic program at this one. That is the apex of the model; a big step towards the side of
// which no schedule is known; or, where the last programs all fell on one side of the apex, a step across it.
func (s *search) next(lambda int64) int64 {
	late, onTime := false, false
	for _, l := range s.lines {
		late = late || l.modelled > s.tl.allowed
		onTime = onTime || l.modelled >= 0 && l.modelled <= s.tl.allowed
	}
	switch {
	case !onTime:
		return min(4*lambda+1, s.maxLambda)
	case !late && lambda > s.guess()/100:
		return lambda / 4
	case !late:
		return 0
	}
	apex := s.apex()
	switch {
	case s.streak >= 2 && s.high > apex:
		return apex + (min(s.high, 2*apex)-apex)/2
	case s.streak <= -2 && s.low < apex:
		return apex - (apex-max(s.low, apex/2))/2
	}
	return apex
}

// fell notes on which side of the apex a dynamic program fell.
func (s *search) fell(lambda int64, l line) {
	if l.modelled > s.tl.allowed {
		s.low, s.streak = max(s.low, lambda), max(s.streak, 0)+1
	} else {
		s.high, s.streak = min(s.high, lambda), min(s.streak, 0)-1
	}
}

// model is the least Lagrangian that the schedules at hand promise; the true one is at most this.
func (s *search) model(lambda int64) int64 {
	return s.least(lambda).at(lambda)
}

func (s *search) least(lambda int64) line {
	least := line{modelled: -1}
	for _, l := range s.lines {
		if l.at(lambda) < least.at(lambda) {
			least = l
		}
	}
	return least
}

// apex is the lambda at which the model's bound, model - lambda allowed, is greatest. It is concave in lambda and rises while
// the least line makes more jobs late than allowed.
func (s *search) apex() int64 {
	lo, hi := int64(0), s.maxLambda
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if s.least(mid).modelled > s.tl.allowed {
			lo = mid
		} else {
			hi = mid
		}
	}
	if s.model(lo)-lo*s.tl.allowed > s.model(hi)-hi*s.tl.allowed {
		return lo
	}
	return hi
}
