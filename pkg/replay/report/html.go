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

	"github.com/gpuscaler/gpuscaler/pkg/picture"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

//go:embed page.html
var pageText string

var page = picture.Parse(pageText, template.FuncMap{
	"money": money, "clock": picture.Clock, "boundName": boundName, "subject": subjectLine,
	"sideBySide": sideBySide, "whatRuns": whatRuns, "reasons": reasons, "gates": gates, "assumptions": assumptions,
})

// pageData is the data of the HTML page.
type pageData struct {
	*evaluate.Report
	Headline   []string
	Conclusion string
	Parts      []workload
	Charts     []*picture.Chart // charts of all workloads together
	Costs      picture.Bars
}

// workload is the section of one workload on the page.
type workload struct {
	*evaluate.Subject
	Table  *picture.Table // results of this workload in all runs; nil if there is only one workload
	Charts []*picture.Chart
	Ours   *evaluate.Load
}

// WriteHTML writes the report as one self-contained page for light and dark screens and for paper. Charts over time are drawn only for runs
// that recorded their values over time (Run.Series).
func WriteHTML(w io.Writer, r *evaluate.Report) error {
	d := pageData{Report: r, Headline: strings.Split(headline(r), "\n"), Conclusion: conclusion(r)}
	for i, s := range r.Subjects() {
		d.Parts = append(d.Parts, section(r, s, i))
	}
	if s := r.Runs[0].Series; s != nil && len(s.Loads) > 0 {
		d.Charts = []*picture.Chart{nodes(r).Draw(), costs(r).Draw()}
	}
	d.Costs = bars(r)
	return page.Execute(w, d)
}

// section returns the section of the page for s, the workload with index i.
func section(r *evaluate.Report, s *evaluate.Subject, i int) workload {
	out := workload{Subject: s, Ours: r.Runs[0].Loads()[i]}
	if len(r.Workloads) > 0 {
		t := ofWorkload(r, i)
		out.Table = &t
	}
	if l := series(&r.Runs[0], s); l != nil {
		out.Charts = charts(r, s, out.Ours)
	}
	return out
}

