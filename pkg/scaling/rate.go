package scaling

import "math"

// stepsSize is the maximum number of steps that are kept. If there are more, two successive steps are merged into a range of replicas. The
// merged step lasts at most 1/overhold of the longest period.
const stepsSize = 16

// steps is the history of the last target. A rate limit reads the replicas at the start of its period from it. The HPA computes them from
// its scale events (current - added + deleted within the period), with the same result.
type steps struct {
	n    int8
	list [stepsSize]step
}

// step is a number of replicas that is valid from at until the next step. low and high differ only if steps were merged. An increase then
// counts from low and a decrease from high, so that a merge never allows a greater change.
type step struct {
	at        int64
	low, high int32
}

// last returns the newest number of replicas. low and high of the newest step are equal, because it is never merged.
func (s *steps) last() int32 { return s.list[s.n-1].low }

// push adds a step of n replicas that begins at at, and drops the steps that ended more than keep milliseconds before at.
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

// merge replaces two successive steps by one range. It selects the two that last the shortest time in total; end is the end of the last
// step. At most one of the 16 steps began before the longest period. The other 15 contain 7 disjoint pairs that together last at most that
// period, so the shortest pair lasts at most a seventh of it.
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

// before returns the index of the step that is valid at a time. For times before the oldest step it returns the oldest step.
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

// longest returns the longest period of the policy's rates, in milliseconds.
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

// rise returns the number of replicas to which a rate allows an increase. start is the number at the start of the period. A percentage is
// rounded up, as in an HPA; otherwise a rate of 10% would never allow an increase of 5 replicas. The calculation uses integers, because
// with floating-point numbers 110 plus 10% would be rounded up to 122.
func (r RatePolicy) rise(start int32) int32 {
	add := max(int64(r.Value), 0)
	if r.Type == PercentRate {
		add = (int64(start)*add + 99) / 100
	}
	return int32(min(int64(start)+add, maxReplicas))
}

// fall returns the number of replicas to which a rate allows a decrease. The decrease of a percentage is rounded up, as in an HPA.
func (r RatePolicy) fall(start int32) int32 {
	take := max(int64(r.Value), 0)
	if r.Type == PercentRate {
		take = (int64(start)*take + 99) / 100
	}
	return int32(max(int64(start)-take, 0))
}

// rateLimit is the greatest target (for increases) or the smallest target (for decreases) that the rates of a direction allow in this tick.
type rateLimit struct {
	n     int32
	rate  int8  // index of the rate policy that sets the limit; -1: none
	start int32 // replicas at the start of the period of that rate policy
}

// riseLimit returns the greatest target that the rates of scaleUp allow. It is at least the last target, because a rate only limits
// increases and does not revert them.
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

// fallLimit returns the smallest target that the rates of scaleDown allow. It is at most the last target.
func (t *tick) fallLimit() rateLimit { return t.fallLimitAt(t.at) }

// fallLimitAt returns fallLimit for a time in or after this tick, if the target does not change until then.
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

// rate limits the change by the Pods and Percent policies of its direction. From zero replicas it always allows one, because any percentage
// of zero is zero.
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

// earliestByRate returns the earliest time, not before from, at which the scale-down rates allow a target below the last target, or false
// if they never do. A rate may allow a decrease now and not later. For example, after 0, 2 and 1 replicas, a rate of 1 pod allows a target
// of 0 while its period starts at the 0, but only 1 when its period starts at the 2. So earliestByRate tries every time at which the start
// of a period reaches another step.
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
