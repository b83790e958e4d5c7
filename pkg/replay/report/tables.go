package report

import (
	"cmp"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/picture"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// sideBySide returns the table that compares all runs. It has columns about lower bounds only if the report has a bound.
func sideBySide(r *evaluate.Report) picture.Table {
	t := picture.Table{Title: "Side by side", Ours: true, Heads: []string{"run", "SLO", "on time", "cost"}}
	if len(r.Workloads) > 0 {
		t.Note = "on time and waits describe the worst workload"
	}
	bounded := len(r.Bounds) > 0
	if bounded {
		t.Heads = append(t.Heads, "cost ÷ bound", "÷ fluid bound")
	}
	t.Heads = append(t.Heads, "GPU-hours", "wait p50", "wait p95", "wait p99", "longest wait",
		"GPU busy", "replicas started", "nodes started", "changes", "time at zero", "spot losses")
	for i := range r.Runs {
		run := &r.Runs[i]
		row := []any{run.Title(), marked(run.MeetsSLO, Verdict(run)), percent(run.OnTime), money(run.Cost)}
		if bounded {
			row = append(row, ratio(run.CostOverRequest), ratio(run.CostOverFluid))
		}
		row = append(row, fmt.Sprintf("%.2f", run.GPUHours),
			span(run.Wait.P50), span(run.Wait.P95), span(run.Wait.P99), span(run.Wait.Max),
			percent(run.Utilization), run.ReplicaStarts, run.NodeStarts, run.Events(), span(run.AtZero), run.SpotLosses)
		t.Rows = append(t.Rows, row)
	}
	return t
}

// marked returns the text of a verdict in the style for good results if meets is true, and in the style for bad results otherwise.
func marked(meets bool, verdict string) any {
	if meets {
		return picture.Good(verdict)
	}
	return picture.Bad(verdict)
}

// ofWorkload returns the table with the results of the workload with index i in all runs.
func ofWorkload(r *evaluate.Report, i int) picture.Table {
	t := picture.Table{Ours: true, Heads: []string{"run", "SLO", "on time", "GPU-hours",
		"wait p50", "wait p95", "wait p99", "longest wait",
		"GPU busy", "replicas started", "changes", "time at zero", "-settings"}}
	for k := range r.Runs {
		w := &r.Runs[k].Workloads[i]
		l := &w.Load
		t.Rows = append(t.Rows, []any{r.Runs[k].Title(), marked(l.MeetsSLO, verdict(l)), percent(l.OnTime), fmt.Sprintf("%.2f", w.GPUHours),
			span(l.Wait.P50), span(l.Wait.P95), span(l.Wait.P99), span(l.Wait.Max),
			percent(l.Utilization), l.ReplicaStarts, l.Events(), span(l.AtZero), Settings(l)})
	}
	return t
}

// whatRuns returns the table with the cost by capacity type, the settings and the description of each run.
func whatRuns(r *evaluate.Report) picture.Table {
	t := picture.Table{Heads: []string{"run", "cost by capacity type", "-settings", "-what"}}
	for i := range r.Runs {
		run := &r.Runs[i]
		t.Rows = append(t.Rows, []any{run.Title(), byType(run), Settings(&run.Load), run.Words})
	}
	return t
}

// gpuTime returns the table of the paid GPU time by cause, in percent.
func gpuTime(r *evaluate.Report) picture.Table {
	t, used := picture.Table{Heads: []string{"run"}}, causes(r)
	for _, c := range used {
		t.Heads = append(t.Heads, c.String())
	}
	t.Heads = append(t.Heads, "GPU-hours")
	for i := range r.Runs {
		row := []any{r.Runs[i].Title()}
		for _, c := range used {
			row = append(row, fmt.Sprintf("%.1f", 100*share(&r.Runs[i], c)))
		}
		t.Rows = append(t.Rows, append(row, fmt.Sprintf("%.2f", r.Runs[i].GPUHours)))
	}
	return t
}

// reasons returns the table of the changes of the target with their reasons.
func reasons(l *evaluate.Load) picture.Table {
	t := picture.Table{Heads: []string{"at", "from", "to", "ready", "-rule", "-why"}}
	for _, x := range l.Reasons {
		t.Rows = append(t.Rows, []any{picture.Clock(x.At), x.From, x.To, x.Ready, x.Rule, x.Text})
	}
	return t
}

func assumptions(r *evaluate.Report) picture.Table {
	t := picture.Table{Title: "Assumptions", Heads: []string{"what", "-value", "-from"}}
	for _, a := range r.Assumptions {
		t.Rows = append(t.Rows, []any{a.Name, a.Value, a.Source})
	}
	return t
}

func gates(r *evaluate.Report) picture.Table {
	t := picture.Table{Title: "Gates", Heads: []string{"verdict", "-fail if", "-found"}}
	for _, g := range r.Gates {
		verdict := marked(!g.Failed, map[bool]string{true: "FAILS", false: "passes"}[g.Failed])
		t.Rows = append(t.Rows, []any{verdict, g.Gate, cmp.Or(g.Why, fmt.Sprintf("%.6g", g.Found))})
	}
	return t
}
