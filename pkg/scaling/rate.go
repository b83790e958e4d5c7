package scaling

import (
	"math"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
)

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

// rise returns the number of replicas to which a rate permits an increase. The parameter start is the number of replicas at the start of
// the period. A percentage is rounded up, as in an HPA. Otherwise a rate of 10% would never permit an increase from 5 replicas. The
// calculation uses integers, because in floating-point arithmetic 110 plus 10% would be rounded up to 122.
func (r RatePolicy) rise(start int32) int32 {
	add := max(int64(r.Value), 0)
	if r.Type == PercentRate {
		add = (int64(start)*add + 99) / 100
	}
	return int32(min(int64(start)+add, maxReplicas))
}

// fall returns the number of replicas to which a rate permits a decrease. If the rate is a percentage, the decrease is rounded up, as in an
// HPA.
func (r RatePolicy) fall(start int32) int32 {
	take := max(int64(r.Value), 0)
	if r.Type == PercentRate {
		take = (int64(start)*take + 99) / 100
	}
	return int32(max(int64(start)-take, 0))
}

// rateLimit is the greatest target (for increases) or the smallest target (for decreases) that the rates of a direction permit in this
// tick.
type rateLimit struct {
	n     int32
	rate  int8  // index of the rate policy that determines the limit; -1: none
	start int32 // replicas at the start of the period of that rate policy
}

// riseLimit returns the greatest target that the rates of scaleUp permit. It is at least the last target, because a rate limits only
// further increases and does not revert earlier ones.
func (t *tick) riseLimit() rateLimit {
	d := &t.p.ScaleUp
	if d.Select == Disabled {
		return rateLimit{t.lastTarget, -1, t.lastTarget}
	}
	best := rateLimit{maxReplicas, -1, t.lastTarget}
	for i, r := range d.Rates {
		start := t.s.steps.At(t.at - r.Period.Milliseconds()).Low
		n := r.rise(start)
		if i == 0 || d.Select == SelectMax && n > best.n || d.Select == SelectMin && n < best.n {
			best = rateLimit{n, int8(i), start}
		}
	}
	best.n = max(best.n, t.lastTarget)
	return best
}

// fallLimit returns the smallest target that the rates of scaleDown permit. It is at most the last target.
func (t *tick) fallLimit() rateLimit { return t.fallLimitAt(t.at) }

// fallLimitAt returns what fallLimit will return at the time at, if the target does not change until then. at is in Unix milliseconds and
// not before this tick.
func (t *tick) fallLimitAt(at int64) rateLimit {
	d := &t.p.ScaleDown
	if d.Select == Disabled {
		return rateLimit{t.lastTarget, -1, t.lastTarget}
	}
	best := rateLimit{0, -1, t.lastTarget}
	for i, r := range d.Rates {
		start := t.s.steps.At(at - r.Period.Milliseconds()).High
		n := r.fall(start)
		if i == 0 || d.Select == SelectMax && n < best.n || d.Select == SelectMin && n > best.n {
			best = rateLimit{n, int8(i), start}
		}
	}
	best.n = min(best.n, t.lastTarget)
	return best
}

// rate limits the change of the target to what the rate policies of scaleUp or scaleDown permit. From zero it always permits one replica,
// because any percentage of zero is zero.
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

// earliestByRate returns the earliest time at which the scale-down rates permit a target below the last target. The result is at or after
// the parameter from. earliestByRate returns false if the rates never permit a decrease.
//
// A rate may permit a decrease now but not later. For example, the target was 0, then 2, and is now 1, and the rate is 1 pod per period.
// While the period starts at a time with the target 0, a target of 0 is permitted. When the period starts at a time with the target 2, only
// a target of 1 is permitted. Therefore, earliestByRate checks every time at which a period can start with another past target.
func (t *tick) earliestByRate(from int64) (int64, bool) {
	if t.fallLimitAt(from).n < t.lastTarget {
		return from, true
	}
	best := int64(math.MaxInt64)
	for _, r := range t.p.ScaleDown.Rates {
		for _, step := range t.s.steps.All() {
			when := step.Start + r.Period.Milliseconds()
			if from < when && when < best && t.fallLimitAt(when).n < t.lastTarget {
				best = when
			}
		}
	}
	return best, best < history.MaxStamp
}
