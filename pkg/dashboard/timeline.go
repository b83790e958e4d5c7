package dashboard

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/picture"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Heights of the charts in pixels.
const (
	replicasHeight = 132
	signalHeight   = 52
)

// timeline contains the charts of the history of a workload, and a description for screen readers.
type timeline struct {
	Range    string
	Ranges   []chip
	From, To moment
	Ticks    []tick
	Replicas chart
	Signals  []chart
	Marks    []mark
	Degraded []interval // intervals in which inputs of the decisions were missing
	At       string     // horizontal position of the requested time in percent; empty: no time was requested
	Empty    bool
	Words    string // description for screen readers
}

// HasTargets reports whether a chart of a signal shows a target.
func (t timeline) HasTargets() bool {
	return slices.ContainsFunc(t.Signals, func(c chart) bool { return c.Reference != "" })
}

type tick struct{ X, Text string }

// chart is one chart of the timeline. Its lines and areas are SVG path data.
type chart struct {
	Name, Now, Of, Peak   string
	Height                int
	Area, Line, Reference string
	Starting              string // area of ready, loading and pending replicas
	Grid                  []gridline
}

type gridline struct{ Y, TextY, Text string }

type mark struct {
	X, Y, URL, Title string
	Moved            bool
}

type interval struct{ X, Width string }

// pastData contains the samples and the transitions of a span, from which a timeline is drawn.
type pastData struct {
	signals []string
	points  []sample     // oldest first
	changes []transition // newest first
	before  *transition  // the transition that applied at the beginning of the span
}

func (p *Page) pastData(k scaling.Key, w span) (out pastData) {
	finest := 1
	if w.to.Sub(w.from) <= 2*time.Hour {
		finest = 0
	}
	out.signals = p.sampler.read(k, w, finest, func(s sample) {
		s.values = slices.Clone(s.values)
		out.points = append(out.points, s)
	})
	if r, ok := p.decisions.History().At(k, w.from); ok {
		t := p.transition(&r)
		t.At.at = w.from
		out.before = &t
	}
	for _, t := range p.transitions(k, w.from, nil) {
		if !t.At.at.After(w.to) {
			out.changes = append(out.changes, t)
		}
	}
	return out
}

// all returns the transitions of the span, newest first, followed by the transition that applied when the span began.
func (h pastData) all() []transition {
	if h.before == nil {
		return h.changes
	}
	return append(slices.Clone(h.changes), *h.before)
}

// timeline draws the charts of a span: one chart of the replicas, and one chart for each signal. r is the record that the page explains.
// The signals are the signals of the policy in r.
func (p *Page) timeline(r *engine.Record, w span) timeline {
	h := p.pastData(r.Workload.Key, w)
	empty := len(h.points) == 0 && len(h.changes) == 0 && h.before == nil
	out := timeline{From: p.moment(w.from), To: p.moment(w.to), Ticks: p.ticks(w), Empty: empty}
	if out.Empty {
		return out
	}
	top, target := 1.0, h.target()
	for _, s := range h.points {
		top = max(top, float64(s.values[columnReady]+s.values[columnStarting]))
	}
	for _, q := range target {
		top = max(top, q.value)
	}
	plot := newPlot(w, replicasHeight, top)
	out.Replicas = chart{
		Name: "Replicas", Height: replicasHeight, Line: plot.steps(target, false), Grid: plot.grid(),
		Area:     plot.steps(h.column(func(s sample) float64 { return float64(s.values[columnReady]) }), true),
		Starting: plot.steps(h.column(func(s sample) float64 { return float64(s.values[columnReady] + s.values[columnStarting]) }), true),
	}
	out.Signals = h.charts(r, w)
	out.Marks = plot.marks(h.changes)
	out.Degraded = plot.degraded(h)
	out.Words = describe(target, h)
	return out
}

