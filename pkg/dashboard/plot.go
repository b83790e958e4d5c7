package dashboard

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/picture"
)

const (
	// headroom is the maximum of a chart's axis divided by the highest value in the chart.
	headroom = 1.12
	// minMarkDistance is the minimum distance of two marks of transitions, in SVG units. Transitions with a smaller distance share one mark.
	minMarkDistance = 7.0
)

// plot draws charts of one span of time.
type plot struct {
	span
	picture.Plot
}

func newPlot(w span, height, top float64) plot {
	return plot{w, picture.Plot{Height: height, Top: top * headroom}}
}

func (p plot) x(t time.Time) float64 {
	return picture.Canvas * min(1, max(0, float64(t.Sub(p.from))/float64(p.to.Sub(p.from))))
}

// point is a value of a chart's line. The value is valid from the time at until the next point. If there is a gap before the next point,
// the value is valid only until the time until. At a value of NaN, the line is interrupted.
type point struct {
	at    time.Time
	until time.Time
	value float64
}

// gap reports whether the values between the points a and b are unknown. There is a gap if the engine did not run in this time, or if
// another replica of gpuscaler was the leader.
func gap(a, b point) bool {
	return b.at.Sub(a.until) > 2*max(a.until.Sub(a.at), b.until.Sub(b.at), 30*time.Second)
}

// steps returns the SVG path of a step line through the points: each value is constant until the next point. If area is true, the path
// encloses the area below the line.
func (p plot) steps(points []point, area bool) string {
	constant := make([]picture.Held, len(points))
	for i, q := range points {
		constant[i] = picture.Held{From: p.x(q.at), To: p.x(q.until), Value: q.value}
		if i > 0 && !gap(points[i-1], q) {
			constant[i-1].To = constant[i].From
		}
	}
	return p.Steps(constant, area)
}

// line returns the SVG path of a line through the points. The line is interrupted at unknown values. A point between two unknown values is
// drawn as a dot.
func (p plot) line(points []point) string {
	var d strings.Builder
	open := false
	for i, q := range points {
		if math.IsNaN(q.value) {
			open = false
			continue
		}
		x, y := picture.Place(p.x(q.at)), picture.Place(p.Y(q.value))
		if open && !gap(points[i-1], q) {
			d.WriteString("L" + x + " " + y)
			continue
		}
		open = true
		d.WriteString("M" + x + " " + y + "h0.1")
	}
	return d.String()
}

// grid returns up to four horizontal grid lines at whole numbers.
func (p plot) grid() (all []gridline) {
	step := max(1, picture.Step(p.Top/4.5))
	for v := step; v < p.Top; v += step {
		y := p.Y(v)
		all = append(all, gridline{picture.Place(y), picture.Place(y - 3), fmt.Sprint(int(v))})
	}
	return all
}

// marks returns a mark for each transition. Transitions that are close together share one mark.
func (p plot) marks(changes []transition) (all []mark) {
	last := math.Inf(1)
	for _, c := range changes { // the newest transition is the first
		x := p.x(c.At.at)
		text := c.At.Clock() + "  " + c.Change() + "  " + c.Rule + ": " + c.Text
		if n := len(all) - 1; n >= 0 && last-x < minMarkDistance {
			if strings.Count(all[n].Title, "\n") < 6 {
				all[n].Title = text + "\n" + all[n].Title
			}
			all[n].Moved = all[n].Moved || c.Moved
			continue
		}
		all = append(all, mark{picture.Percent(x), picture.Place(p.Y(float64(c.To))), fromWorkload + c.URL, text, c.Moved})
		last = x
	}
	return all
}

// degraded returns the intervals in which inputs of the decisions were missing. Each interval begins at a transition with missing inputs
// and ends at the next transition.
func (p plot) degraded(h pastData) (all []interval) {
	right := picture.Canvas
	for _, c := range h.all() { // the newest transition is the first
		left := p.x(c.At.at)
		if c.degraded && right > left {
			all = append(all, interval{picture.Percent(left), picture.Percent(max(right-left, 1))})
		}
		right = left
	}
	return all
}
