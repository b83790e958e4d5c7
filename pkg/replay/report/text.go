// Package report renders a judgement of package judge: a table for a terminal, JSON for machines, and one self-contained HTML file.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/judge"
	"github.com/gpuscaler/gpuscaler/pkg/replay/world"
)

// WriteJSON writes the report as JSON; its shape is judge.Schema, and the fields are documented there.
func WriteJSON(w io.Writer, r *judge.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report for a terminal.
func WriteText(w io.Writer, r *judge.Report) error {
	out := &strings.Builder{}
	fmt.Fprintln(out, headline(r))
	for _, line := range r.Warnings {
		fmt.Fprintln(out, "WARNING ", line)
	}
	fmt.Fprintln(out)
	writeRuns(out, r)
	fmt.Fprintln(out, "\n"+conclusion(r))
	writeSettings(out, r)
	fmt.Fprintln(out, "\nWHERE THE GPU TIME WENT, % of what was paid; the parts sum to the whole")
	writeLedger(out, r)
	writeBounds(out, r)
	writeGates(out, r)
	fmt.Fprintln(out, "\nASSUMPTIONS")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, a := range r.Assumptions {
		fmt.Fprintf(t, "%s\t%s\t%s\n", a.Name, a.Value, a.Source)
	}
	t.Flush()
	_, err := io.WriteString(w, trim(out.String()))
	return err
}

// headline is what was tried, in a line or two.
func headline(r *judge.Report) string {
	cold := "cold start by phases (see assumptions)"
	if r.ColdStart > 0 {
		cold = "cold start " + span(r.ColdStart)
	}
	spot := ""
	if r.Traffic.Spot != "" {
		spot = ", spot by " + r.Traffic.Spot
	}
	return fmt.Sprintf("%s on %s: %d requests in %s%s\nSLO %s of requests wait at most %s; %d replicas at the start, %s, seed %d",
		r.Policy, r.Traffic.Name, r.Traffic.Requests, span(r.Traffic.Duration), spot, percent(r.SLO.Share), span(r.SLO.Wait), r.Initial, cold, r.Seed)
}

func writeRuns(out io.Writer, r *judge.Report) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tSLO\tON TIME\tCOST\tBY TYPE\tCOST/LB\t/FLUID\tGPU-H\tP50\tP95\tP99\tMAX WAIT\tGPU\tSTARTS\tNODES\tEVENTS\tAT ZERO\tSPOT LOST")
	for i := range r.Runs {
		run := &r.Runs[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%d\n", run.Title(), Verdict(run), percent(run.OnTime),
			money(run.Cost), byType(run), ratio(run.CostOverRequest), ratio(run.CostOverFluid), run.GPUHours,
			span(run.Wait.P50), span(run.Wait.P95), span(run.Wait.P99), span(run.Wait.Max), percent(run.Utilization),
			run.ReplicaStarts, run.NodeStarts, run.Events(), span(run.AtZero), run.SpotLosses)
	}
	t.Flush()
}

// Verdict is the judgement of a run; a run that misses the SLO is never cheap.
func Verdict(run *judge.Run) string {
	if run.MeetsSLO {
		return "meets"
	}
	return "misses SLO"
}

// conclusion is the sentence that a reader takes away.
func conclusion(r *judge.Report) string {
	if r.Cheapest == "" {
		return "No run meets the SLO."
	}
	ours := &r.Runs[0]
	if !ours.MeetsSLO {
		return fmt.Sprintf("gpuscaler misses the SLO: %s on time. The cheapest run that meets it is %s.", percent(ours.OnTime), r.Cheapest)
	}
	var next *judge.Run
	for i := range r.Runs[1:] {
		run := &r.Runs[1+i]
		if run.MeetsSLO && run.Variant != judge.Clairvoyant && (next == nil || run.Cost < next.Cost) {
			next = run
		}
	}
	switch {
	case next == nil && len(r.Runs) == 1:
		return "gpuscaler meets the SLO."
	case next == nil:
		return "gpuscaler meets the SLO, and no rival does."
	case ours.Cost < next.Cost:
		return fmt.Sprintf("gpuscaler meets the SLO at %s less than %s, the cheapest rival that does.", percent(1-ours.Cost/next.Cost), next.Title())
	}
	return fmt.Sprintf("gpuscaler meets the SLO; %s does so at %s less.", next.Title(), percent(1-next.Cost/ours.Cost))
}

