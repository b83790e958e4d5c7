package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"money": money, "dollars": dollars, "hours": hours, "percent": percent, "span": span, "activity": activity, "ifKnown": ifKnown, "unknown": unknown,
	"share": func(g *cost.Group, part, whole float64) string { return share(&g.Sum, part, whole) }, "sum": func(g *cost.Group) *cost.Sum { return &g.Sum },
	"gib": func(mib float64) string { return fmt.Sprintf("%.1f GiB", mib/1024) },
}).Parse(pageText))

// pageData is what the page shows.
type pageData struct {
	*cost.Bill
	Period, Headline string
	Details          []string
	Charts           []*chart
	Bars             []bar
	Legend           []part
	Tables           []table
}

// bar is what one namespace paid for, by what it went to.
type bar struct {
	Name, Cost string
	Parts      []part
}

type part struct{ Class, Name, Text, Width string }

type table struct {
	Title string
	Rows  []*cost.Group
}

// purposes are what money goes to, as many colours as an eye tells apart.
var purposes = []struct {
	class, name string
	of          func(*cost.Sum) float64
}{
	{"busy", "busy", func(s *cost.Sum) float64 { return s.Busy }},
	{"idle", "idle by activity", func(s *cost.Sum) float64 { return s.IdleByActivity }},
	{"memory", "idle by memory", func(s *cost.Sum) float64 { return s.IdleByMemory }},
	{"nobody", "held by nobody", func(s *cost.Sum) float64 { return s.Unheld }},
	{"unmeasured", "not measured", func(s *cost.Sum) float64 { return s.Unmeasured }},
}

// WriteHTML writes the bill as one self-contained page, readable in light and dark and on paper.
func WriteHTML(w io.Writer, b *cost.Bill) error {
	d := pageData{Bill: b, Period: period(b), Headline: headline(b), Details: details(b), Charts: charts(b), Bars: bars(b)}
	for _, p := range purposes {
		d.Legend = append(d.Legend, part{Class: p.class, Name: p.name})
	}
	for _, t := range []struct {
		title string
		rows  []cost.Group
	}{{"Teams", b.Teams}, {"Namespaces", b.Namespaces}, {"Workloads", b.Workloads}, {"Instance types", b.Instances}, {"Capacity types", b.Capacity}, {"Use of the GPUs", b.Uses}} {
		if len(t.rows) == 0 {
			continue
		}
		out := table{Title: t.title}
		for i := range t.rows {
			out.Rows = append(out.Rows, &t.rows[i])
		}
		d.Tables = append(d.Tables, out)
	}
	return page.Execute(w, d)
}

// bars are the dearest namespaces, and what nobody held, on one axis.
func bars(b *cost.Bill) (out []bar) {
	names := cost.GroupBy(b.Lines, func(l *cost.Line) string {
		if l.Namespace == "" {
			return string(l.Use)
		}
		return l.Namespace
	})
	if len(names) == 0 || names[0].Cost <= 0 {
		return nil
	}
	for i := range names[:min(12, len(names))] {
		g := &names[i]
		one := bar{Name: g.Name, Cost: money(&g.Sum)}
		for _, p := range purposes {
			if v := p.of(&g.Sum); v > 0 {
				one.Parts = append(one.Parts, part{Class: p.class, Text: fmt.Sprintf("%s %s (%s)", p.name, dollars(v), percent(v, g.Cost)), Width: fmt.Sprintf("%.2f", 100*v/names[0].Cost)})
			}
		}
		out = append(out, one)
	}
	return out
}

// charts are the series: dollars an hour by purpose and by capacity type, and GPUs.
func charts(b *cost.Bill) (out []*chart) {
	if len(b.Series) < 2 {
		return nil
	}
	if b.Total.Priced() {
		spend := newChart("What the money went to", "$ an hour", b)
		for _, p := range purposes {
			spend.stack(p.name, p.class, rate(b, func(x *cost.Bucket) float64 { return p.of(&x.Sum) }))
		}
		kinds := newChart("By capacity type", "$ an hour", b)
		seen := map[string]bool{}
		for i := range b.Series {
			for kind := range b.Series[i].ByCapacityType {
				seen[kind] = true
			}
		}
		for i, kind := range slices.Sorted(maps.Keys(seen)) {
			kinds.stack(kind, fmt.Sprintf("k%d", i%4+1), rate(b, func(x *cost.Bucket) float64 { return x.ByCapacityType[kind] }))
		}
		out = append(out, spend, kinds)
	}
	gpus := newChart("GPUs", "paid for, and what of them worked (by activity, where it is known)", b)
	gpus.line("paid for", "k2", rate(b, func(x *cost.Bucket) float64 { return x.GPUHours }))
	gpus.line("worked", "k1", rate(b, func(x *cost.Bucket) float64 { return x.ActivityGPUHours }))
	out = append(out, gpus)
	for _, c := range out {
		c.draw()
	}
	return out
}

// rate is a series by the hour.
func rate(b *cost.Bill, of func(*cost.Bucket) float64) []float64 {
	out := make([]float64, len(b.Series))
	for i := range b.Series {
		if h := b.Series[i].Hours; h > 0 {
			out[i] = of(&b.Series[i]) / h
		}
	}
	return out
}