// target returns the points of the target over the span: one for each sample, and one at the exact time of each transition.
func (h pastData) target() []point {
	out := h.column(func(s sample) float64 { return float64(s.values[columnTarget]) })
	for _, c := range h.all() {
		out = append(out, point{c.At.at, c.At.at.Add(h.stepAt(c.At.at)), float64(c.To)})
	}
	slices.SortStableFunc(out, func(a, b point) int { return a.at.Compare(b.at) })
	return out
}

// stepAt returns the interval between the two samples before and after a time.
func (h pastData) stepAt(at time.Time) time.Duration {
	if len(h.points) == 0 {
		return resolutions[0].step
	}
	i, _ := slices.BinarySearchFunc(h.points, at, func(s sample, at time.Time) int { return s.at.Compare(at) })
	return h.points[min(i, len(h.points)-1)].step
}

func (h pastData) column(value func(sample) float64) []point {
	out := make([]point, len(h.points))
	for i, s := range h.points {
		out[i] = point{s.at, s.at.Add(s.step), value(s)}
	}
	return out
}

// charts returns a chart for each signal of the policy, with the signal's target as the reference line. If the signal measures the total of
// all replicas, its target is for one replica, so the line is the target times the number of ready replicas. Without a target (the policy
// has an objective), the chart has no reference line.
func (h pastData) charts(r *engine.Record, w span) (all []chart) {
	for i := range r.Workload.Policy.Signals {
		s := &r.Workload.Policy.Signals[i]
		now := explain.NewSignal(r, i)
		c := chart{Name: s.Name, Height: signalHeight, Now: now.ValueText(), Of: "target " + now.TargetText()}
		if s.Kind == scaling.Total && s.Target > 0 {
			c.Of += " per replica"
		}
		column := slices.Index(h.signals, s.Name)
		if column < 0 {
			all = append(all, c)
			continue
		}
		allowed := func(x sample) float64 {
			if s.Kind == scaling.Mean {
				return s.Target
			}
			return s.Target * float64(x.values[columnReady]) // the target of a signal that measures a total is for one ready replica
		}
		values := h.column(func(x sample) float64 { return float64(x.values[firstSignal+column]) })
		reference := h.column(allowed)
		top, peak := s.Target, -1.0
		for j := range values {
			top = max(top, reference[j].value)
			if v := values[j].value; v > peak { // the condition v > peak is false if v is NaN
				peak = v
			}
		}
		if top = max(top, peak); peak >= 0 {
			c.Peak = "highest " + explain.FormatValue(peak, now.Unit)
		}
		plot := newPlot(w, signalHeight, top)
		c.Line = plot.line(values)
		if s.Target > 0 {
			c.Reference = plot.steps(reference, false)
		}
		all = append(all, c)
	}
	return all
}

// ticks returns four to eight round times, in the time zone of the page, for the axis of a chart.
func (p *Page) ticks(w span) (all []tick) {
	long := w.to.Sub(w.from)
	step := 5 * time.Minute
	for _, minutes := range []time.Duration{10, 15, 30, 60, 120, 180, 240} {
		if long/step > 6 {
			step = minutes * time.Minute
		}
	}
	_, offset := w.from.In(p.options.Zone).Zone()
	zone := time.Duration(offset) * time.Second // ticks are at round times in the time zone of the page
	plot := plot{span: w}
	for t := w.from.Add(zone).Truncate(step).Add(step - zone); t.Before(w.to); t = t.Add(step) {
		if x := plot.x(t); x > 50 && x < picture.Canvas-50 {
			all = append(all, tick{picture.Percent(x), t.In(p.options.Zone).Format("15:04")})
		}
	}
	return all
}

// describe returns the description of the timeline for screen readers.
func describe(target []point, h pastData) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, q := range target {
		low, high = min(low, q.value), max(high, q.value)
	}
	moved := 0
	for _, c := range h.changes {
		if c.Moved {
			moved++
		}
	}
	return fmt.Sprintf("The target was between %.0f and %.0f and changed %d times; each change is in the list below.", low, high, moved)
}
