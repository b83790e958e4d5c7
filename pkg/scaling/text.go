package scaling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

var ruleNames = [numRules]string{
	RuleNone: "none", RulePropose: "signal", RuleCombine: "combine", RuleObjective: "objective",
	RuleMissing: "missing signal", RuleFallback: "fallback",
	RuleGrowingDemand: "growing demand", RuleLoading: "loading", RuleTolerance: "tolerance", RulePanic: "panic window",
	RuleStabilize: "stabilization window", RuleIdle: "cooldown period", RuleRate: "rate limit", RuleForecast: "forecast",
	RuleScheduleFloor: "schedule floor", RuleScheduleCeiling: "schedule ceiling", RuleAtRisk: "nodes at risk", RuleSurge: "surge",
	RuleCapacity: "capacity", RuleOverride: "override", RulePaused: "paused", RuleBounds: "bounds", RuleTeamLimit: "team limit",
}

// String returns the name of the rule for tables, metrics and JSON. If an HPA has the same rule, its name is the same.
func (r Rule) String() string {
	if r < numRules {
		return ruleNames[r]
	}
	return "rule " + strconv.Itoa(int(r))
}

// String returns the status in a few words, such as "stale".
func (s SignalStatus) String() string {
	return [...]string{"ok", "missing", "stale", "low coverage", "no ready replica"}[min(s, SignalUnmeasured)]
}

// clause returns the status as the predicate of a sentence about the signal, such as "is stale".
func (s SignalStatus) clause() string {
	return [...]string{"is ok", "is missing", "is stale", "has low coverage", "has no ready replica to measure"}[min(s, SignalUnmeasured)]
}

// String returns the cause in a few words. It is empty for CauseNone.
func (c Cause) String() string {
	return [...]string{"", "not read yet", "no data", "source unreachable", "invalid value", "answer cut off", "forbidden",
		"contradicts the hardware", "not from a declared exporter", "over the namespace's quota", "no usable sample time"}[min(c, CauseUntimed)]
}

// Text returns the target and its cause in one line, such as "12 replicas: gateway 893 needs 149 replicas (target 6 per replica); capped at
// maxReplicas 12". p must be the policy with which Decide created d.
func (d *Decision) Text(p *Policy) string {
	return replicas(float64(d.Replicas)) + ": " + d.Why(p)
}

// Why returns the cause of the target: what the signals need, and the last rule that changed the target. If that rule adds replicas to the
// target of another rule, the text also contains the other rule. The end of the text reports replicas that were added for a move or an
// interruption and are no longer needed, and replacements that a limit prevents from starting before the interruption. If the decision has
// no reasons, Why returns the name of the binding rule.
func (d *Decision) Why(p *Policy) string {
	all := d.Reasons.All()
	var causes []string
	effects := d.bindingEffects(all, p)
	for _, r := range all {
		switch {
		case r.Rule == RuleObjective && d.Plan != nil:
			causes = append(causes, d.Plan.Text())
		case r.Rule == RuleCombine || r.Rule == RuleObjective:
			causes = append(causes, d.ReasonText(r, p))
		}
	}
	for _, r := range all {
		if r.Rule == RuleSurge && r.A < 0 {
			effects = append(effects, d.ReasonText(r, p))
		}
	}
	if blocked := d.blockedReplacements(p); blocked != "" {
		effects = append(effects, blocked)
	}
	if parts := slices.Concat(causes, effects); len(parts) > 0 {
		return strings.Join(parts, "; ")
	}
	return d.Binding.String()
}

// ReasonText returns the text of a reason of d, see Reason.Text. The text of RuleCapacity also contains CapCause.
func (d *Decision) ReasonText(r Reason, p *Policy) string {
	if r.Rule != RuleCapacity || d.CapCause == nil {
		return r.Text(p)
	}
	c, end := d.CapCause, ""
	if !d.CapCause.Until.IsZero() {
		end = until(float64(c.Until.Unix()))
	}
	if r.To < r.From {
		return fmt.Sprintf("capped at %d by capacity group %s%s: %s", r.To, c.Group, end, c.Text())
	}
	return fmt.Sprintf("capacity group %s permits at most %s%s: %s", c.Group, replicas(r.A), end, c.Text())
}

