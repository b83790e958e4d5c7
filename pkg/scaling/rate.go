package scaling

import "math"

// stepsSize bounds the remembered steps. With more, two neighbors are merged into a range of numbers that lasts at most 1/overhold of
// the longest period.
const stepsSize = 16

// steps is the number in force as a function of time. The replicas at the start of a period of an HPA's behavior are looked up in it
// instead of summed from events; both are the same: current - added + deleted within the period.
type steps struct {
	n    int8
	list [stepsSize]step
}

// step lasts from at until the next one. low and high differ only if steps were merged: a rise counts from the lowest number and a
// fall from the highest, so that a merge never allows a greater change.
type step struct {
	at        int64
	low, high int32
}

// last returns the number in force; the newest step is never merged.
func (s *steps) last() int32 { return s.list[s.n-1].low }

// push records a new number from at on, and drops the steps that ended more than keep milliseconds ago.
func (s *steps) push(at int64, n int32, keep int64) {
	var k int8
	for k+1 < s.n && s.list[k+1].at <= at-keep {
		k++
	}
	if k > 0 {
		copy(s.list[:], s.list[k:s.n])
		s.n -= k
	}
	if s.n == stepsSize {
		s.merge(at)
	}
	s.list[s.n] = step{at, n, n}
	s.n++
}

// merge joins the two neighbors whose range lasts least; end is the end of the last step. Of the 16 steps 7 disjoint pairs lie within
// the longest period, so the range lasts less than a seventh of it.
func (s *steps) merge(end int64) {
	best, least := 0, int64(math.MaxInt64)
	for i := range stepsSize - 1 {
		ends := end
		if i+2 < stepsSize {
			ends = s.list[i+2].at
		}
		if lasts := ends - s.list[i].at; lasts < least {
			best, least = i, lasts
		}
	}
	a, b := s.list[best], s.list[best+1]
	s.list[best] = step{a.at, min(a.low, b.low), max(a.high, b.high)}
	copy(s.list[best+1:], s.list[best+2:])
	s.n--
}

// before is the index of the step in force at an instant; the oldest one known holds for all time before it.
func (s *steps) before(at int64) int8 {
	for i := s.n - 1; i > 0; i-- {
		if s.list[i].at <= at {
			return i
		}
	}
	return 0
}

func (s *steps) shift(by int64) {
	for i := range s.n {
		s.list[i].at += by
	}
}

// longest is the longest period of the policy's rates, in milliseconds.
func longest(p *Policy) int64 {
	var keep int64
	for _, r := range p.ScaleUp.Rates {
		keep = max(keep, r.Period.Milliseconds())
	}
	for _, r := range p.ScaleDown.Rates {
		keep = max(keep, r.Period.Milliseconds())
	}
	return keep
}

// rise is how far a rate lets the number go up that stood at start when the period began. A percentage is rounded up, as in an
// HPA, or 10% would never leave 5; but in integers, where 110 + 10% is 121 and not ceil(121.00000000000001).
func (r RatePolicy) rise(start int32) int32 {
	add := max(int64(r.Value), 0)
	if r.Type == PercentRate {
		add = (int64(start)*add + 99) / 100
	}
	return int32(min(int64(start)+add, maxReplicas))
}

// fall is how far a rate lets the number go down; a percentage is rounded in favor of the fall, as in an HPA.
func (r RatePolicy) fall(start int32) int32 {
	take := max(int64(r.Value), 0)
	if r.Type == PercentRate {
		take = (int64(start)*take + 99) / 100
	}
	return int32(max(int64(start)-take, 0))
}

// limit is the furthest number that a direction's rates allow in this tick.
type rateLimit struct {
	n     int32
	rate  int8  // the rate policy that sets it; -1: none does
	start int32 // replicas at the start of its period
}

// riseLimit never lies below the number in force: a rate stops a rise, it does not undo one.
func (t *tick) riseLimit() rateLimit {
	d := &t.p.ScaleUp
	if d.Select == Disabled {
		return rateLimit{t.lastTarget, -1, t.lastTarget}
	}
	best := rateLimit{maxReplicas, -1, t.lastTarget}
	for i, r := range d.Rates {
		start := t.s.steps.list[t.s.steps.before(t.at-r.Period.Milliseconds())].low
		n := r.rise(start)
		if i == 0 || d.Select == SelectMax && n > best.n || d.Select == SelectMin && n < best.n {
			best = rateLimit{n, int8(i), start}
		}
	}
	best.n = max(best.n, t.lastTarget)
	return best
}

// fallLimit never lies above the number in force.
func (t *tick) fallLimit() rateLimit { return t.fallLimitAt(t.at) }

// fallLimitAt is the limit at an instant of this tick or later, if nothing changes until then.
func (t *tick) fallLimitAt(at int64) rateLimit {
	d := &t.p.ScaleDown
	if d.Select == Disabled {
		return rateLimit{t.lastTarget, -1, t.lastTarget}
	}
	best := rateLimit{0, -1, t.lastTarget}
	for i, r := range d.Rates {
		start := t.s.steps.list[t.s.steps.before(at-r.Period.Milliseconds())].high
		n := r.fall(start)
		if i == 0 || d.Select == SelectMax && n < best.n || d.Select == SelectMin && n > best.n {
			best = rateLimit{n, int8(i), start}
		}
	}
	best.n = min(best.n, t.lastTarget)
	return best
}

// rate bounds the change by the Pods and Percent policies of the direction. From zero at least one replica is allowed: any
// percentage of zero is zero, and a policy of percentages would never wake.
func (t *tick) rate() {
	switch {
	case t.n > t.lastTarget && !t.panic:
		if l := t.riseLimit(); t.n > l.n {
			to := l.n
			if t.lastTarget == 0 {
				to = max(to, 1)
			}
			t.set(RuleRate, -1, to, float64(l.rate), float64(l.start))
		}
	case t.n < t.lastTarget:
		if l := t.fallLimit(); t.n < l.n {
			t.set(RuleRate, -1, l.n, float64(l.rate), float64(l.start))
		}
	}
}

// earliestByRate is the earliest instant, not before another, at which the down rates allow a number below base, and false where they
// never will. What a rate allows now it may refuse a moment later: after 0, 2, 1 a period that starts at the 0 ends before one that
// starts at the 2. So each instant at which a period starts at another step is tried with all rates.
func (t *tick) earliestByRate(from int64) (int64, bool) {
	if t.fallLimitAt(from).n < t.lastTarget {
		return from, true
	}
	best := int64(math.MaxInt64)
	for _, r := range t.p.ScaleDown.Rates {
		for i := range t.s.steps.n {
			when := t.s.steps.list[i].at + r.Period.Milliseconds()
			if from < when && when < best && t.fallLimitAt(when).n < t.lastTarget {
				best = when
			}
		}
	}
	return best, best < maxStamp
}
