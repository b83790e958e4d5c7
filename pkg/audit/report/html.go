package report

import (
	_ "embed"
	"fmt"
	"io"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/picture"
)

const (
	drawnWorkloads = 20  // maximum number of workloads with charts and bars on the page, the most expensive first
	drawnBuckets   = 300 // maximum number of points in a chart
)

//go:embed page.html
var pageText string

var page = picture.Parse(pageText, nil)

// pageData contains what the template of the page prints.
type pageData struct {
	Title    string
	Summary  [][2]string
	Costs    picture.Bars
	Tables   []picture.Table
	Sections []section
	Left     int // number of workloads that have no charts
	Missing  picture.Table
	Notes    []string
}

// section contains the name, a text and the charts of one workload.
type section struct {
	Name, Text string
	Charts     []*picture.Chart
}

// colors contains the color of each cause in charts and bars.
var colors = map[audit.Cause]string{
	audit.Served: "green", audit.Headroom: "sky", audit.Cooldown: "amber", audit.Floor: "lilac", audit.Schedules: "violet",
	audit.Start: "clay", audit.WrongMetric: "red", audit.StuckNode: "orange", audit.NodeChange: "slate", audit.NotMeasured: "grey",
}

// drawn contains the causes in the order of charts and legends.
var drawn = []audit.Cause{audit.Served, audit.Headroom, audit.Start, audit.Floor, audit.Schedules, audit.Cooldown, audit.WrongMetric,
	audit.NotMeasured}

// WriteHTML writes the report as one self-contained HTML page. The page supports light and dark screens and printing.
func WriteHTML(w io.Writer, r *audit.Report) error {
	d := pageData{Title: title(r), Summary: summary(r), Costs: bars(r), Notes: notes(r)}
	waste := wastes(r)
	waste.Heads = append(waste.Heads, "-why", "-next")
	for i := range waste.Rows {
		waste.Rows[i] = append(waste.Rows[i], r.Waste[i].Text, r.Waste[i].Next)
	}
	d.Tables = []picture.Table{waste, workloads(r)}
	d.Missing = picture.Table{Title: "Missing to judge", Heads: []string{"-what", "-why", "-next"}}
	for _, g := range r.Missing {
		d.Missing.Rows = append(d.Missing.Rows, []any{g.What, g.Why, g.Next})
	}
	for i := range r.Workloads[:min(drawnWorkloads, len(r.Workloads))] {
		d.Sections = append(d.Sections, chartsOf(r, &r.Workloads[i]))
	}
	d.Left = len(r.Workloads) - len(d.Sections)
	return page.Execute(w, d)
}

// bars returns one bar for each workload. The length is the cost per month, or the GPU hours if the total cost is unknown. A bar has one
// part for each cause.
func bars(r *audit.Report) (out picture.Bars) {
	shown := r.Workloads[:min(drawnWorkloads, len(r.Workloads))]
	value := func(l *audit.Line) float64 { return l.GPUHours }
	if r.Total.Cost != nil {
		value = func(l *audit.Line) float64 { return *l.Cost }
	}
	most := 0.0
	for i := range shown {
		if r.Total.Cost != nil && shown[i].Cost == nil {
			return picture.Bars{} // if a workload has no measured cost, the bars cannot be compared
		}
		most = max(most, value(&shown[i]))
	}
	if most == 0 {
		return out
	}
	for i := range shown {
		l := &shown[i]
		b := picture.Bar{Name: l.Workload, Value: money(l.Cost)}
		for _, c := range drawn {
			if of := l.Ledger[c] / max(l.Ledger.Sum(), 1e-12); of > 0 {
				b.Parts = append(b.Parts, picture.Part{Color: colors[c], Text: fmt.Sprintf("%s %.0f%%", c, 100*of),
					Width: picture.Width(of * value(l) / most)})
			}
		}
		out.Bars = append(out.Bars, b)
	}
	for _, c := range drawn {
		out.Legend = append(out.Legend, picture.Part{Name: c.String(), Color: colors[c]})
	}
	return out
}

// chartsOf returns the charts of one workload over time.
func chartsOf(r *audit.Report, l *audit.Line) section {
	out := section{Name: l.Workload, Text: l.Autoscaler + ", largest waste: " + largest(&l.Ledger)}
	t := r.Timeline(l, drawnBuckets)
	var begins []time.Time
	for i := range t.Ready {
		begins = append(begins, r.From.Add(time.Duration(i)*t.Bucket))
	}
	axis := picture.Calendar(r.From, r.To, begins)
	gpus := picture.NewChart("GPUs by use", "GPUs that pods hold; time without data is empty", axis)
	for _, c := range drawn {
		gpus.Stack(c.String(), colors[c], t.Causes[c])
	}
	replicas := picture.NewChart("Replicas", "ready, and needed by the requests; a gap in the data has the last value", axis)
	replicas.Add("ready", picture.Soft, "blue", t.Ready)
	replicas.Add("needed", picture.Line, "green", t.Need)
	requests := picture.NewChart("Requests", "per minute; late ones waited longer than "+span(r.SLO.Wait), axis)
	requests.Add("started", picture.Soft, "slate", t.Requests)
	requests.Add("late", picture.Line, "red", t.Late)
	for _, c := range []*picture.Chart{gpus, replicas, requests} {
		if !c.Empty() {
			out.Charts = append(out.Charts, c.Draw())
		}
	}
	return out
}
