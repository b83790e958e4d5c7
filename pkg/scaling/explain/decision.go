package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// clause returns the status as the predicate of a sentence whose subject is the signal, such as "is stale".
func clause(s scaling.SignalStatus) string {
	all := [...]string{"is ok", "is missing", "is stale", "has low coverage", "has no ready replica to measure"}
	return all[min(s, scaling.SignalUnmeasured)]
}

// Decision returns the target of a decision and its cause in one line, such as "12 replicas: gateway 893 needs 149 replicas (target 6 per
// replica); capped at maxReplicas 12". p must be the policy with which scaling.Decide created d.
func Decision(d *scaling.Decision, p *scaling.Policy) string {
	return replicas(float64(d.Replicas)) + ": " + Cause(d, p)
}

// Cause returns the cause of the target: what the signals need, and the last rule that changed the target. If that rule adds replicas to
// the target of another rule, the text also contains the other rule. The text ends with up to two additions: replicas that were added for a
// move or an interruption and are no longer needed, and replacements that cannot start before the interruption because of a limit. If the
// decision has no reasons, Cause returns the name of the binding rule.
func Cause(d *scaling.Decision, p *scaling.Policy) string {
	all := d.Reasons.All()
	var causes []string
	effects := bindingEffects(d, all, p)
	for _, r := range all {
		switch {
		case r.Rule == scaling.RuleObjective && d.Plan != nil:
			causes = append(causes, d.Plan.Text())
		case r.Rule == scaling.RuleCombine || r.Rule == scaling.RuleObjective:
			causes = append(causes, ReasonIn(d, r, p))
		}
	}
	for _, r := range all {
		if r.Rule == scaling.RuleSurge && r.A < 0 {
			effects = append(effects, ReasonIn(d, r, p))
		}
	}
	if blocked := blockedReplacements(d, p); blocked != "" {
		effects = append(effects, blocked)
	}
	if parts := slices.Concat(causes, effects); len(parts) > 0 {
		return strings.Join(parts, "; ")
	}
	return d.Binding.String()
}

// ReasonIn does the same as Reason for a reason of the decision d. For RuleCapacity the text also contains d.CapCause.
func ReasonIn(d *scaling.Decision, r scaling.Reason, p *scaling.Policy) string {
	if r.Rule != scaling.RuleCapacity || d.CapCause == nil {
		return Reason(r, p)
	}
	c, end := d.CapCause, ""
	if !d.CapCause.Until.IsZero() {
		end = until(float64(c.Until.Unix()))
	}
	return fmt.Sprintf("capped at %d by capacity group %s%s: %s", r.To, c.Group, end, c.Text())
}

// bindingEffects returns the text of the last rule that changed the target. If this rule adds replicas to the target of another rule, the
// text of the other rule precedes it.
func bindingEffects(d *scaling.Decision, all []scaling.Reason, p *scaling.Policy) (effects []string) {
	i := len(all) - 1
	for i >= 0 && (all[i].Rule != d.Binding || all[i].Index != d.BindingIndex) {
		i--
	}
	for i >= 0 && all[i].Rule != scaling.RuleCombine && all[i].Rule != scaling.RuleObjective {
		effects = append([]string{ReasonIn(d, all[i], p)}, effects...)
		if all[i].Rule != scaling.RuleAtRisk && all[i].Rule != scaling.RuleSurge {
			break
		}
		for i--; i >= 0 && all[i].From == all[i].To; {
			i--
		}
	}
	return effects
}

// blockedReplacements returns a text if a rule after scaling.RuleAtRisk limits the target, so that replacements for replicas on nodes that
// are about to be interrupted cannot start before the interruption, or the reserve for expected losses cannot start. If only some of the
// added replicas cannot start, the text counts replicas of the reserve first. Without such a limit, blockedReplacements returns "".
func blockedReplacements(d *scaling.Decision, p *scaling.Policy) string {
	all := d.Reasons.All()
	for i := range all {
		r := &all[i]
		if r.Rule != scaling.RuleAtRisk || d.Replicas >= r.To {
			continue
		}
		text := ""
		switch n := min(float64(r.To-d.Replicas), r.A) - r.B; {
		case n <= 0:
			text = fmt.Sprintf("%s for expected losses of nodes cannot start early", replicas(n+r.B))
		case n == 1:
			text = "a replacement for 1 ready replica on a node that is about to be interrupted cannot start early"
		default:
			text = fmt.Sprintf("replacements for %.0f ready replicas on nodes that are about to be interrupted cannot start early", n)
		}
		for _, later := range all[i:] {
			if later.Rule == scaling.RuleBounds && d.Binding == scaling.RuleBounds {
				text += ": " + maximumText(p, later.B) + " is reached"
			}
		}
		return text
	}
	return ""
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

// until returns a text such as " until 15:04 UTC". It returns "" for the time 0, which means that the end is unknown.
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
func untilSchedule(p *scaling.Policy, i int8, unix float64) string {
	if unix == 0 {
		return ""
	}
	return " until " + scheduleClock(p, i, unix)
}

// scheduleClock formats a time in the time zone of a schedule. For a window that occurs once it includes the date, because the time may be
// days ahead.
func scheduleClock(p *scaling.Policy, i int8, unix float64) string {
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

func signalName(p *scaling.Policy, i int8) string {
	if i < 0 || int(i) >= len(p.Signals) {
		return "signal " + strconv.Itoa(int(i))
	}
	return p.Signals[i].Name
}

func scheduleName(p *scaling.Policy, i int8) string {
	if i < 0 || int(i) >= len(p.Schedules) {
		return "schedule " + strconv.Itoa(int(i))
	}
	return "schedule " + p.Schedules[i].Window.Name
}

func forecastOf(p *scaling.Policy, i int8) scaling.Forecast {
	if i < 0 || int(i) >= len(p.Signals) {
		return scaling.Forecast{}
	}
	return p.Signals[i].Forecast
}

func unit(p *scaling.Policy, i int8) scaling.Unit {
	if i < 0 || int(i) >= len(p.Signals) {
		return scaling.Count
	}
	return p.Signals[i].Unit
}

// targetText formats the target of a signal: "target 10 per replica" for a scaling.Total, "target 80%" for a Mean.
func targetText(p *scaling.Policy, i int8) string {
	if i < 0 || int(i) >= len(p.Signals) {
		return "target not known"
	}
	s := &p.Signals[i]
	if s.Kind == scaling.Total {
		return "target " + s.Unit.Format(s.Target) + " per replica"
	}
	return "target " + s.Unit.Format(s.Target)
}
