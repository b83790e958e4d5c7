package explain

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/picture"
)

// WriteText writes the explanation for a terminal. zone is the time zone of the times in the text.
func (e Explanation) WriteText(w io.Writer, zone *time.Location) error {
	if e.At.IsZero() {
		return e.writeUndecided(w)
	}
	out := &strings.Builder{}
	if e.NotDecided == "" {
		fmt.Fprintf(out, "%s  %d -> %d  at %s   ready %d, loading %d, pending %d   mode %s   policy %s\n",
			e.Policy, e.From, e.Target, e.At.In(zone).Format("15:04:05 MST"), e.Ready, e.Loading, e.Pending, e.Mode, e.Origin)
	} else {
		fmt.Fprintf(out, "%s  no current target   mode %s   policy %s\n", e.Policy, e.Mode, e.Origin)
		fmt.Fprintf(out, "NOT CURRENT %s\n", e.NotDecided)
		fmt.Fprintf(out, "            the lines below show the last decision: %d -> %d at %s\n",
			e.From, e.Target, e.At.In(zone).Format("2006-01-02 15:04:05 MST"))
	}
	fmt.Fprintf(out, "WHY         %s\n", e.Why)
	e.writeState(out, zone)
	signals := picture.Table{Heads: []string{"signal", "type", "value", "target", "recommends", "age", "pods", "note"}}
	for _, s := range e.Signals {
		signals.Rows = append(signals.Rows, []any{
			s.Name, s.Type, s.ValueText(), s.TargetText(), s.RecommendsText(), s.AgeText(), s.PodsText(), s.Note,
		})
	}
	learned := ""
	if e.Objective != nil && e.Objective.Learned != "" {
		learned = "LEARNED     " + e.Objective.Learned + "\n"
	}
	rules := picture.Table{Heads: []string{"rule", "from -> to", "why"}}
	for _, r := range e.Rules {
		why := r.Text
		if r.Binding {
			why += "   <- BINDING"
		}
		rules.Rows = append(rules.Rows, []any{r.Name, fmt.Sprintf("%4d -> %d", r.From, r.To), why})
	}
	fmt.Fprintf(out, "%s%s%s%s", signals, e.fixes(), learned, rules)
	e.writeFooter(out, zone)
	_, err := io.WriteString(w, out.String())
	return err
}

// fixes returns one line with the next step for each signal that has one.
func (e Explanation) fixes() string {
	out := &strings.Builder{}
	for _, s := range e.Signals {
		if s.NextStep != "" {
			fmt.Fprintf(out, "FIX         %s: %s\n", s.Name, s.NextStep)
		}
	}
	return out.String()
}

