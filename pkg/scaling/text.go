package scaling

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

var ruleNames = [numRules]string{
	RuleNone: "none", RulePropose: "signal", RuleCombine: "combine", RuleMissing: "missing signal", RuleFallback: "fallback",
	RuleGrowingDemand: "utilization veto", RuleLoading: "loading", RuleTolerance: "tolerance", RulePanic: "panic window",
	RuleStabilize: "stabilization window", RuleIdle: "cooldown period", RuleRate: "rate limit", RuleForecast: "forecast",
	RuleScheduleFloor: "schedule floor", RuleScheduleCeiling: "schedule ceiling", RuleAtRisk: "nodes at risk", RuleSurge: "surge",
	RuleCapacity: "capacity", RuleOverride: "override", RulePaused: "paused", RuleBounds: "bounds", RuleTeamLimit: "team limit",
}

// String names the rule for people, in an HPA's words where it has them.
func (r Rule) String() string {
	if r < numRules {
		return ruleNames[r]
	}
	return "rule " + strconv.Itoa(int(r))
}

// String names the status as explain prints it.
func (s SignalStatus) String() string {
	return [...]string{"ok", "missing", "stale", "low coverage", "no ready replica"}[min(s, SignalUnmeasured)]
}

// String says what went wrong with a reading, as explain prints it.
func (c Cause) String() string {
	return [...]string{"", "not read yet", "no data", "source unreachable", "invalid value", "answer cut off", "forbidden",
		"contradicts the hardware", "not from a declared exporter", "over the namespace's quota", "no usable sample time"}[min(c, CauseUntimed)]
}

// Text says why, in the few words that stand behind the two numbers; the rule's name and the numbers are not repeated. p is the
// policy that the decision was made with.
func (r Reason) Text(p *Policy) string {
	switch r.Rule {
	case RuleCombine:
		return r.combineText(p)
	case RuleMissing:
		return r.missingText(p)
	case RuleFallback:
		return fmt.Sprintf("%s after %.0f failed polls, fallback replicas %.0f", p.signalName(r.Index), r.A, r.B)
	case RuleGrowingDemand:
		u := p.unit(r.Index)
		return fmt.Sprintf("%s grows, %s from %s: utilization alone lowers nothing", p.signalName(r.Index), u.Format(r.A), u.Format(r.B))
	case RuleLoading:
		if r.Index >= 0 {
			return fmt.Sprintf("%s stands above its target with %.0f ready: no reason to fall", p.signalName(r.Index), r.B)
		}
		return fmt.Sprintf("%.0f %s on their way, none bought twice", r.A, plural(r.A, "replica"))
	case RuleTolerance:
		return fmt.Sprintf("%s of the number in force, tolerance %s", Percent.Format(r.A), Percent.Format(r.B))
	case RulePanic:
		return fmt.Sprintf("%s wanted per ready replica, nothing falls until %s", trim(r.A), clock(r.B))
	case RuleStabilize:
		return fmt.Sprintf("%s window %s, until %s", r.direction(), length(r.A), clock(r.B))
	case RuleIdle:
		return r.idleText()
	case RuleRate:
		return r.rateText(p)
	default:
		return r.limitText(p)
	}
}

func (r Reason) limitText(p *Policy) string {
	switch r.Rule {
	case RuleForecast:
		if r.Index >= 0 {
			f := p.forecastOf(r.Index)
			return fmt.Sprintf("%s asked for %s on average in %s, with %s deviations %s", p.signalName(r.Index), trim(r.B), length(f.Window.Seconds()), trim(f.Deviations), trim(r.A))
		}
		return fmt.Sprintf("%.0f ahead of need", r.A)
	case RuleScheduleFloor:
		if r.B < 0 {
			return fmt.Sprintf("%s: floor %.0f, ahead of %s", p.scheduleName(r.Index), r.A, p.clockOf(r.Index, -r.B))
		}
		return fmt.Sprintf("%s: floor %.0f until %s", p.scheduleName(r.Index), r.A, p.clockOf(r.Index, r.B))
	case RuleScheduleCeiling:
		return fmt.Sprintf("%s: ceiling %.0f until %s", p.scheduleName(r.Index), r.A, p.clockOf(r.Index, r.B))
	case RuleAtRisk:
		return fmt.Sprintf("%.0f ready %s on nodes about to be lost", r.A, plural(r.A, "replica"))
	case RuleSurge:
		return fmt.Sprintf("%.0f extra for a paced move", r.A)
	case RuleCapacity:
		return fmt.Sprintf("no node can come beyond %.0f, %.0f without the cap", r.A, r.B)
	case RuleOverride:
		return overrideText(r.A, r.B)
	case RulePaused:
		return "paused by a person"
	case RuleBounds:
		return r.boundsText(p)
	case RuleTeamLimit:
		return r.teamText(p)
	}
	return ""
}

// teamText names the team, its limit and what is left of it.
func (r Reason) teamText(p *Policy) string {
	if p.Team == nil || r.Index < 0 || int(r.Index) >= len(p.Team.Limits) {
		return fmt.Sprintf("team limit %.0f", r.A)
	}
	of := fmt.Sprintf("limit %.0f %s of team %s", r.A, p.Team.Limits[r.Index].Resource, p.Team.Name)
	if r.B < 0 {
		return of + ": the amount that a replica requests cannot be read from the pod template, so that replicas are not added"
	}
	return fmt.Sprintf("%s, %.0f of it not available to this workload", of, r.B)
}

