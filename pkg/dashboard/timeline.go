package dashboard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The pictures are drawn on a canvas of 1000 units that the browser stretches to the width it has; heights are pixels.
const (
	canvas         = 1000.0
	replicasHeight = 132
	signalHeight   = 52
	// headroom keeps the greatest value off the upper edge.
	headroom = 1.12
	// closeMarks is the distance, in units, below which marks of a flapping workload become one.
	closeMarks = 7.0
)

// timeline is a workload's past as a picture and as words.
type timeline struct {
	Range    string
	Ranges   []chip
	From, To moment
	Ticks    []tick
	Replicas chart
	Signals  []chart
	Marks    []mark
	Blind    []stretch // decided on missing inputs
	At       string    // where the asked moment stands, in percent; empty: now
	Empty    bool
	Words    string // the picture for who cannot see it
}

type tick struct{ X, Text string }

// chart is one panel: lines as SVG path data on the canvas.
type chart struct {
	Name, Now, Of         string
	Height                int
	Area, Line, Reference string
	Coming                string // on top of Area: what is on its way
	Grid                  []gridline
}

type gridline struct{ Y, TextY, Text string }

type mark struct {
	X, Y, URL, Title string
	Moved            bool
}

type stretch struct{ X, Width string }

// plot turns times and values into places on a panel.
type plot struct {
	span
	height, top float64 // top is the value at the upper edge
}

func (p plot) x(t time.Time) float64 {
	return canvas * min(1, max(0, float64(t.Sub(p.from))/float64(p.to.Sub(p.from))))
}

func (p plot) y(v float64) float64 { return p.height - (p.height-2)*min(1, v/p.top) - 1 }

func percent(x float64) string { return strconv.FormatFloat(x/canvas*100, 'f', 2, 64) + "%" }

