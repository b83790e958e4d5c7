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
	"percent": percent, "money": money, "ratio": ratio, "span": span, "clock": clock, "verdict": Verdict, "settings": Settings,
	"bytype": byType, "boundName": boundName,
}).Parse(pageText))

// pageData is what the page shows.
type pageData struct {
	*judge.Report
	Runs       []*judge.Run
	Headline   []string
	Conclusion string
	Ours       *judge.Run
	Charts     []*chart
	Bars       []bar
	Legend     []bar
	Lower      string // where the bound stands on the bars' axis, in percent of the width
}

// bar is one run's cost, cut by what the GPU time went to.
type bar struct {
	Title, Verdict string
	Cost           string
	Misses         bool
	Parts          []part
}

type part struct {
	Class, Text string
	Width       string // percent of the axis
}

// WriteHTML writes the report as one self-contained page, readable in light and dark and on paper. Charts need runs with a series.
func WriteHTML(w io.Writer, r *judge.Report) error {
	d := pageData{Report: r, Headline: strings.Split(headline(r), "\n"), Conclusion: conclusion(r), Ours: &r.Runs[0]}
	for i := range r.Runs {
		d.Runs = append(d.Runs, &r.Runs[i])
	}
	if s := d.Ours.Series; s != nil && len(s.Loads) > 0 {
		d.Charts = charts(r)
	}
	d.Bars, d.Lower = bars(r)
	for _, g := range groups {
		d.Legend = append(d.Legend, bar{Title: g.name, Parts: []part{{Class: g.class}}})
	}
	return page.Execute(w, d)
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
		b := bar{Title: run.Title(), Verdict: Verdict(run), Cost: money(run.Cost), Misses: !run.MeetsSLO}
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

// charts are the policy's own run over time, and everybody's cost.
func charts(r *judge.Report) []*chart {
	s := r.Runs[0].Series
	l := &s.Loads[0]
	seconds := r.Traffic.Duration
	minute := time.Minute.Seconds() / s.Resolution.Seconds()
	demand := newChart("Demand", "requests a minute", s.Resolution, seconds)
	demand.add("arrivals", "c1", true, scaled(l.Arrived, minute))

	replicas := newChart("Replicas", "gpuscaler's number, and what was ready; a dot is a change, with its reason", s.Resolution, seconds)
	replicas.add("ready", "c2", true, scaled(l.Ready, 1))
	replicas.add("target", "c1", false, scaled(l.Target, 1))
	if seer := r.Run("clairvoyant, careful", judge.Clairvoyant); seer != nil && seer.Series != nil {
		replicas.add("clairvoyant, careful", "c4 thin", false, scaled(seer.Series.Loads[0].Ready, 1))
	}

	queue := newChart("Queue", "requests that wait, at each sample", s.Resolution, seconds)
	queue.add("waiting", "c3", true, scaled(l.Queue, 1))
	late := newChart("Late", fmt.Sprintf("requests a minute that waited longer than %s", span(r.SLO.Wait)), s.Resolution, seconds)
	late.add("late", "c5", true, scaled(l.Late, minute))

	nodes := newChart("Nodes", "paid for, by capacity type", s.Resolution, seconds)
	for i, p := range s.Pools {
		nodes.add(p.Name, []string{"c1", "c2", "c3", "c4"}[i%4], i == 0, scaled(p.Nodes, 1))
	}
	out := []*chart{demand, replicas, queue, late, nodes, costs(r, s.Resolution, seconds)}
	for _, c := range out {
		c.draw()
	}
	for _, reason := range r.Runs[0].Reasons {
		replicas.mark(reason.At, float64(reason.To), fmt.Sprintf("%s  %d to %d, %d ready: %s %s", clock(reason.At), reason.From, reason.To, reason.Ready, reason.Rule, reason.Text))
	}
	return out
}

// costs are everybody's that meets the SLO: a line for one that does not would look cheap.
func costs(r *judge.Report, resolution time.Duration, seconds float64) *chart {
	c := newChart("Cost so far", "$, of the runs that meet the SLO, and gpuscaler's", resolution, seconds)
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Series == nil || i > 0 && !run.MeetsSLO {
			continue
		}
		class := fmt.Sprintf("c%d thin", 2+i%5)
		if i == 0 {
			class = "c1"
		}
		c.add(run.Title(), class, false, run.Series.Cost)
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
