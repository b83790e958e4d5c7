package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/judge"
	"github.com/gpuscaler/gpuscaler/pkg/replay/world"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": percent, "money": money, "ratio": ratio, "span": span, "clock": clock, "verdict": Verdict, "bytype": byType,
	"boundName": boundName, "objective": objective, "least": least,
	"settings": func(l judge.Load) string { return Settings(&l) },
}).Parse(pageText))

// pageData is what the page shows.
type pageData struct {
	*judge.Report
	Runs       []*judge.Run
	Headline   []string
	Conclusion string
	Parts      []workload
	Charts     []*chart // of the whole
	Bars       []bar
	Legend     []bar
	Lower      string // where the bound stands on the bars' axis, in percent of the width
}

// workload is what the page shows of one of them.
type workload struct {
	*judge.Subject
	Several bool // it is not the only one
	Rows    []row
	Charts  []*chart
	Ours    *judge.Load
}

// row is a workload's part of a run.
type row struct {
	Title string
	*judge.WorkloadRun
}

// bar is one run's cost, cut by what the GPU time went to.
type bar struct {
	Title, Verdict string
	Cost           string
	Ours, Misses   bool
	Parts          []part
}

type part struct {
	Class, Text string
	Width       string // percent of the axis
}

// WriteHTML writes the report as one self-contained page, readable in light and dark and on paper. Charts need runs with a series.
func WriteHTML(w io.Writer, r *judge.Report) error {
	d := pageData{Report: r, Headline: strings.Split(headline(r), "\n"), Conclusion: conclusion(r)}
	for i := range r.Runs {
		d.Runs = append(d.Runs, &r.Runs[i])
	}
	for i, s := range r.Subjects() {
		d.Parts = append(d.Parts, section(r, s, i))
	}
	if s := r.Runs[0].Series; s != nil && len(s.Loads) > 0 {
		d.Charts = []*chart{nodes(r).draw(), costs(r).draw()}
	}
	d.Bars, d.Lower = bars(r)
	for _, g := range groups {
		d.Legend = append(d.Legend, bar{Title: g.name, Parts: []part{{Class: g.class}}})
	}
	return page.Execute(w, d)
}

// section is one workload's section.
func section(r *judge.Report, s *judge.Subject, i int) workload {
	out := workload{Subject: s, Several: len(r.Workloads) > 0, Ours: r.Runs[0].Loads()[i]}
	for k := range r.Runs {
		if run := &r.Runs[k]; out.Several {
			out.Rows = append(out.Rows, row{run.Title(), &run.Workloads[i]})
		}
	}
	if l := series(&r.Runs[0], s); l != nil {
		out.Charts = charts(r, s, out.Ours)
	}
	return out
}

// series is a workload's in a run; nil where the run has none.
func series(run *judge.Run, s *judge.Subject) *world.LoadSeries {
	if run.Series == nil {
		return nil
	}
	for i := range run.Series.Loads {
		if l := &run.Series.Loads[i]; len(run.Series.Loads) == 1 || l.Key.String() == s.Policy {
			return l
		}
	}
	return nil
}

// groups gather the ledger's causes to as many colours as an eye tells apart.
var groups = []struct {
	name, class string
	causes      []world.Cause
}{
	{"serving", "serving", []world.Cause{world.Serving}},
	{"headroom", "headroom", []world.Cause{world.Headroom}},
	{"cooldown and windows", "cooldown", []world.Cause{world.Cooldown, world.Following, world.Held}},
	{"floors: schedule, minimum", "floor", []world.Cause{world.ScheduleFloor, world.Minimum}},
	{"starting and ending", "boot", []world.Cause{world.Loading, world.Launching, world.Draining, world.Terminating}},
	{"empty and fragmented nodes", "empty", []world.Cause{world.Empty, world.Fragmentation}},
}