// boundsText shows the policy's own bounds, and the follower's maximum where it is less.
func (r Reason) boundsText(p *Policy) string {
	if r.B < float64(p.MaxReplicas) {
		return fmt.Sprintf("%.0f..%d, HPA max %.0f", r.A, p.MaxReplicas, r.B)
	}
	return fmt.Sprintf("%.0f..%.0f", r.A, r.B)
}

func (r Reason) combineText(p *Policy) string {
	switch {
	case r.Index >= 0:
		smoothed := ""
		if f := p.forecastOf(r.Index); f.Window > 0 && f.Replaces {
			smoothed = fmt.Sprintf(", averaged over %s and with %s deviations,", length(f.Window.Seconds()), trim(f.Deviations))
		}
		return fmt.Sprintf("%s %s%s asks for %s", p.signalName(r.Index), p.unit(r.Index).Format(r.B), smoothed, trim(r.A))
	case p.Formula != nil:
		return "formula gives " + trim(r.A)
	}
	return "no signal asks for any"
}

func (r Reason) missingText(p *Policy) string {
	if r.Index < 0 {
		return "nothing is known: may rise, may not fall"
	}
	more := ""
	if r.A > 1 {
		more = fmt.Sprintf(" and %.0f more", r.A-1)
	}
	return fmt.Sprintf("%s %s%s: may rise, may not fall", p.signalName(r.Index), SignalStatus(r.B), more)
}

func (r Reason) idleText() string {
	switch {
	case r.To == 0 && r.A > 0:
		return "inactive for " + length(r.A)
	case r.A == 0:
		return "active: at least one"
	case r.A < 0:
		return "a pod that did not report may be serving: at least one"
	}
	return fmt.Sprintf("inactive for %s, cooldown until %s", length(r.A), clock(r.B))
}

func (r Reason) rateText(p *Policy) string {
	d := &p.ScaleDown
	if r.To < r.From {
		d = &p.ScaleUp
	}
	i := int(r.A)
	if i < 0 || i >= len(d.Rates) {
		return r.direction() + " disabled"
	}
	rate := d.Rates[i]
	amount := fmt.Sprintf("%d%%", rate.Value)
	if rate.Type == Pods {
		amount = fmt.Sprintf("%d %s", rate.Value, plural(float64(rate.Value), "pod"))
	}
	return fmt.Sprintf("%s at most %s per %s, %.0f at the period's start", r.direction(), amount, length(rate.Period.Seconds()), r.B)
}

// direction is the way that a rule stopped: who makes a number greater than it was stopped a fall.
func (r Reason) direction() string {
	if r.To < r.From {
		return "scaleUp"
	}
	return "scaleDown"
}

func overrideText(low, high float64) string {
	switch {
	case low >= 0 && high >= 0:
		return fmt.Sprintf("min %.0f, max %.0f by a person", low, high)
	case low >= 0:
		return fmt.Sprintf("min %.0f by a person", low)
	}
	return fmt.Sprintf("max %.0f by a person", high)
}

func (p *Policy) signalName(i int8) string {
	if i < 0 || int(i) >= len(p.Signals) {
		return "signal " + strconv.Itoa(int(i))
	}
	return p.Signals[i].Name
}

func (p *Policy) scheduleName(i int8) string {
	if i < 0 || int(i) >= len(p.Schedules) {
		return "schedule " + strconv.Itoa(int(i))
	}
	return p.Schedules[i].Window.Name
}

func (p *Policy) forecastOf(i int8) Forecast {
	if int(i) >= len(p.Signals) {
		return Forecast{}
	}
	return p.Signals[i].Forecast
}

func (p *Policy) unit(i int8) Unit {
	if i < 0 || int(i) >= len(p.Signals) {
		return Count
	}
	return p.Signals[i].Unit
}

// Format prints a value as people read it: 87, 91%, 250ms.
func (u Unit) Format(v float64) string {
	switch u {
	case Percent:
		return trim(v*100) + "%"
	case Seconds:
		if v < 1 {
			return trim(v*1000) + "ms"
		}
		return trim(v) + "s"
	}
	return trim(v)
}

// trim prints at most one decimal, and none where it is zero; two digits of what is less than one.
func trim(v float64) string {
	if v > 0 && v < 1 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	s := strconv.FormatFloat(v, 'f', 1, 64)
	if n := len(s); n > 2 && s[n-2:] == ".0" {
		return s[:n-2]
	}
	return s
}

// length prints a number of seconds as a policy writes it: 600s for a window, 15m for a cooldown.
func length(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d >= 15*time.Minute {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

func plural(n float64, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// clock prints an instant in UTC; a schedule's instants stand in its own zone.
func clock(unix float64) string { return clockIn(unix, time.UTC, "15:04") }

// clockOf prints an instant of a schedule; one that happens once may lie days ahead and shows its date.
func (p *Policy) clockOf(i int8, unix float64) string {
	if i < 0 || int(i) >= len(p.Schedules) {
		return clock(unix)
	}
	w := &p.Schedules[i].Window
	zone, layout := w.Location, "15:04"
	if zone == nil {
		zone = time.UTC
	}
	if (w.Start == calendar.Cron{}) {
		layout = "2006-01-02 15:04"
	}
	return clockIn(unix, zone, layout)
}

func clockIn(unix float64, zone *time.Location, layout string) string {
	if unix == 0 {
		return "further notice"
	}
	t := time.UnixMilli(int64(unix * 1000)).In(zone)
	if t.Second() != 0 {
		layout += ":05"
	}
	return t.Format(layout) + " " + zone.String()
}
