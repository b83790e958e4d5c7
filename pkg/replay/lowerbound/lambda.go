package lowerbound

// guess returns the lambda (the price of a late job) of the first dynamic program. If work may be unserved at the end, a late job saves
// about the cost of its replica time, so lambda is slightly above this cost. If all work must be served, a late job saves less, because it
// is only served later. In this case, lambda is 0.3 times this cost.
func (s *search) guess() int64 {
	perSlot := float64(s.grid.serve) * float64(s.tl.jobs) / float64(max(1, s.tl.arrived[s.tl.slots]))
	factor := 1.02
	if s.p.ServeAll {
		factor = 0.3
	}
	return int64(min(factor*float64(s.grid.cost)/perSlot, float64(s.maxLambda)))
}

// next returns the lambda of the next dynamic program:
//
//   - a much higher lambda if no known schedule keeps the SLO, and a much lower one if no known schedule misses it
//   - otherwise the lambda of the apex (see apex)
//   - but if the lambdas of the last programs (two or more) were all too low or all too high, a lambda on the other side of the apex
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

// The best lambda (the price of a late job) is between s.low and s.high. narrow reduces this interval with the result l of a dynamic
// program. If the schedule has more late jobs than allowed, a late job was too cheap: lambda is the new lower end of the interval.
// Otherwise lambda is the new upper end. The interval never grows. narrow also updates streak, the number of programs in a row whose lambda
// was too low or too high.
func (s *search) narrow(lambda int64, l line) {
	if l.modelled > s.tl.allowed {
		s.low, s.streak = max(s.low, lambda), max(s.streak, 0)+1
	} else {
		s.high, s.streak = min(s.high, lambda), min(s.streak, 0)-1
	}
}

// model returns the least value of cost + lambda * late jobs over the known schedules. The minimum over all schedules is at most this
// value.
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

// apex returns the lambda (the price of a late job) for which model(lambda) - lambda*allowed is highest. This difference is concave in
// lambda: it increases as long as the known schedule with the lowest Lagrangian has more late jobs than allowed.
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
