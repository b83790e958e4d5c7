package scaling

import (
	"fmt"
	"strconv"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Text returns the cause of the rule's effect in a few words, without the name of the rule. p must be the policy with which Decide created
// the reason.
func (r Reason) Text(p *Policy) string {
	switch r.Rule {
	case RuleCombine:
		return r.combineText(p)
	case RuleObjective:
		return r.objectiveText(p)
	case RuleMissing:
		return r.missingText(p)
	case RuleFallback:
		return r.fallbackText(p)
	case RuleGrowingDemand:
		u := p.unit(r.Index)
		return fmt.Sprintf("%s grew from %s to %s: utilization does not lower the target%s", p.signalName(r.Index), u.Format(r.B),
			u.Format(r.A), r.belowKept())
	case RuleLoading:
		if r.Index >= 0 {
			return fmt.Sprintf("%s is above its target on %.0f ready %s: %s", p.signalName(r.Index), r.B, plural(r.B, "replica"), r.noScaleDown())
		}
		return replicas(r.A) + " loading, not included in the mean: " + r.noScaleDown()
	case RuleTolerance:
		return fmt.Sprintf("%s of the last target, within the tolerance of %s", Percent.Format(r.A), Percent.Format(r.B))
	case RulePanic:
		return fmt.Sprintf("panic window after a burst: %s%s (now %s times the ready replicas)", r.noScaleDown(), until(r.B), trim(r.A))
	case RuleStabilize:
		if r.To < r.From {
			return fmt.Sprintf("a recommendation of %d or fewer in the scale-up window of %s counts%s", r.To, length(r.A), until(r.B))
		}
		return fmt.Sprintf("a recommendation of %d or more in the scale-down window of %s counts%s", r.To, length(r.A), until(r.B))
	case RuleIdle:
		return r.idleText()
	case RuleRate:
		return r.rateText(p)
	}
	return r.limitText(p)
}

// noScaleDown returns "no scale-down", or "no scale-down below N" if the rule raised the target to N. N may be less than the target of the
// previous tick.
func (r Reason) noScaleDown() string {
	return "no scale-down" + r.belowKept()
}

// belowKept returns " below N" if the rule raised the target to N, and otherwise "".
func (r Reason) belowKept() string {
	if r.To > r.From {
		return fmt.Sprintf(" below %d", r.To)
	}
	return ""
}

func (r Reason) limitText(p *Policy) string {
	switch r.Rule {
	case RuleForecast:
		return r.forecastText(p)
	case RuleScheduleFloor:
		if r.B < 0 {
			return fmt.Sprintf("at least %s ahead of %s, which begins at %s", replicas(r.A), p.scheduleName(r.Index), p.scheduleClock(r.Index, -r.B))
		}
		return fmt.Sprintf("%s: at least %s%s", p.scheduleName(r.Index), replicas(r.A), p.untilSchedule(r.Index, r.B))
	case RuleScheduleCeiling:
		text := fmt.Sprintf("%s: at most %s%s", p.scheduleName(r.Index), replicas(r.A), p.untilSchedule(r.Index, r.B))
		if float64(r.To) > r.A {
			text += ", reached at the rate of scaleDown"
		}
		return text
	case RuleAtRisk:
		return fmt.Sprintf("%.0f added: %.0f ready %s on nodes that are about to be interrupted", r.A, r.A, plural(r.A, "replica"))
	case RuleSurge:
		if r.A < 0 {
			return replicas(-r.A) + " fewer, because the move or the interruption is over"
		}
		return fmt.Sprintf("%.0f added to move replicas between NodePools", r.A)
	case RuleCapacity:
		why := "no node can be launched beyond " + replicas(r.A)
		if r.B == 1 {
			why = "the API server rejects further pods"
		}
		if r.To < r.From {
			return fmt.Sprintf("capped at %d: %s", r.To, why)
		}
		return why
	case RuleOverride:
		return overrideText(r.A, r.B)
	case RulePaused:
		return "paused by annotation"
	case RuleBounds:
		return r.boundsText(p)
	case RuleTeamLimit:
		return r.teamText(p)
	}
	return ""
}

// objectiveText returns the number of replicas that the objective needs. Decision.Plan contains how this number was computed.
func (r Reason) objectiveText(p *Policy) string {
	if p.Objective == nil {
		return "the objective needs " + replicas(r.A)
	}
	return fmt.Sprintf("%s needs %s", ObjectiveText(p.Objective), replicas(r.A))
}

// ObjectiveText returns an objective in a few words, such as "99% within 10s (wait)".
func ObjectiveText(o *objective.Objective) string {
	return fmt.Sprintf("%s%% within %s (%s)", strconv.FormatFloat(o.Percentile, 'g', 6, 64), Seconds.Format(o.Limit.Seconds()), o.Kind)
}

// combineText returns which signal needs the most replicas, or that the formula determines them, and their number.
func (r Reason) combineText(p *Policy) string {
	switch {
	case r.Index >= 0:
		smoothed := ""
		if f := p.forecastOf(r.Index); f.Window > 0 && f.Replaces {
			smoothed = fmt.Sprintf(", averaged over %s plus %s deviations,", length(f.Window.Seconds()), trim(f.Deviations))
		}
		return fmt.Sprintf("%s %s%s needs %s (%s)", p.signalName(r.Index), p.unit(r.Index).Format(r.B), smoothed,
			replicas(float64(r.To)), p.targetText(r.Index))
	case p.Formula != nil:
		return "the formula needs " + replicas(float64(r.To))
	}
	return "no signal needs a replica"
}

func (r Reason) missingText(p *Policy) string {
	if r.Index < 0 {
		return "no signal can be used: " + r.noScaleDown()
	}
	more := ""
	if r.A > 1 {
		more = fmt.Sprintf(", %.0f more cannot be used", r.A-1)
	}
	return fmt.Sprintf("%s %s%s: %s", p.signalName(r.Index), SignalStatus(r.B).clause(), more, r.noScaleDown())
}

// fallbackText returns the failed signal and the minimum that the policy's fallback sets. A fallback never lowers the target.
func (r Reason) fallbackText(p *Policy) string {
	failed := fmt.Sprintf("%s failed %.0f %s in a row: ", p.signalName(r.Index), r.A, plural(r.A, "poll"))
	if b := p.Fallback.Behavior; b == FallbackStatic || b == FallbackCurrentReplicasIfHigher {
		return failed + "fallback to at least " + replicas(r.B)
	}
	return failed + "fallback to the current replicas"
}

// Values of A in a reason of RuleIdle that are not a number of seconds.
const (
	idleActive  = 0  // demand is above an activation value
	idleHidden  = -1 // a pod that did not report may be serving requests
	idleMissing = -2 // signals are missing
	idlePanic   = -3 // the panic window is open
)

func (r Reason) idleText() string {
	switch {
	case r.To == 0 && r.A > 0:
		return "inactive for " + length(r.A) + ": scale to zero"
	case r.To == 0:
		return "inactive: scale to zero"
	case r.A == idleActive:
		return "active: at least 1 replica"
	case r.A == idleHidden:
		return "a pod that did not report may be serving: at least 1 replica"
	case r.A == idleMissing:
		return "activity is not known: at least 1 replica"
	case r.A == idlePanic:
		return "panic window: at least 1 replica"
	}
	return fmt.Sprintf("inactive for %s, less than cooldownPeriod: at least 1 replica%s", length(r.A), until(r.B))
}

func (r Reason) rateText(p *Policy) string {
	direction, d := "scale-down", &p.ScaleDown
	if r.To < r.From {
		direction, d = "scale-up", &p.ScaleUp
	}
	i := int(r.A)
	if i < 0 || i >= len(d.Rates) {
		return fmt.Sprintf("%s beyond %d is disabled", direction, r.To)
	}
	rate := d.Rates[i]
	amount := fmt.Sprintf("%d%%", rate.Value)
	if rate.Type == Pods {
		amount = fmt.Sprintf("%d %s", rate.Value, plural(float64(rate.Value), "pod"))
	}
	period := length(rate.Period.Seconds())
	return fmt.Sprintf("%s limited to %s per %s (%s %s ago)", direction, amount, period, replicas(r.B), period)
}

func (r Reason) forecastText(p *Policy) string {
	if r.Index < 0 {
		return "the forecast needs " + replicas(r.A)
	}
	f := p.forecastOf(r.Index)
	return fmt.Sprintf("the forecast of %s needs %s replicas (mean %s over %s plus %s deviations)",
		p.signalName(r.Index), trim(r.A), trim(r.B), length(f.Window.Seconds()), trim(f.Deviations))
}

func overrideText(low, high float64) string {
	switch {
	case low >= 0 && high >= 0:
		return fmt.Sprintf("override by annotation: min %.0f, max %.0f", low, high)
	case low >= 0:
		return fmt.Sprintf("override by annotation: min %.0f", low)
	}
	return fmt.Sprintf("override by annotation: max %.0f", high)
}

// boundsText returns the bound that changed the target. If none did, it returns both bounds. The maximum is the maximum of the managed HPA
// if it is less than the maximum of the policy.
func (r Reason) boundsText(p *Policy) string {
	most := p.maximumText(r.B)
	switch {
	case r.To > r.From:
		return fmt.Sprintf("raised to minReplicas %.0f", r.A)
	case r.To < r.From:
		return "capped at " + most
	}
	return fmt.Sprintf("within minReplicas %.0f and %s", r.A, most)
}

// teamText returns the team, its limit, and the amount of the resource that is not available to the workload.
func (r Reason) teamText(p *Policy) string {
	if p.Team == nil || r.Index < 0 || int(r.Index) >= len(p.Team.Limits) {
		return fmt.Sprintf("capped at %d by a team limit of %.0f", r.To, r.A)
	}
	resource := p.Team.Limits[r.Index].Resource
	if r.B < 0 {
		return fmt.Sprintf("no scale-up: how many %s a replica requests is not known, and team %s has a limit of %.0f",
			resource, p.Team.Name, r.A)
	}
	return fmt.Sprintf("capped at %d: team %s has a limit of %.0f %s, and others use %.0f", r.To, p.Team.Name, r.A, resource, r.B)
}

// maximumText returns the name and value of the maximum that applies. This is the maximum of the managed HPA if it is less than the maximum
// of the policy.
func (p *Policy) maximumText(most float64) string {
	text := fmt.Sprintf("maxReplicas %.0f", most)
	if most < float64(p.MaxReplicas) {
		text += " of the HPA"
	}
	return text
}
