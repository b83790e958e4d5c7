package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// Size of a chart in SVG units; the page scales it to its width.
const (
	chartWidth  = 960
	chartHeight = 200
	marginLeft  = 52
	marginBelow = 22
	marginAbove = 8
)

// chart is a picture over time: areas that stand on each other, or lines.
type chart struct {
	Title, Note    string
	Areas, Lines   []area
	XTicks, YTicks []tick

	at       []time.Time
	from, to time.Time
	floor    []float64 // what was stacked so far
	top      float64
}

type area struct {
	Name, Class, Path string
	low, high         []float64
}

type tick struct{ At, Label string }

func newChart(title, note string, b *cost.Bill) *chart {
	c := &chart{Title: title, Note: note, from: b.From, to: b.To, floor: make([]float64, len(b.Series))}
	for i := range b.Series {
		c.at = append(c.at, b.Series[i].At)
	}
	return c
}

// stack puts values on top of those before. Values that are all 0 are not drawn.
func (c *chart) stack(name, class string, values []float64) {
	low, any := append([]float64(nil), c.floor...), false
	for i, v := range values {
		c.floor[i] += v
		c.top = max(c.top, c.floor[i])
		any = any || v > 0
	}
	if any {
		c.Areas = append(c.Areas, area{Name: name, Class: class, low: low, high: append([]float64(nil), c.floor...)})
	}
}

func (c *chart) line(name, class string, values []float64) {
	for _, v := range values {
		c.top = max(c.top, v)
	}
	c.Lines = append(c.Lines, area{Name: name, Class: class, high: values})
}

// draw lays the paths and the axes, once everything is there.
func (c *chart) draw() {
	step := niceStep(c.top / 4)
	c.top = max(step, math.Ceil(c.top/step)*step)
	for v := 0.0; v <= c.top+step/2; v += step {
		c.YTicks = append(c.YTicks, tick{fixed(c.y(v)), strconv.FormatFloat(v, 'g', 5, 64)})
	}
	every, format := ticks(c.to.Sub(c.from))
	for t := c.from.UTC().Truncate(every).Add(every); t.Before(c.to); t = t.Add(every) {
		c.XTicks = append(c.XTicks, tick{fixed(c.x(t)), t.Format(format)})
	}
	for i := range c.Areas {
		c.Areas[i].Path = c.steps(c.Areas[i].high, false) + c.steps(c.Areas[i].low, true) + "Z"
	}
	for i := range c.Lines {
		c.Lines[i].Path = c.steps(c.Lines[i].high, false)
	}
}

// steps is a path on which a value holds until the next; backwards it closes an area.
func (c *chart) steps(values []float64, backwards bool) string {
	var b strings.Builder
	for n := range values {
		i := n
		if backwards {
			i = len(values) - 1 - n
		}
		begin, end := c.at[i], c.to
		if i+1 < len(c.at) {
			end = c.at[i+1]
		}
		from, to := c.x(begin), c.x(end)
		if backwards {
			from, to = to, from
		}
		letter := "L"
		if n == 0 && !backwards {
			letter = "M"
		}
		fmt.Fprintf(&b, "%s%s %sH%s", letter, fixed(from), fixed(c.y(values[i])), fixed(to))
	}
	return b.String()
}

func (c *chart) x(t time.Time) float64 {
	part := float64(t.Sub(c.from)) / float64(max(c.to.Sub(c.from), 1))
	return marginLeft + (chartWidth-marginLeft-8)*min(max(part, 0), 1)
}

func (c *chart) y(v float64) float64 {
	return chartHeight - marginBelow - (chartHeight-marginBelow-marginAbove)*v/max(c.top, 1e-12)
}

// ticks are so far apart that at most about ten stand on the axis.
func ticks(span time.Duration) (every time.Duration, format string) {
	for _, d := range []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour} {
		if span <= 10*d {
			return d, "15:04"
		}
	}
	day := 24 * time.Hour
	return max(1, (span+9*day)/(10*day)) * day, "Jan 2"
}

// niceStep is 1, 2 or 5 times a power of ten, at least v.
func niceStep(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if unit*m >= v {
			return unit * m
		}
	}
	return unit * 10
}

func fixed(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
