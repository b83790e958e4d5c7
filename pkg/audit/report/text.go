package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/picture"
	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// shownWaste is the maximum number of rows about waste in the text report. The JSON report and the HTML page contain all rows.
const shownWaste = 12

// WriteJSON writes the report as JSON.
func WriteJSON(w io.Writer, r *audit.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report for a terminal.
func WriteText(w io.Writer, r *audit.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", title(r))
	for _, line := range summary(r) {
		fmt.Fprintf(&b, "  %-21s %s\n", line[0], line[1])
	}
	section := func(t picture.Table) {
		if text := t.String(); text != "" {
			fmt.Fprintf(&b, "\n%s\n%s", t.Title, text)
			if t.Foot != "" {
				fmt.Fprintf(&b, "%s\n", t.Foot)
			}
		}
	}
	section(workloads(r))
	waste := wastes(r)
	if n := len(waste.Rows); n > shownWaste {
		waste.Rows, waste.Foot = waste.Rows[:shownWaste], fmt.Sprintf("The JSON and HTML reports list %d more.", n-shownWaste)
	}
	section(waste)
	for i, c := range r.Waste[:min(3, len(r.Waste))] {
		fmt.Fprintf(&b, "\n%d. %s, %s: %s.\n   Next: %s.\n", i+1, c.Of, c.Cause, c.Text, c.Next)
	}
	if len(r.Missing) > 0 {
		b.WriteString("\nMissing to judge\n")
		for _, g := range r.Missing {
			fmt.Fprintf(&b, "- %s: %s. Next: %s.\n", g.What, g.Why, g.Next)
		}
	}
	for _, n := range notes(r) {
		fmt.Fprintf(&b, "\n%s", n)
	}
	_, err := io.WriteString(w, printable.Clean(strings.TrimRight(b.String(), "\n"))+"\n")
	return err
}

func title(r *audit.Report) string {
	name := ""
	if r.Cluster != "" {
		name = " of " + r.Cluster
	}
	return fmt.Sprintf("Audit%s: %s to %s UTC (%s)", name, r.From.UTC().Format("2006-01-02 15:04"), r.To.UTC().Format("2006-01-02 15:04"),
		picture.Span(r.To.Sub(r.From)))
}

// summary returns the totals as pairs of a name and a value.
func summary(r *audit.Report) (out [][2]string) {
	t := &r.Total
	add := func(name, format string, args ...any) {
		out = append(out, [2]string{name, fmt.Sprintf(format, args...)})
	}
	add("GPU cost", "%s per month: pods of the workloads, and GPUs of nodes without a pod", money(t.Cost))
	add("served", "%s of the measured GPU time served requests", share(t.Served))
	add("SLO", "%s of the requests waited at most %s (objective: %s of each workload): %s", share(t.OnTime), span(r.SLO.Wait),
		share(&r.SLO.Share), verdict(t.MeetsSLO))
	if t.Replayed > 0 {
		add("with gpuscaler", "%s per month instead of %s for the pods of %d workloads in the replayed time (simulated)", money(t.Gpuscaler),
			money(t.Measured), t.Replayed)
	}
	if t.Bounded > 0 {
		add("least possible cost", "%s per month for the pods of %d workloads, with any autoscaler that meets the SLO", money(t.Bound), t.Bounded)
	}
	return out
}

// workloads returns the table of workloads.
func workloads(r *audit.Report) picture.Table {
	t := picture.Table{Title: "Workloads", Heads: []string{"-workload", "-autoscaler", "$ per month", "served", "on time", "gpuscaler",
		"gpuscaler on time", "least", "-largest waste"}}
	for i := range r.Workloads {
		l := &r.Workloads[i]
		row := []any{l.Workload, l.Autoscaler, money(l.Cost), share(l.Served), judged(share(l.OnTime), l.MeetsSLO)}
		if f := l.Forecast; f != nil {
			row = append(row, money(&f.Cost), judged(share(&f.OnTime), &f.MeetsSLO), money(f.Bound))
		} else {
			row = append(row, "-", "-", "-")
		}
		t.Rows = append(t.Rows, append(row, largest(&l.Ledger)))
	}
	return t
}

// largest returns the cause of the most waste, or "-" if there is no waste.
func largest(l *audit.Ledger) string {
	best := audit.Served
	for c := range l {
		if cause := audit.Cause(c); cause.Waste() && l[c] > 0 && (best == audit.Served || l[c] > l[best]) {
			best = cause
		}
	}
	if best == audit.Served {
		return "-"
	}
	return best.String()
}

// wastes returns the table of waste, the largest first.
func wastes(r *audit.Report) picture.Table {
	t := picture.Table{Title: "Largest waste first", Heads: []string{"-of", "-cause", "$ per month", "GPU hours per month"}}
	for i := range r.Waste {
		w := &r.Waste[i]
		t.Rows = append(t.Rows, []any{w.Of, w.Cause.String(), money(w.Cost), number(w.GPUHours)})
	}
	return t
}

// notes returns the notes below the tables. If workloads were replayed, the first notes explain how gpuscaler was simulated.
func notes(r *audit.Report) (out []string) {
	if r.Total.Replayed > 0 {
		out = append(out, "The figures of gpuscaler are simulated: the traffic of the end of the period, with one signal on requests in flight "+
			"and a node for each replica.\n")
	}
	for _, n := range r.Notes {
		out = append(out, n+"\n")
	}
	return out
}

func money(v *float64) string {
	if v == nil {
		return "unknown"
	}
	if *v < 100 {
		return fmt.Sprintf("$%.2f", *v)
	}
	return "$" + picture.Thousands(int64(math.Round(*v)))
}

func number(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.3g", v)
	}
	return picture.Thousands(int64(math.Round(v)))
}

// share formats a share as a percentage. Above 90% the percentage has up to two decimals and is rounded down, so that a missed SLO of 99%
// is not printed as 99%.
func share(v *float64) string {
	switch {
	case v == nil:
		return "unknown"
	case *v > 0.9:
		text := fmt.Sprintf("%.2f", math.Floor(*v*1e4+1e-6)/100)
		return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "%"
	}
	return fmt.Sprintf("%.0f%%", 100**v)
}

func judged(text string, ok *bool) any {
	switch {
	case ok == nil:
		return text
	case *ok:
		return picture.Good(text)
	}
	return picture.Bad(text + " missed")
}

func verdict(ok *bool) string {
	switch {
	case ok == nil:
		return "unknown"
	case *ok:
		return "met"
	}
	return "missed"
}

func span(seconds float64) string { return picture.Span(time.Duration(seconds * float64(time.Second))) }