// series returns the points over time of a workload in a run, or nil if the run recorded none.
func series(run *evaluate.Run, s *evaluate.Subject) *simulator.LoadSeries {
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

// groups combines the causes of the ledger, so that a chart has only as many colors as a reader can distinguish.
var groups = []struct {
	name, color string
	causes      []ledger.Cause
}{
	{"serving", "green", []ledger.Cause{ledger.Serving}},
	{"headroom", "sky", []ledger.Cause{ledger.Headroom}},
	{"cooldown and windows", "amber", []ledger.Cause{ledger.Cooldown, ledger.Following, ledger.Held}},
	{"floors: schedule, minimum", "lilac", []ledger.Cause{ledger.ScheduleFloor, ledger.Minimum}},
	{"starting and ending", "clay", []ledger.Cause{ledger.Loading, ledger.Launching, ledger.Draining, ledger.Terminating}},
	{"empty and fragmented nodes", "grey", []ledger.Cause{ledger.Empty, ledger.Fragmentation}},
}

// bars returns one bar for each run. The length of a bar is the cost of the run. The sections of the bar are the causes of the cost. Runs
// that miss the SLO are last, because their cost cannot be compared with the others.
func bars(r *evaluate.Report) (out picture.Bars) {
	order := make([]*evaluate.Run, len(r.Runs))
	most := 1e-12
	for i := range r.Runs {
		order[i] = &r.Runs[i]
		most = max(most, r.Runs[i].Cost)
	}
	slices.SortStableFunc(order, func(a, b *evaluate.Run) int { return cmp.Compare(a.Cost, b.Cost) })
	slices.SortStableFunc(order, func(a, b *evaluate.Run) int { return strings.Compare(fmt.Sprint(b.MeetsSLO), fmt.Sprint(a.MeetsSLO)) })
	for _, run := range order {
		b := picture.Bar{Name: run.Title(), Value: money(run.Cost), Ours: run == &r.Runs[0], Faint: !run.MeetsSLO}
		if b.Faint {
			b.Problem = Verdict(run)
		}
		for _, g := range groups {
			of := 0.0
			for _, c := range g.causes {
				of += share(run, c)
			}
			if of > 0 {
				b.Parts = append(b.Parts, picture.Part{Color: g.color, Text: g.name + " " + percent(of), Width: picture.Width(of * run.Cost / most)})
			}
		}
		out.Bars = append(out.Bars, b)
	}
	for _, g := range groups {
		out.Legend = append(out.Legend, picture.Part{Name: g.name, Color: g.color})
	}
	if b := r.Bound(evaluate.RequestBound); b != nil {
		out.Line = picture.Width(b.Lower / most)
	}
	return out
}

// charts returns the charts over time of one workload in gpuscaler's run.
func charts(r *evaluate.Report, s *evaluate.Subject, ours *evaluate.Load) []*picture.Chart {
	l, resolution := series(&r.Runs[0], s), r.Runs[0].Series.Resolution
	axis, minute := picture.Elapsed(resolution, r.Traffic.Duration), time.Minute.Seconds()/resolution.Seconds()
	demand := picture.NewChart("Demand", "requests per minute", axis)
	demand.Add("arrivals", picture.Soft, "blue", scaled(l.Arrived, minute))

	replicas := picture.NewChart("Replicas", "target and ready replicas; a dot is a change of the target, with its reason", axis)
	replicas.Add("ready", picture.Soft, "green", scaled(l.Ready, 1))
	replicas.Add("target", picture.Line, "blue", scaled(l.Target, 1))
	if oracle := r.Run("clairvoyant, careful", evaluate.Clairvoyant); oracle != nil {
		if other := series(oracle, s); other != nil {
			replicas.Add("clairvoyant, careful", picture.Thin, "violet", scaled(other.Ready, 1))
		}
	}

	queue := picture.NewChart("Queue", "waiting requests at each sample", axis)
	queue.Add("waiting", picture.Soft, "orange", scaled(l.Queue, 1))
	late := picture.NewChart("Late",
		"requests per minute that waited longer than "+span(s.SLO.Wait)+"; requests that still wait are in the queue", axis)
	late.Add("late", picture.Soft, "red", scaled(l.Late, minute))
	out := []*picture.Chart{demand, replicas, queue, late}
	for _, c := range out {
		c.Draw()
	}
	for _, reason := range ours.Reasons {
		replicas.Mark(reason.At, float64(reason.To), fmt.Sprintf("%s  %d to %d, %d ready: %s %s",
			picture.Clock(reason.At), reason.From, reason.To, reason.Ready, reason.Rule, reason.Text))
	}
	return out
}

// lines are the line colors that a reader can distinguish.
var lines = []string{"blue", "green", "orange", "violet", "red", "slate"}

// nodes returns the chart of the billed nodes in gpuscaler's run.
func nodes(r *evaluate.Report) *picture.Chart {
	s := r.Runs[0].Series
	out := picture.NewChart("Nodes", "paid for, by NodePool", picture.Elapsed(s.Resolution, r.Traffic.Duration))
	for i, p := range s.Pools {
		name, look := p.Name, picture.Line
		if p.Name != p.CapacityType {
			name += ", " + p.CapacityType
		}
		if i == 0 {
			look = picture.Soft
		}
		out.Add(name, look, lines[i%len(lines)], scaled(p.Nodes, 1))
	}
	return out
}

// costs returns the chart of the cost of gpuscaler and of the cheapest runs that meet the SLO. Runs that miss the SLO are
// omitted, because their lower cost is not comparable.
func costs(r *evaluate.Report) *picture.Chart {
	c := picture.NewChart("Cost so far", "in $: gpuscaler and the cheapest other runs that meet the SLO",
		picture.Elapsed(r.Runs[0].Series.Resolution, r.Traffic.Duration))
	others := slices.Clone(r.Runs[1:])
	slices.SortStableFunc(others, func(a, b evaluate.Run) int { return cmp.Compare(a.Cost, b.Cost) })
	c.Add(r.Runs[0].Title(), picture.Line, lines[0], r.Runs[0].Series.Cost)
	for _, run := range others {
		if n := len(c.Series); run.Series != nil && run.MeetsSLO && n < len(lines) {
			c.Add(run.Title(), picture.Thin, lines[n], run.Series.Cost)
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