func writeSettings(out io.Writer, r *judge.Report) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nWHO\tSETTINGS\tWHAT")
	for i := range r.Runs {
		run := &r.Runs[i]
		fmt.Fprintf(t, "%s\t%s\t%s\n", run.Title(), Settings(run), run.Words)
	}
	t.Flush()
}

// Settings are a rival's knobs in words.
func Settings(run *judge.Run) string {
	var parts []string
	for _, s := range run.Settings {
		parts = append(parts, s.Name+" "+strconv.FormatFloat(s.Value, 'f', -1, 64))
	}
	if run.Tried > 0 {
		parts = append(parts, fmt.Sprintf("best of %d", run.Tried))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, "; ")
}

// causes are those of the ledger that any run has.
func causes(r *judge.Report) (used []world.Cause) {
	for c := range len(world.Ledger{}) {
		if slices.ContainsFunc(r.Runs, func(run judge.Run) bool { return run.Ledger[c] > 0 }) {
			used = append(used, world.Cause(c))
		}
	}
	return used
}

func writeLedger(out io.Writer, r *judge.Report) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	used := causes(r)
	fmt.Fprint(t, "RUN\t")
	for _, c := range used {
		fmt.Fprintf(t, "%s\t", c)
	}
	fmt.Fprintln(t, "GPU-h\t")
	for i := range r.Runs {
		run := &r.Runs[i]
		fmt.Fprintf(t, "%s\t", run.Title())
		for _, c := range used {
			fmt.Fprintf(t, "%.1f\t", 100*share(run, c))
		}
		fmt.Fprintf(t, "%.2f\t\n", run.GPUHours)
	}
	t.Flush()
}

// share is a cause's part of what was paid.
func share(run *judge.Run, c world.Cause) float64 {
	sum := run.Ledger.Sum()
	if sum == 0 {
		return 0
	}
	return float64(run.Ledger[c]) / float64(sum)
}

func writeBounds(out io.Writer, r *judge.Report) {
	for _, b := range r.Bounds {
		name := boundName(b.Kind)
		if b.Problem != "" {
			fmt.Fprintf(out, "\n%s: none, %s\n", name, b.Problem)
			continue
		}
		fmt.Fprintf(out, "\n%s: at least %s; in its model %s suffices (UB/LB %.4f), %d late of %d allowed\n",
			name, money(b.Lower), money(b.Upper), b.Gap, b.Late, b.Allowed)
		for _, line := range b.Relaxations {
			fmt.Fprintln(out, "  -", line)
		}
	}
}

func boundName(kind string) string {
	if kind == judge.FluidBound {
		return "CLAIRVOYANT, FLUID SLOTS (/FLUID)"
	}
	return "CLAIRVOYANT, REQUEST LEVEL (COST/LB; no first-in-first-out run can cost less)"
}

func writeGates(out io.Writer, r *judge.Report) {
	if len(r.Gates) == 0 {
		return
	}
	fmt.Fprintln(out, "\nGATES")
	for _, g := range r.Gates {
		verdict := "passes"
		if g.Failed {
			verdict = "FAILS"
		}
		found := strconv.FormatFloat(g.Found, 'g', 6, 64)
		if g.Why != "" {
			found = g.Why
		}
		fmt.Fprintf(out, "%-7s fail if %s: found %s\n", verdict, g.Gate, found)
	}
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) + "%" }

func money(v float64) string { return "$" + strconv.FormatFloat(v, 'f', 3, 64) }

func ratio(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 3, 64)
}

// byType is the cost by capacity type, in alphabetical order.
func byType(run *judge.Run) string {
	var parts []string
	for kind, cost := range run.CostBy {
		parts = append(parts, kind+" "+money(cost))
	}
	slices.Sort(parts)
	return strings.Join(parts, " + ")
}

// span is a time in seconds as people say it, to three digits or so.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d == 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// trim removes blanks at the ends of lines, which tables leave.
func trim(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return strings.Join(lines, "\n")
}