// bars are the runs' costs on one axis. Those that miss the SLO stand last: their cost compares with nobody's.
func bars(r *judge.Report) (out []bar, lower string) {
	order := make([]*judge.Run, len(r.Runs))
	most := 0.0
	for i := range r.Runs {
		order[i] = &r.Runs[i]
		most = max(most, r.Runs[i].Cost)
	}
	slices.SortStableFunc(order, func(a, b *judge.Run) int {
		if a.MeetsSLO != b.MeetsSLO {
			if a.MeetsSLO {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Cost, b.Cost)
	})
	for _, run := range order {
		b := bar{Title: run.Title(), Verdict: Verdict(run), Cost: money(run.Cost), Ours: run == &r.Runs[0], Misses: !run.MeetsSLO}
		for _, g := range groups {
			of := 0.0
			for _, c := range g.causes {
				of += share(run, c)
			}
			width := of * run.Cost / max(most, 1e-12) * 100
			b.Parts = append(b.Parts, part{g.class, g.name + " " + percent(of), fmt.Sprintf("%.2f", width)})
		}
		out = append(out, b)
	}
	if b := r.Bound(judge.RequestBound); b != nil && most > 0 {
		lower = fmt.Sprintf("%.2f", b.Lower/most*100)
	}
	return out, lower
}

// charts are one workload over time, in the policies' own run.
func charts(r *judge.Report, s *judge.Subject, ours *judge.Load) []*chart {
	l, resolution, seconds := series(&r.Runs[0], s), r.Runs[0].Series.Resolution, r.Traffic.Duration
	minute := time.Minute.Seconds() / resolution.Seconds()
	demand := newChart("Demand", "requests a minute", resolution, seconds)
	demand.add("arrivals", "c1", true, scaled(l.Arrived, minute))

	replicas := newChart("Replicas", "gpuscaler's number, and what was ready; a dot is a change, with its reason", resolution, seconds)
	replicas.add("ready", "c2", true, scaled(l.Ready, 1))
	replicas.add("target", "c1", false, scaled(l.Target, 1))
	if seer := r.Run("clairvoyant, careful", judge.Clairvoyant); seer != nil {
		if other := series(seer, s); other != nil {
			replicas.add("clairvoyant, careful", "c4 thin", false, scaled(other.Ready, 1))
		}
	}

	queue := newChart("Queue", "requests that wait, at each sample", resolution, seconds)
	queue.add("waiting", "c3", true, scaled(l.Queue, 1))
	late := newChart("Late", fmt.Sprintf("requests a minute that waited longer than %s", span(s.SLO.Wait)), resolution, seconds)
	late.add("late", "c5", true, scaled(l.Late, minute))
	out := []*chart{demand, replicas, queue, late}
	for _, c := range out {
		c.draw()
	}
	for _, reason := range ours.Reasons {
		replicas.mark(reason.At, float64(reason.To), fmt.Sprintf("%s  %d to %d, %d ready: %s %s", clock(reason.At), reason.From, reason.To, reason.Ready, reason.Rule, reason.Text))
	}
	return out
}

// nodes are those that are paid for, in the policies' own run.
func nodes(r *judge.Report) *chart {
	s := r.Runs[0].Series
	out := newChart("Nodes", "paid for, by NodePool", s.Resolution, r.Traffic.Duration)
	for i, p := range s.Pools {
		name := p.Name
		if p.Name != p.CapacityType {
			name += ", " + p.CapacityType
		}
		out.add(name, []string{"c1", "c2", "c3", "c4"}[i%4], i == 0, scaled(p.Nodes, 1))
	}
	return out
}

// mostCosts bounds the lines that an eye tells apart.
const mostCosts = 6

// costs are gpuscaler's, and those of the cheapest that meet the SLO: a line for one that does not would look cheap.
func costs(r *judge.Report) *chart {
	c := newChart("Cost so far", "$, of gpuscaler, and of the cheapest of the others that meet the SLO", r.Runs[0].Series.Resolution, r.Traffic.Duration)
	others := slices.Clone(r.Runs[1:])
	slices.SortStableFunc(others, func(a, b judge.Run) int { return cmp.Compare(a.Cost, b.Cost) })
	c.add(r.Runs[0].Title(), "c1", false, r.Runs[0].Series.Cost)
	for _, run := range others {
		if run.Series != nil && run.MeetsSLO && len(c.Lines) < mostCosts {
			c.add(run.Title(), fmt.Sprintf("c%d thin", 1+len(c.Lines)), false, run.Series.Cost)
		}
	}
	return c
}

func scaled(values []int32, by float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v) * by
	}
	return out
}