// bindingEffects returns the text of the last rule that changed the target. If that rule adds replicas to the target of another rule, the
// text of the other rule is first.
func (d *Decision) bindingEffects(all []Reason, p *Policy) (effects []string) {
	i := len(all) - 1
	for i >= 0 && (all[i].Rule != d.Binding || all[i].Index != d.BindingIndex) {
		i--
	}
	for i >= 0 && all[i].Rule != RuleCombine && all[i].Rule != RuleObjective {
		effects = append([]string{d.ReasonText(all[i], p)}, effects...)
		if all[i].Rule != RuleAtRisk && all[i].Rule != RuleSurge {
			break
		}
		for i--; i >= 0 && all[i].From == all[i].To; {
			i--
		}
	}
	return effects
}

// blockedReplacements returns a text if replacements for replicas on nodes that are about to be interrupted cannot start before these
// replicas end. The reason is a rule after RuleAtRisk that limits the target, because a replacement must not exceed a bound. If no
// replacement is blocked, blockedReplacements returns "".
func (d *Decision) blockedReplacements(p *Policy) string {
	all := d.Reasons.All()
	for i := range all {
		r := &all[i]
		if r.Rule != RuleAtRisk || d.Replicas >= r.To {
			continue
		}
		n := min(float64(r.To-d.Replicas), r.A)
		text := fmt.Sprintf("a replacement for %.0f ready replica on a node that is about to be interrupted cannot start early", n)
		if n != 1 {
			text = fmt.Sprintf("replacements for %.0f ready replicas on nodes that are about to be interrupted cannot start early", n)
		}
		for _, later := range all[i:] {
			if later.Rule == RuleBounds && d.Binding == RuleBounds {
				text += ": " + p.maximumText(later.B) + " is reached"
			}
		}
		return text
	}
	return ""
}

// Format returns a value as text with its unit, such as 87, 91% or 250ms.
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

// trim formats a value of at least 1 with at most one decimal, and a smaller value with two significant digits.
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

// length formats a number of seconds. It uses seconds below 15 minutes, and minutes otherwise.
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

func replicas(n float64) string { return fmt.Sprintf("%.0f %s", n, plural(n, "replica")) }

// until returns a text such as " until 15:04 UTC". It returns "" for the time 0, which means that the end is not known.
func until(unix float64) string {
	if unix == 0 {
		return ""
	}
	return " until " + clockIn(unix, time.UTC, "15:04")
}

// clockIn formats a time in Unix seconds with a layout. It adds the seconds only if they are not 0.
func clockIn(unix float64, zone *time.Location, layout string) string {
	t := time.UnixMilli(int64(unix * 1000)).In(zone)
	if t.Second() != 0 {
		layout += ":05"
	}
	return t.Format(layout) + " " + zone.String()
}

// untilSchedule returns the same text as until, but in the time zone of schedule i.
func (p *Policy) untilSchedule(i int8, unix float64) string {
	if unix == 0 {
		return ""
	}
	return " until " + p.scheduleClock(i, unix)
}

// scheduleClock formats a time in the time zone of a schedule. For a window that occurs once it includes the date, because the time may be
// days ahead.
func (p *Policy) scheduleClock(i int8, unix float64) string {
	if i < 0 || int(i) >= len(p.Schedules) {
		return clockIn(unix, time.UTC, "15:04")
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
	return "schedule " + p.Schedules[i].Window.Name
}

func (p *Policy) forecastOf(i int8) Forecast {
	if i < 0 || int(i) >= len(p.Signals) {
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

// targetText formats the target of a signal: "target 10 per replica" for a Total, "target 80%" for a Mean.
func (p *Policy) targetText(i int8) string {
	if i < 0 || int(i) >= len(p.Signals) {
		return "target not known"
	}
	s := &p.Signals[i]
	if s.Kind == Total {
		return "target " + s.Unit.Format(s.Target) + " per replica"
	}
	return "target " + s.Unit.Format(s.Target)
}
