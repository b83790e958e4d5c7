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

	"github.com/gpuscaler/gpuscaler/pkg/picture"
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
	writeWorkloads(out, r)
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

// writeWorkloads sets each workload's part of the runs side by side.
func writeWorkloads(out io.Writer, r *judge.Report) {
	if len(r.Workloads) == 0 {
		return
	}
	for i, s := range r.Workloads {
		fmt.Fprintf(out, "\n%s on %s: %s requests; SLO %s; %s at the start%s\n", s.Policy, s.Traffic.Name, picture.Thousands(s.Traffic.Requests), objective(s.SLO), replicas(s.Initial), least(&s))
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "RUN\tSLO\tON TIME\tGPU-H\tP50\tP95\tP99\tMAX WAIT\tGPU\tSTARTS\tEVENTS\tAT ZERO\tSETTINGS")
		for k := range r.Runs {
			w := &r.Runs[k].Workloads[i]
			fmt.Fprintf(t, "%s\t%s\t%s\t%.2f\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", r.Runs[k].Title(), verdict(&w.Load), percent(w.OnTime), w.GPUHours,
				span(w.Wait.P50), span(w.Wait.P95), span(w.Wait.P99), span(w.Wait.Max), percent(w.Utilization), w.ReplicaStarts, w.Events(), span(w.AtZero), Settings(&w.Load))
		}
		t.Flush()
	}
}

// least is a workload's part of the bounds, in words; empty without any.
func least(s *judge.Subject) string {
	b := s.Bound(judge.RequestBound)
	if b == nil {
		return ""
	}
	return "; at least " + money(b.Lower)
}

func writeSettings(out io.Writer, r *judge.Report) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nWHO\tSETTINGS\tWHAT")
	for i := range r.Runs {
		run := &r.Runs[i]
		fmt.Fprintf(t, "%s\t%s\t%s\n", run.Title(), Settings(&run.Load), run.Words)
	}
	t.Flush()
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