// writeUndecided writes why a workload has no decision and what to check.
func (e Explanation) writeUndecided(w io.Writer) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s  %s   mode %s   policy %s\n", e.Policy, e.NotDecided, e.Mode, e.Origin)
	fmt.Fprintf(out, "NOT SERVED  %s: an HPA that reads this target keeps its replicas\n", e.Served)
	if e.NotDecided != e.Served { // the two texts differ only if the scale target is the cause
		fmt.Fprintln(out, "CHECK       the policy's scaleTargetRef, that the object and its namespace exist, and that its kind is watched:")
		fmt.Fprintln(out, "            Deployment, StatefulSet, LeaderWorkerSet, and the kinds in the chart's scaleKinds")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Line returns the explanation in one line, for a log without JSON.
func (e Explanation) Line() string {
	if e.NotDecided != "" {
		return e.Policy + "  " + e.NotDecided
	}
	why := e.Why
	if e.Degraded {
		why += " (inputs missing)"
	}
	return fmt.Sprintf("%s  %-28s ready %-3d %3d -> %s", e.At.Format("Mon 15:04:05"), e.Policy, e.Ready, e.From, why)
}

// writeState writes each of these states that applies: the target is not served, inputs are missing, replicas crash, a replica is
// added before an eviction, or a user paused or overrode the policy.
func (e Explanation) writeState(out *strings.Builder, zone *time.Location) {
	if e.Served != Served {
		fmt.Fprintf(out, "NOT SERVED  %s\n", e.Served)
	}
	if e.Degraded {
		fmt.Fprintln(out, "DEGRADED    inputs are missing: the target can increase, it cannot decrease")
	}
	if e.Crashing > 0 {
		fmt.Fprintf(out, "CRASHING    %s\n", e.Crashes())
	}
	if e.Rejected > 0 {
		fmt.Fprintf(out, "REJECTED    %s\n", e.Rejections())
	}
	if e.Surge != "" {
		fmt.Fprintf(out, "SURGE       %s\n", e.Surge)
	}
	if e.Operator != nil {
		fmt.Fprintf(out, "OPERATOR    %s\n", e.Operator.Text(zone))
	}
}

// Crashes returns a description of the replicas that restart in a loop, with the command that shows their logs, or "" if there are none.
func (e Explanation) Crashes() string {
	namespace, _, _ := strings.Cut(e.Policy, "/")
	return CrashText(e.Crashing, namespace, e.CrashingPod)
}

// CrashText returns a description of n replicas that restart in a loop, or "" if n is 0. pod is the name of one of these pods.
func CrashText(n int32, namespace, pod string) string {
	replicas := "replicas restart"
	switch n {
	case 0:
		return ""
	case 1:
		replicas = "replica restarts"
	}
	show := fmt.Sprintf("kubectl -n %s logs %s --previous", namespace, pod)
	return fmt.Sprintf("%d %s in a loop and count neither as ready nor as loading: %s", n, replicas, show)
}

// Rejections returns a description of the replicas whose pods the API server rejects, or "" if there are none.
func (e Explanation) Rejections() string {
	namespace, _, _ := strings.Cut(e.Policy, "/")
	return RejectionText(e.Rejected, namespace, e.Rejection)
}

// RejectionText returns a description of n replicas whose pods the API server rejects, with the API server's response and a command or step
// for the user. It returns "" if n is 0.
func RejectionText(n int32, namespace string, r engine.Rejection) string {
	replicas := "replicas"
	switch n {
	case 0:
		return ""
	case 1:
		replicas = "replica"
	}
	return fmt.Sprintf("%s rejects the pods of %d %s: %s; %s", r.By(), n, replicas, r.Text, r.NextStep(namespace))
}

// Text returns a description of the pause or override, with its end and the name of the user who set it.
func (o *Operator) Text(zone *time.Location) string {
	var parts []string
	if o.Paused {
		parts = append(parts, "paused")
	}
	if o.Min != nil {
		parts = append(parts, fmt.Sprintf("min=%d", *o.Min))
	}
	if o.Max != nil {
		parts = append(parts, fmt.Sprintf("max=%d", *o.Max))
	}
	if !o.Until.IsZero() {
		parts = append(parts, "until "+o.Until.In(zone).Format("2006-01-02 15:04 MST"))
	}
	if o.By != "" {
		parts = append(parts, "by "+o.By)
	}
	return strings.Join(parts, " ")
}

func (e Explanation) writeFooter(out *strings.Builder, zone *time.Location) {
	if len(e.Without) > 0 {
		parts := make([]string, len(e.Without))
		for i, w := range e.Without {
			parts[i] = fmt.Sprintf("%s %d", w.Rule, w.Replicas)
		}
		fmt.Fprintf(out, "WITHOUT  %s\n", strings.Join(parts, " | "))
	}
	fmt.Fprintf(out, "NEXT     %s\n", e.Next(zone))
	kind := "SCALED BY"
	if e.ScaledBy != nil {
		kind = e.ScaledBy.Short()
	}
	fmt.Fprintf(out, "%-8s %s\n", kind, e.Follows())
}

// Next returns a text with the time or the condition of the next possible change of the target.
func (e Explanation) Next(zone *time.Location) string {
	switch {
	case e.At.IsZero():
		return "decided when the scale target exists"
	case e.NotDecided != "":
		return "decided by the next successful tick that finds the scale target"
	case !e.EarliestScaleDown.IsZero():
		return fmt.Sprintf("earliest scale-down: %s (%s)", e.EarliestScaleDown.In(zone).Format("15:04:05"), e.ScaleDownRule)
	case e.ScaleDownRule != "":
		return "can increase at any tick; cannot decrease while this rule applies: " + e.ScaleDownRule
	}
	return "can change at any tick"
}

// Follows returns a text with the object that scales the workload to the target, and whether this object applies every change of the
// target.
func (e Explanation) Follows() string {
	switch {
	case e.At.IsZero():
		return "not known yet"
	case e.NotDecided != "":
		return "not known: there is no current decision"
	}
	return e.ScaledBy.Text()
}

// Text returns a text with the number of replicas that the object desires, and whether the object applies every change of the target. A nil
// ScaledBy means that no object reads the target.
func (f *ScaledBy) Text() string {
	switch {
	case f == nil:
		return "no HPA or ScaledObject of the scale target reads this target"
	case f.Exact:
		return fmt.Sprintf("%s desires %d: follows exactly", f.Name, f.Desired)
	}
	return fmt.Sprintf("%s desires %d: can differ from the target, %s", f.Name, f.Desired, f.Why)
}

// Short returns the object's kind for display: HPA instead of HorizontalPodAutoscaler.
func (f *ScaledBy) Short() string { return ShortKind(f.Kind) }

// ShortKind returns a kind for display: HPA instead of HorizontalPodAutoscaler, and other kinds unchanged.
func ShortKind(kind string) string {
	if kind == "HorizontalPodAutoscaler" {
		return "HPA"
	}
	return kind
}

// ValueText returns the value with its unit, or "?" if it is unknown.
func (s Signal) ValueText() string {
	if s.Value == nil {
		return "?"
	}
	return FormatValue(*s.Value, s.Unit)
}

// RecommendsText returns the number of replicas that the signal recommends, or "-" if it recommends none.
func (s Signal) RecommendsText() string {
	if s.Recommends == nil {
		return "-"
	}
	return strconv.Itoa(int(*s.Recommends))
}

// AgeText returns the age of the value, or "-" if there is no value.
func (s Signal) AgeText() string {
	if s.Value == nil {
		return "-"
	}
	return ShortDuration(time.Duration(s.Age * float64(time.Second)))
}

// PodsText returns how many of the ready pods reported, or "-" for a signal that is not read from pods.
func (s Signal) PodsText() string {
	if s.Reported < 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", s.Reported, s.Ready)
}

// TargetText returns the formatted target. For a signal without a target, which only provides measurements for the objective, it returns
// "none" and the measured quantity.
func (s Signal) TargetText() string {
	if s.Target == 0 && s.Measures != "" {
		return "none (" + s.Measures + ")"
	}
	return FormatValue(s.Target, s.Unit)
}

// FormatValue formats a value with about three significant digits. The unit is count, percent (v is a fraction) or seconds.
func FormatValue(v float64, unit string) string {
	switch unit {
	case "percent":
		return FormatValue(100*v, "count") + "%"
	case "seconds":
		return time.Duration(v * float64(time.Second)).Round(time.Millisecond).String()
	}
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// ShortDuration formats a duration with its largest unit, or with its two largest units: 6s, 4m, 1h30m.
func ShortDuration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
}
