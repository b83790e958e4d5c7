package scaling

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
)

// tickMillis is the time between two ticks, in milliseconds. The target changes only in a tick. If a rate permits a decrease only during an
// interval that is shorter than this time and contains no tick, the target does not decrease.
const tickMillis = 1000

// earliestScaleDown returns the earliest time at which the target can decrease if there is no demand from now on. It also returns the rule
// that prevents a decrease until then. A ceiling or an override can still lower the target earlier.
func (t *tick) earliestScaleDown() (time.Time, Rule) {
	if rule := t.unboundedRule(); rule != RuleNone {
		return time.Time{}, rule
	}
	s, at, rule := t.s, t.at, RuleNone
	later := func(r Rule, when int64) {
		if when > at {
			at, rule = when, r
		}
	}
	newest, ok := s.down.Last(s.lastTarget)
	switch free := newest + t.p.ScaleDown.StabilizationWindow.Milliseconds(); {
	case s.lastTarget == 1 || ok && t.zeroAt() < free:
		later(RuleIdle, t.zeroAt())
	case ok:
		later(RuleStabilize, free)
	}
	later(RulePanic, t.panicUntil)
	if t.hasObjective() && !s.planner.Plan().EarliestScaleDown.IsZero() {
		later(RuleObjective, history.Stamp(s.planner.Plan().EarliestScaleDown))
	}
	if t.n <= t.floor {
		later(RuleScheduleFloor, t.floorEnds())
	}
	if t.overrides() && t.n <= t.o.Operator.Min {
		later(RuleOverride, history.Stamp(t.o.Operator.Until))
	}
	t.lastTarget = s.lastTarget
	next := max(at, t.at+tickMillis)
	switch free, ok := t.earliestByRate(next); {
	case !ok:
		return time.Time{}, RuleRate
	case free > next:
		later(RuleRate, free)
	}
	if rule == RuleNone || at >= history.MaxStamp {
		return time.Time{}, rule
	}
	return history.Time(at), rule
}

// unboundedRule returns the rule that prevents a decrease until an unknown time, or RuleNone if there is no such rule.
func (t *tick) unboundedRule() Rule {
	switch {
	case t.isPaused():
		return RulePaused
	case t.n <= max(t.p.MinReplicas, 0):
		return RuleBounds
	case t.inputs.degraded:
		return RuleMissing
	case t.binding == RuleGrowingDemand || t.binding == RuleLoading:
		return t.binding
	case t.forecastKeepsTarget():
		return RuleForecast
	}
	return RuleNone
}

// zeroAt returns the time at which the cooldown ends, in Unix milliseconds. It returns the constant never if minReplicas is above zero.
func (t *tick) zeroAt() int64 {
	if t.p.MinReplicas > 0 {
		return never
	}
	return t.s.activeAt + t.p.CooldownPeriod.Milliseconds()
}

// floorEnds returns the time until which schedule floors prevent a decrease, in Unix milliseconds. For an open schedule whose minimum is at
// least the target, this is the time at which it closes. For a schedule whose Lead has begun, it is the time at which the schedule opens.
// floorEnds returns the latest of these times.
func (t *tick) floorEnds() int64 {
	a, last := &t.s.schedules, t.at
	for i := range min(len(t.p.Schedules), MaxSchedules) {
		if (a.open|a.ahead)&(1<<i) != 0 && t.p.Schedules[i].Min >= t.n {
			last = max(last, a.change[i])
		}
	}
	return last
}