func place(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// past is what is known of a workload in a span.
type past struct {
	signals []string
	points  []sample     // oldest first
	changes []transition // newest first
	before  *transition  // what was in force when the span begins
}

func (p *Page) past(k scaling.Key, w span) (out past) {
	finest := 1
	if w.to.Sub(w.from) <= 2*time.Hour {
		finest = 0
	}
	out.signals = p.sampler.read(k, w, finest, func(s sample) {
		s.values = slices.Clone(s.values)
		out.points = append(out.points, s)
	})
	if r, ok := p.board.History().At(k, w.from); ok {
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

// all is every outcome of the span, newest first, with the one in force when it begins.
func (h past) all() []transition {
	if h.before == nil {
		return h.changes
	}
	return append(slices.Clone(h.changes), *h.before)
}

// timeline draws what is known of a workload in a span. r is the record that the page explains; its policy names the signals.
func (p *Page) timeline(r *engine.Record, w span) timeline {
	h := p.past(r.Workload.Key, w)
	out := timeline{From: p.moment(w.from), To: p.moment(w.to), Ticks: p.ticks(w), Empty: len(h.points) == 0 && len(h.changes) == 0 && h.before == nil}
	if out.Empty {
		return out
	}
	top, target := 1.0, h.target()
	for _, s := range h.points {
		top = max(top, float64(s.values[columnReady]+s.values[columnComing]))
	}
	for _, q := range target {
		top = max(top, q.value)
	}
	plot := plot{w, replicasHeight, top * headroom}
	out.Replicas = chart{
		Name: "Replicas", Height: replicasHeight, Line: plot.steps(target, false), Grid: plot.grid(),
		Area:   plot.steps(h.column(func(s sample) float64 { return float64(s.values[columnReady]) }), true),
		Coming: plot.steps(h.column(func(s sample) float64 { return float64(s.values[columnReady] + s.values[columnComing]) }), true),
	}
	out.Signals = h.charts(r, w)
	out.Marks = plot.marks(h.changes)
	out.Blind = plot.blind(h)
	out.Words = words(target, h)
	return out
}

// point is a value that stands from an instant on, until the next point or the end of its step; NaN breaks the line.
type point struct {
	at    time.Time
	until time.Time
	value float64
}

// target is the number as sampled, with each change at its very instant.
func (h past) target() []point {
	out := h.column(func(s sample) float64 { return float64(s.values[columnTarget]) })
	for _, c := range h.all() {
		out = append(out, point{c.At.at, c.At.at.Add(h.stepAt(c.At.at)), float64(c.To)})
	}
	slices.SortStableFunc(out, func(a, b point) int { return a.at.Compare(b.at) })
	return out
}

// stepAt is how far apart the samples are around an instant.
func (h past) stepAt(at time.Time) time.Duration {
	if len(h.points) == 0 {
		return resolutions[0].step
	}
	i, _ := slices.BinarySearchFunc(h.points, at, func(s sample, at time.Time) int { return s.at.Compare(at) })
	return h.points[min(i, len(h.points)-1)].step
}

func (h past) column(value func(sample) float64) []point {
	out := make([]point, len(h.points))
	for i, s := range h.points {
		out[i] = point{s.at, s.at.Add(s.step), value(s)}
	}
	return out
}

// charts draws each signal that the policy has against what its target allows.
func (h past) charts(r *engine.Record, w span) (all []chart) {
	for i := range r.Workload.Policy.Signals {
		s := &r.Workload.Policy.Signals[i]
		now := signal(*r, i)
		c := chart{Name: s.Name, Height: signalHeight, Now: now.value(), Of: "target " + format(s.Target, now.Unit)}
		if s.Kind == scaling.Total {
			c.Of += " each"
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
			return s.Target * float64(x.values[columnReady]) // a total is shared by the replicas that are ready
		}
		values := h.column(func(x sample) float64 { return float64(x.values[firstSignal+column]) })
		reference := h.column(allowed)
		top := s.Target
		for j := range values {
			top = max(top, reference[j].value)
			if v := values[j].value; v > top { // false for NaN
				top = v
			}
		}
		plot := plot{w, signalHeight, top * headroom}
		c.Line, c.Reference = plot.line(values), plot.steps(reference, false)
		all = append(all, c)
	}
	return all
}

// hole tells whether nothing is known between two neighbours: the loop stood still, or another process led.
func hole(a, b point) bool {
	return b.at.Sub(a.until) > 2*max(a.until.Sub(a.at), b.until.Sub(b.at), 30*time.Second)
}

// steps draws values that stand until they change; an area is closed down to zero.
func (p plot) steps(points []point, area bool) string {
	var d strings.Builder
	open, last, start := false, math.NaN(), 0.0
	end := func(x float64) {
		if !open {
			return
		}
		d.WriteString("H" + place(x))
		if area {
			d.WriteString("V" + place(p.height) + "H" + place(start) + "Z")
		}
		open = false
	}
	for i, q := range points {
		if i > 0 && hole(points[i-1], q) {
			end(p.x(points[i-1].until))
		}
		x, y := p.x(q.at), p.y(q.value)
		switch {
		case !open:
			d.WriteString("M" + place(x) + " " + place(y))
			open, start = true, x
		case q.value != last:
			d.WriteString("H" + place(x) + "V" + place(y))
		}
		last = q.value
	}
	if n := len(points); n > 0 {
		end(p.x(points[n-1].until))
	}
	return d.String()
}

// line joins measurements; where nothing was measured it ends. A lone measurement is a dot.
func (p plot) line(points []point) string {
	var d strings.Builder
	open := false
	for i, q := range points {
		if math.IsNaN(q.value) {
			open = false
			continue
		}
		x, y := place(p.x(q.at)), place(p.y(q.value))
		if open && !hole(points[i-1], q) {
			d.WriteString("L" + x + " " + y)
			continue
		}
		open = true
		d.WriteString("M" + x + " " + y + "h0.1")
	}
	return d.String()
}

// grid is up to four lines at whole numbers.
func (p plot) grid() (all []gridline) {
	step := 1.0
	for i := 0; p.top/step > 4.5; i++ { // 1, 2, 5, 10, 20, 50 ...
		step *= [...]float64{2, 2.5, 2}[i%3]
	}
	for v := step; v < p.top; v += step {
		y := p.y(v)
		all = append(all, gridline{place(y), place(y - 3), fmt.Sprint(int(v))})
	}
	return all
}

func (p plot) marks(changes []transition) (all []mark) {
	last := math.Inf(1)
	for _, c := range changes { // newest first
		x := p.x(c.At.at)
		text := c.At.Clock() + "  " + c.Change() + "  " + c.Rule + ": " + c.Text
		if n := len(all) - 1; n >= 0 && last-x < closeMarks {
			if strings.Count(all[n].Title, "\n") < 6 {
				all[n].Title = text + "\n" + all[n].Title
			}
			all[n].Moved = all[n].Moved || c.Moved
			continue
		}
		all = append(all, mark{percent(x), place(p.y(float64(c.To))), fromWorkload + c.URL, text, c.Moved})
		last = x
	}
	return all
}

// blind are the stretches decided on missing inputs: each reaches from its transition to the next one.
func (p plot) blind(h past) (all []stretch) {
	right := canvas
	for _, c := range h.all() { // newest first
		left := p.x(c.At.at)
		if c.degraded && right > left {
			all = append(all, stretch{percent(left), percent(max(right-left, 1))})
		}
		right = left
	}
	return all
}

// ticks are four to eight round times.
func (p *Page) ticks(w span) (all []tick) {
	long := w.to.Sub(w.from)
	step := 5 * time.Minute
	for _, s := range []time.Duration{10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour} {
		if long/step > 6 {
			step = s
		}
	}
	_, offset := w.from.In(p.options.Zone).Zone()
	zone := time.Duration(offset) * time.Second // times are round where people read them
	plot := plot{span: w}
	for t := w.from.Add(zone).Truncate(step).Add(step - zone); t.Before(w.to); t = t.Add(step) {
		if x := plot.x(t); x > 25 && x < canvas-25 {
			all = append(all, tick{percent(x), t.In(p.options.Zone).Format("15:04")})
		}
	}
	return all
}

// words tells what the picture shows.
func words(target []point, h past) string {
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
