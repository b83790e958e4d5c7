package explain

import (
	"fmt"
	"strconv"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Reason returns the cause of the rule's effect in a few words, without the name of the rule. p must be the policy with which
// scaling.Decide created the reason.
func Reason(r scaling.Reason, p *scaling.Policy) string {
	switch r.Rule {
	case scaling.RuleCombine:
		return combineText(r, p)
	case scaling.RuleObjective:
		return objectiveText(r, p)
	case scaling.RuleMissing:
		return missingText(r, p)
	case scaling.RuleFallback:
		return fallbackText(r, p)
	case scaling.RuleGrowingDemand:
		u := unit(p, r.Index)
		return fmt.Sprintf("%s grew from %s to %s: utilization does not lower the target%s", signalName(p, r.Index), u.Format(r.B),
			u.Format(r.A), belowKept(r))
	case scaling.RuleLoading:
		if r.Index >= 0 {
			return fmt.Sprintf("%s is above its target on %.0f ready %s: %s", signalName(p, r.Index), r.B, plural(r.B, "replica"), noScaleDown(r))
		}
		return replicas(r.A) + " loading, not included in the mean: " + noScaleDown(r)
	case scaling.RuleTolerance:
		return fmt.Sprintf("%s of the last target, within the tolerance of %s", scaling.Percent.Format(r.A), scaling.Percent.Format(r.B))
	case scaling.RulePanic:
		return fmt.Sprintf("panic window after a burst: %s%s (now %s times the ready replicas)", noScaleDown(r), until(r.B),
			plain(r.A))
	case scaling.RuleStabilize:
		if r.To < r.From {
			return fmt.Sprintf("a recommendation of %d or fewer in the scale-up window of %s counts%s", r.To, length(r.A), until(r.B))
		}
		return fmt.Sprintf("a recommendation of %d or more in the scale-down window of %s counts%s", r.To, length(r.A), until(r.B))
	case scaling.RuleIdle:
		return idleText(r)
	case scaling.RuleRate:
		return rateText(r, p)
	}
	return limitText(r, p)
}

// noScaleDown returns "no scale-down", or "no scale-down below N" if the rule raised the target to N. N can be less than the target of the
// previous tick.
func noScaleDown(r scaling.Reason) string {
	return "no scale-down" + belowKept(r)
}

// belowKept returns " below N" if the rule raised the target to N, and otherwise "".
func belowKept(r scaling.Reason) string {
	if r.To > r.From {
		return fmt.Sprintf(" below %d", r.To)
	}
	return ""
}

func limitText(r scaling.Reason, p *scaling.Policy) string {
	switch r.Rule {
	case scaling.RuleForecast:
		return forecastText(r, p)
	case scaling.RuleScheduleFloor:
		if r.B < 0 {
			return fmt.Sprintf("at least %s ahead of %s, which begins at %s", replicas(r.A), scheduleName(p, r.Index),
				scheduleClock(p, r.Index, -r.B))
		}
		return fmt.Sprintf("%s: at least %s%s", scheduleName(p, r.Index), replicas(r.A), untilSchedule(p, r.Index, r.B))
	case scaling.RuleScheduleCeiling:
		text := fmt.Sprintf("%s: at most %s%s", scheduleName(p, r.Index), replicas(r.A), untilSchedule(p, r.Index, r.B))
		if float64(r.To) > r.A {
			text += ", reached at the rate of scaleDown"
		}
		return text
	case scaling.RuleAtRisk:
		return atRiskText(r)
	case scaling.RuleSurge:
		if r.A < 0 {
			return replicas(-r.A) + " fewer, because the move or the interruption is over"
		}
		return fmt.Sprintf("%.0f added to move replicas to other nodes", r.A)
	case scaling.RuleCapacity:
		why := "no node can be launched beyond " + replicas(r.A)
		if r.B == 1 {
			why = "the API server rejects further pods"
		}
		if r.To < r.From {
			return fmt.Sprintf("capped at %d: %s", r.To, why)
		}
		return why
	case scaling.RuleOverride:
		return overrideText(r.A, r.B)
	case scaling.RulePaused:
		return "paused by annotation"
	case scaling.RuleBounds:
		return boundsText(r, p)
	case scaling.RuleTeamLimit:
		return teamText(r, p)
	}
	return ""
}

// objectiveText returns the number of replicas that the objective needs. Decision.Plan contains how this number was computed.
func objectiveText(r scaling.Reason, p *scaling.Policy) string {
	if p.Objective == nil {
		return "the objective needs " + replicas(r.A)
	}
	return fmt.Sprintf("%s needs %s", Objective(p.Objective), replicas(r.A))
}

// Objective returns an objective in a few words, such as "99% within 10s (wait)".
func Objective(o *objective.Objective) string {
	return fmt.Sprintf("%s%% within %s (%s)", strconv.FormatFloat(o.Percentile, 'g', 6, 64), scaling.Seconds.Format(o.Limit.Seconds()), o.Kind)
}

// combineText returns the number of replicas and what determines it: the signal that needs the most replicas, or the formula.
func combineText(r scaling.Reason, p *scaling.Policy) string {
	switch {
	case r.Index >= 0:
		smoothed := ""
		if f := forecastOf(p, r.Index); f.Window > 0 && f.Replaces {
			smoothed = fmt.Sprintf(", averaged over %s plus %s deviations,", length(f.Window.Seconds()), plain(f.Deviations))
		}
		return fmt.Sprintf("%s %s%s needs %s (%s)", signalName(p, r.Index), unit(p, r.Index).Format(r.B), smoothed,
			replicas(float64(r.To)), targetText(p, r.Index))
	case p.Formula != nil:
		return "the formula needs " + replicas(float64(r.To))
	}
	return "no signal needs a replica"
}

func missingText(r scaling.Reason, p *scaling.Policy) string {
	if r.Index < 0 {
		return "no signal can be used: " + noScaleDown(r)
	}
	more := ""
	if r.A > 1 {
		more = fmt.Sprintf(", %.0f more cannot be used", r.A-1)
	}
	return fmt.Sprintf("%s %s%s: %s", signalName(p, r.Index), clause(scaling.SignalStatus(r.B)), more, noScaleDown(r))
}

// fallbackText returns the failed signal and the minimum that the policy's fallback sets. A fallback never lowers the target.
func fallbackText(r scaling.Reason, p *scaling.Policy) string {
	failed := fmt.Sprintf("%s failed %.0f %s in a row: ", signalName(p, r.Index), r.A, plural(r.A, "poll"))
	if b := p.Fallback.Behavior; b == scaling.FallbackStatic || b == scaling.FallbackCurrentReplicasIfHigher {
		return failed + "fallback to at least " + replicas(r.B)
	}
	return failed + "fallback to the current replicas"
}

func idleText(r scaling.Reason) string {
	switch {
	case r.To == 0 && r.A > 0:
		return "inactive for " + length(r.A) + ": scale to zero"
	case r.To == 0:
		return "inactive: scale to zero"
	case r.A == scaling.IdleActive:
		return "active: at least 1 replica"
	case r.A == scaling.IdleHidden:
		return "a pod that did not report may be serving: at least 1 replica"
	case r.A == scaling.IdleMissing:
		return "activity is not known: at least 1 replica"
	case r.A == scaling.IdlePanic:
		return "panic window: at least 1 replica"
	}
	return fmt.Sprintf("inactive for %s, less than cooldownPeriod: at least 1 replica%s", length(r.A), until(r.B))
}

func rateText(r scaling.Reason, p *scaling.Policy) string {
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
	if rate.Type == scaling.Pods {
		amount = fmt.Sprintf("%d %s", rate.Value, plural(float64(rate.Value), "pod"))
	}
	period := length(rate.Period.Seconds())
	return fmt.Sprintf("%s limited to %s per %s (%s %s ago)", direction, amount, period, replicas(r.B), period)
}

func forecastText(r scaling.Reason, p *scaling.Policy) string {
	if r.Index < 0 {
		return "the forecast needs " + replicas(r.A)
	}
	f := forecastOf(p, r.Index)
	return fmt.Sprintf("the forecast of %s needs %s replicas (mean %s over %s plus %s deviations)",
		signalName(p, r.Index), plain(r.A), plain(r.B), length(f.Window.Seconds()), plain(f.Deviations))
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

// boundsText returns the bound that changed the target. If no bound changed it, it returns both bounds. The maximum is the maximum of the
// managed HPA if it is less than the maximum of the policy.
func boundsText(r scaling.Reason, p *scaling.Policy) string {
	most := maximumText(p, r.B)
	switch {
	case r.To > r.From:
		return fmt.Sprintf("raised to minReplicas %.0f", r.A)
	case r.To < r.From:
		return "capped at " + most
	}
	return fmt.Sprintf("within minReplicas %.0f and %s", r.A, most)
}

// teamText returns the team, its limit, and the amount of the resource that is not available to the workload.
func teamText(r scaling.Reason, p *scaling.Policy) string {
	if p.Team == nil || r.Index < 0 || int(r.Index) >= len(p.Team.Limits) {
		return fmt.Sprintf("capped at %d by a team limit of %.0f", r.To, r.A)
	}
	resource := p.Team.Limits[r.Index].Resource
	switch {
	case r.B < 0 && r.To == 1:
		return fmt.Sprintf("capped at 1 until all pods of this replica exist: how many %s a replica requests is not known, and team %s has a "+
			"limit of %.0f", resource, p.Team.Name, r.A)
	case r.B < 0:
		return fmt.Sprintf("no scale-up: how many %s a replica requests is not known, and team %s has a limit of %.0f",
			resource, p.Team.Name, r.A)
	}
	return fmt.Sprintf("capped at %d: team %s has a limit of %.0f %s, and others use %.0f", r.To, p.Team.Name, r.A, resource, r.B)
}

// maximumText returns the name and value of the maximum that applies. This is the maximum of the managed HPA if it is less than the maximum
// of the policy.
func maximumText(p *scaling.Policy, most float64) string {
	text := fmt.Sprintf("maxReplicas %.0f", most)
	if most < float64(p.MaxReplicas) {
		text += " of the HPA"
	}
	return text
}

// plain formats a number without a unit.
func plain(v float64) string { return scaling.Count.Format(v) }

// atRiskText returns how many replicas scaling.RuleAtRisk added for ready replicas on nodes that are about to be interrupted, and how many
// for expected losses.
func atRiskText(r scaling.Reason) string {
	ready := fmt.Sprintf("%.0f ready %s on nodes that are about to be interrupted", r.A-r.B, plural(r.A-r.B, "replica"))
	switch {
	case r.B <= 0:
		return fmt.Sprintf("%.0f added: %s", r.A, ready)
	case r.B >= r.A:
		return fmt.Sprintf("%.0f added for expected losses of nodes", r.A)
	}
	return fmt.Sprintf("%.0f added: %s, and %.0f for expected losses of nodes", r.A, ready, r.B)
}
