package dashboard

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/picture"
)

// WriteText prints an explanation as a person reads it in a terminal; times are shown in zone.
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
		fmt.Fprintf(out, "            what follows is the last decision, %d -> %d at %s\n", e.From, e.Target, e.At.In(zone).Format("2006-01-02 15:04:05 MST"))
	}
	e.writeState(out, zone)
	signals := picture.Table{Heads: []string{"signal", "type", "value", "target", "asks", "age", "pods", "note"}}
	for _, s := range e.Signals {
		signals.Rows = append(signals.Rows, []any{s.Name, s.Type, s.value(), format(s.Target, s.Unit), s.asks(), s.age(), s.pods(), s.Note})
	}
	rules := picture.Table{Heads: []string{"rule", "from -> to", "why"}}
	for _, r := range e.Rules {
		why := r.Text
		if r.Binding {
			why += "   <- BINDING"
		}
		rules.Rows = append(rules.Rows, []any{r.Name, fmt.Sprintf("%4d -> %d", r.From, r.To), why})
	}
	fmt.Fprintf(out, "%s%s", signals, rules)
	e.writeFooter(out, zone)
	_, err := io.WriteString(w, out.String())
	return err
}

// writeUndecided prints what there is to say of a workload without a decision: why, and where to look.
func (e Explanation) writeUndecided(w io.Writer) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s  %s   mode %s   policy %s\n", e.Policy, e.NotDecided, e.Mode, e.Origin)
	fmt.Fprintf(out, "NOT SERVED  %s: an HPA that reads it holds\n", e.Served)
	if e.NotDecided != e.Served { // a reason is known: the target
		fmt.Fprintln(out, "CHECK       the policy's scaleTargetRef, that the object and its namespace exist, and that its kind is watched:")
		fmt.Fprintln(out, "            Deployment, StatefulSet, LeaderWorkerSet, and the chart's scaleKinds")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Line is the explanation in one line, as a log for people has it.
func (e Explanation) Line() string {
	if e.NotDecided != "" {
		return e.Policy + "  " + e.NotDecided
	}
	why := e.Binding
	for _, r := range e.Rules {
		if r.Binding {
			why = r.Name + ": " + r.Text
		}
	}
	if e.Degraded {
		why += " (on missing inputs)"
	}
	return fmt.Sprintf("%s  %-28s %3d -> %-3d ready %-3d %s", e.At.Format("Mon 15:04:05"), e.Policy, e.From, e.Target, e.Ready, why)
}

// writeState prints what a person must know before any number: it is not served, it was decided blind, somebody intervened.
func (e Explanation) writeState(out *strings.Builder, zone *time.Location) {
	if e.Served != "served" {
		fmt.Fprintf(out, "NOT SERVED  %s\n", e.Served)
	}
	if e.Degraded {
		fmt.Fprintln(out, "DEGRADED    decided on missing inputs: the target may rise, it cannot fall")
	}
	if e.Crashing > 0 {
		fmt.Fprintf(out, "CRASHING    %s\n", e.crashes())
	}
	if e.Operator != nil {
		fmt.Fprintf(out, "OPERATOR    %s\n", e.Operator.text(zone))
	}
}

// crashes describes the replicas that restart in a loop, with the command that shows why; empty where none does.
func (e Explanation) crashes() string {
	namespace, _, _ := strings.Cut(e.Policy, "/")
	return crashText(e.Crashing, namespace, e.CrashingPod)
}

func crashText(n int32, namespace, pod string) string {
	replicas := "replicas restart"
	switch n {
	case 0:
		return ""
	case 1:
		replicas = "replica restarts"
	}
	return fmt.Sprintf("%d %s in a loop and count neither as ready nor as loading: kubectl -n %s logs %s --previous", n, replicas, namespace, pod)
}

// text is what the person said, until when, and who it was.
func (o *Operator) text(zone *time.Location) string {
	var said []string
	if o.Paused {
		said = append(said, "paused")
	}
	if o.Min != nil {
		said = append(said, fmt.Sprintf("min=%d", *o.Min))
	}
	if o.Max != nil {
		said = append(said, fmt.Sprintf("max=%d", *o.Max))
	}
	if !o.Until.IsZero() {
		said = append(said, "until "+o.Until.In(zone).Format("2006-01-02 15:04 MST"))
	}
	if o.By != "" {
		said = append(said, "by "+o.By)
	}
	return strings.Join(said, " ")
}

func (e Explanation) writeFooter(out *strings.Builder, zone *time.Location) {
	if len(e.Without) > 0 {
		parts := make([]string, len(e.Without))
		for i, w := range e.Without {
			parts[i] = fmt.Sprintf("%s %d", w.Rule, w.Replicas)
		}
		fmt.Fprintf(out, "WITHOUT  %s\n", strings.Join(parts, " | "))
	}
	fmt.Fprintf(out, "NEXT     %s\n", e.next(zone))
	kind := "FOLLOWER"
	if e.Follower != nil {
		kind = e.Follower.Short()
	}
	fmt.Fprintf(out, "%-8s %s\n", kind, e.follows())
}

// next says what may happen to the number from here.
func (e Explanation) next(zone *time.Location) string {
	switch {
	case e.At.IsZero():
		return "decided as soon as the target is seen"
	case e.NotDecided != "":
		return "decided by the next tick that sees the target and succeeds"
	case !e.EarliestScaleDown.IsZero():
		return fmt.Sprintf("may fall at %s at the earliest (%s)", e.EarliestScaleDown.In(zone).Format("15:04:05"), e.ScaleDownRule)
	case e.ScaleDownRule != "":
		return "may rise at any tick, stays at least here while this holds: " + e.ScaleDownRule
	}
	return "may change at any tick"
}

// follows says which object follows the target; it is known only as of a decision.
func (e Explanation) follows() string {
	switch {
	case e.At.IsZero():
		return "not known yet"
	case e.NotDecided != "":
		return "not known: there is no current decision"
	}
	return e.Follower.text()
}

// text says whether somebody follows the number, and how; f may be nil.
func (f *Follower) text() string {
	switch {
	case f == nil:
		return "nobody reads this number: no HPA or ScaledObject on the target uses it"
	case f.Exact:
		return fmt.Sprintf("%s wants %d: follows exactly", f.Name, f.Desired)
	}
	return fmt.Sprintf("%s wants %d: may differ, %s", f.Name, f.Desired, f.Why)
}

// Short is the follower's kind as people say it.
func (f *Follower) Short() string { return shortKind(f.Kind) }

func shortKind(kind string) string {
	if kind == "HorizontalPodAutoscaler" {
		return "HPA"
	}
	return kind
}

func (s Signal) value() string {
	if s.Value == nil {
		return "?"
	}
	return format(*s.Value, s.Unit)
}

func (s Signal) asks() string {
	if s.Asks == nil {
		return "-"
	}
	return strconv.Itoa(int(*s.Asks))
}

func (s Signal) age() string {
	if s.Value == nil {
		return "-"
	}
	return short(time.Duration(s.Age * float64(time.Second)))
}

func (s Signal) pods() string {
	if s.Reported < 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", s.Reported, s.Ready)
}

// format prints a value in its unit with about three significant digits.
func format(v float64, unit string) string {
	switch unit {
	case "percent":
		return format(100*v, "count") + "%"
	case "seconds":
		return time.Duration(v * float64(time.Second)).Round(time.Millisecond).String()
	}
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// short prints a duration in its one or two greatest units: 6s, 4m, 1h30m.
func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
}
