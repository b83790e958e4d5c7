package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// canvas is the width of every panel in units; the browser stretches it to the width it has.
	canvas = 1000.0
	// headroom keeps the greatest value off the upper edge.
	headroom = 1.12
	// closeMarks is the distance, in units, below which marks of a flapping workload become one.
	closeMarks = 7.0
)

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

// point is a value that stands from an instant on, until the next point or the end of its step; NaN breaks the line.
type point struct {
	at    time.Time
	until time.Time
	value float64
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
