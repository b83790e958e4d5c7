package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/picture"
)

//go:embed page.html
var pageText string

var page = picture.Parse(pageText, template.FuncMap{"hours": hours})

// pageData contains what the template of the page prints.
type pageData struct {
	*cost.Bill
	Title, Period, Headline string
	Details                 []string
	Charts                  []*picture.Chart
	Paid                    picture.Bars
	Tables                  []picture.Table
}

// parts are the parts into which a cost is divided, with their colors in the charts.
var parts = []struct {
	color, name string
	of          func(*cost.Sum) float64
}{
	{"green", "busy", func(s *cost.Sum) float64 { return s.Busy }},
	{"orange", "idle by activity", func(s *cost.Sum) float64 { return s.IdleByActivity }},
	{"amber", "idle by memory", func(s *cost.Sum) float64 { return s.IdleByMemory }},
	{"red", "not allocated", func(s *cost.Sum) float64 { return s.Unallocated }},
	{"grey", "not measured", func(s *cost.Sum) float64 { return s.Unmeasured }},
}

// WriteHTML writes the bill as an HTML page in one file, for light and dark themes, for printing and for small screens.
func WriteHTML(w io.Writer, b *cost.Bill) error {
	return page.Execute(w, pageData{
		Bill: b, Title: "GPU cost" + prefixed(" of ", b.Cluster), Period: period(b), Headline: headline(b), Details: details(b),
		Charts: charts(b), Paid: bars(b), Tables: append(advice(b), groups(b, math.MaxInt)...),
	})
}

// bars returns at most 12 bars, the most expensive first: one for each namespace, and one for each Use of GPUs without a namespace.
func bars(b *cost.Bill) (out picture.Bars) {
	names := cost.GroupBy(b.Lines, func(l *cost.Line) string {
		if l.Namespace == "" {
			return string(l.Use)
		}
		return l.Namespace
	})
	if len(names) == 0 || names[0].Cost <= 0 {
		return out
	}
	for i := range names[:min(12, len(names))] {
		g := &names[i]
		one := picture.Bar{Name: g.Name, Value: money(&g.Sum)}
		for _, p := range parts {
			if v := p.of(&g.Sum); v > 0 {
				text := fmt.Sprintf("%s %s (%s)", p.name, dollars(v), percent(v, g.Cost))
				one.Parts = append(one.Parts, picture.Part{Color: p.color, Text: text, Width: picture.Width(v / names[0].Cost)})
			}
		}
		out.Bars = append(out.Bars, one)
	}
	for _, p := range parts {
		out.Legend = append(out.Legend, picture.Part{Color: p.color, Name: p.name})
	}
	return out
}

// charts returns the charts over time: dollars per hour by part of the cost (such as busy and idle), dollars per hour by capacity type, and
// the number of GPUs.
func charts(b *cost.Bill) (out []*picture.Chart) {
	if len(b.Series) < 2 {
		return nil
	}
	var begins []time.Time
	for i := range b.Series {
		begins = append(begins, b.Series[i].At)
	}
	axis := picture.Calendar(b.From, b.To, begins)
	if b.Total.Priced() {
		spend := picture.NewChart("Cost by use", "$ per hour", axis)
		for _, p := range parts {
			spend.Stack(p.name, p.color, rate(b, func(x *cost.Bucket) float64 { return p.of(&x.Sum) }))
		}
		kinds := picture.NewChart("Cost by capacity type", "$ per hour", axis)
		found := map[string]bool{}
		for i := range b.Series {
			for kind := range b.Series[i].ByCapacityType {
				found[kind] = true
			}
		}
		for i, kind := range slices.Sorted(maps.Keys(found)) {
			color := []string{"blue", "violet", "green", "slate"}[i%4]
			kinds.Stack(kind, color, rate(b, func(x *cost.Bucket) float64 { return x.ByCapacityType[kind] }))
		}
		out = append(out, spend, kinds)
	}
	gpus := picture.NewChart("GPUs", "charged, and active (activity, where it is known)", axis)
	gpus.Add("charged", picture.Line, "orange", rate(b, func(x *cost.Bucket) float64 { return x.GPUHours }))
	gpus.Add("active", picture.Soft, "green", rate(b, func(x *cost.Bucket) float64 { return x.ActivityGPUHours }))
	out = append(out, gpus)
	for _, c := range out {
		c.Draw()
	}
	return out
}

// rate returns one value per hour for each bucket of the series. The function of returns a value of the bucket. rate divides this value by
// the hours of the bucket.
func rate(b *cost.Bill, of func(*cost.Bucket) float64) []float64 {
	out := make([]float64, len(b.Series))
	for i := range b.Series {
		if h := b.Series[i].Hours; h > 0 {
			out[i] = of(&b.Series[i]) / h
		}
	}
	return out
}
