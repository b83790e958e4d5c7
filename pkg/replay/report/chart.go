package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size of a chart in SVG units; the page scales it to its width.
const (
	chartWidth  = 960
	chartHeight = 200
	marginLeft  = 52
	marginBelow = 22
	marginAbove = 8
)

// chart is a picture over time: lines, and points that say something when one points at them.
type chart struct {
	Title, Note   string
	Lines         []line
	Points        []point
	XTicks, YTick []tick

	resolution float64 // seconds between two values
	seconds    float64
	top        float64
}

type line struct {
	Name, Class, Path string
	Fill              bool
	values            []float64
}

type point struct {
	X, Y string
	Text string
}

type tick struct{ At, Label string }

// newChart is an empty chart of so many seconds.
func newChart(title, note string, resolution time.Duration, seconds float64) *chart {
	return &chart{Title: title, Note: note, resolution: resolution.Seconds(), seconds: seconds}
}

func (c *chart) add(name, class string, fill bool, values []float64) {
	for _, v := range values {
		c.top = max(c.top, v)
	}
	c.Lines = append(c.Lines, line{Name: name, Class: class, Fill: fill, values: values})
}

// draw lays the paths and the axes, once all lines are there.
func (c *chart) draw() *chart {
	step := niceStep(c.top / 4)
	c.top = max(step, math.Ceil(c.top/step)*step)
	for v := 0.0; v <= c.top+step/2; v += step {
		c.YTick = append(c.YTick, tick{fixed(c.y(v)), short(v)})
	}
	every := niceSpan(c.seconds / 8)
	for t := 0.0; t <= c.seconds; t += every {
		c.XTicks = append(c.XTicks, tick{fixed(c.x(t)), clock(t)})
	}
	for i := range c.Lines {
		c.Lines[i].Path = c.path(&c.Lines[i])
	}
	return c
}

func (c *chart) x(seconds float64) float64 {
	return marginLeft + (chartWidth-marginLeft-8)*seconds/max(c.seconds, 1)
}

func (c *chart) y(v float64) float64 {
	return chartHeight - marginBelow - (chartHeight-marginBelow-marginAbove)*v/max(c.top, 1e-12)
}

// path is stepped: a value holds until the next.
func (c *chart) path(l *line) string {
	var b strings.Builder
	for i, v := range l.values {
		from, to := c.x(float64(i)*c.resolution), c.x(float64(i+1)*c.resolution)
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%s %sH%s", fixed(from), fixed(c.y(v)), fixed(to))
		case v == l.values[i-1]:
			fmt.Fprintf(&b, "H%s", fixed(to))
		default:
			fmt.Fprintf(&b, "V%sH%s", fixed(c.y(v)), fixed(to))
		}
	}
	if l.Fill && len(l.values) > 0 {
		fmt.Fprintf(&b, "V%sH%sZ", fixed(c.y(0)), fixed(c.x(0)))
	}
	return b.String()
}

// Empty tells a chart of nothing but zeros: a sentence says that in less room.
func (c *chart) Empty() bool {
	for _, l := range c.Lines {
		if slices.ContainsFunc(l.values, func(v float64) bool { return v != 0 }) {
			return false
		}
	}
	return true
}

// mark puts a point that speaks.
func (c *chart) mark(seconds, value float64, text string) {
	c.Points = append(c.Points, point{fixed(c.x(seconds)), fixed(c.y(value)), text})
}

// niceStep is 1, 2 or 5 times a power of ten, at least v.
func niceStep(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	unit := 1.0
	for unit > v {
		unit /= 10
	}
	for unit*10 <= v {
		unit *= 10
	}
	for _, m := range []float64{1, 2, 5, 10} {
		if unit*m >= v {
			return unit * m
		}
	}
	return unit * 10
}

// niceSpan is a number of seconds that divides a clock, at least v.
func niceSpan(v float64) float64 {
	for _, s := range []float64{10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400} {
		if s >= v {
			return s
		}
	}
	return math.Ceil(v/86400) * 86400
}

// clock is a time since the start: 1:30 is an hour and a half.
func clock(seconds float64) string {
	s := int64(seconds)
	if s%60 != 0 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/3600, s/60%60)
}

// short is a number on an axis: 150k, 0.05.
func short(v float64) string {
	suffix := ""
	for _, unit := range []string{"k", "M"} {
		if v >= 10_000 {
			v, suffix = v/1000, unit
		}
	}
	return strconv.FormatFloat(v, 'g', 5, 64) + suffix
}

func fixed(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
