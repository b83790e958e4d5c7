package picture

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// chartHeight is that of a chart's plot in pixels; the template has it too.
const chartHeight = 170

// The looks of a series.
const (
	Line  = "line"
	Thin  = "thin" // for what is only compared with
	Soft  = "soft" // a line over a light area
	solid = "solid"
)

// Chart is a picture over time with its axes. Series are added first, then Draw, then marks.
type Chart struct {
	Title, Note    string // Note has the unit
	Series         []Series
	Points         []Point
	XTicks, YTicks []Tick

	axis  Axis
	plot  Plot
	floor []float64 // what was stacked so far
}

// Series is one line or area. Class is its look and its colour.
type Series struct {
	Name, Class, Color, Path string

	values []float64 // as they are read
	drawn  []float64 // with what lies below them
}

// Point is a place that says something when one points at it.
type Point struct{ X, Y, Text string }

// NewChart is an empty chart.
func NewChart(title, note string, axis Axis) *Chart {
	return &Chart{Title: title, Note: note, axis: axis, XTicks: axis.ticks}
}

// Add puts a series on top of the picture. The colour is one of the palette: blue, green, orange, violet, red, slate.
func (c *Chart) Add(name, look, color string, values []float64) {
	c.Series = append(c.Series, Series{Name: name, Class: look + " " + color, Color: color, values: values, drawn: values})
}

// Stack puts an area on top of those stacked before. One of nothing but zeros is left out.
func (c *Chart) Stack(name, color string, values []float64) {
	sum := slices.Clone(values)
	for i := range min(len(sum), len(c.floor)) {
		sum[i] += c.floor[i]
	}
	c.floor = sum
	if !zero(values) {
		c.Series = append(c.Series, Series{Name: name, Class: solid + " " + color, Color: color, values: values, drawn: sum})
	}
}

// Draw lays the paths and the axes, once all series are there.
func (c *Chart) Draw() *Chart {
	top := 0.0
	for _, s := range c.Series {
		for _, v := range s.drawn {
			top = max(top, v)
		}
	}
	step := Step(top / 4)
	c.plot = Plot{chartHeight, max(step, math.Ceil(top/step)*step)}
	for v := 0.0; v <= c.plot.Top+step/2; v += step {
		c.YTicks = append(c.YTicks, Tick{At: Place(c.plot.Y(v)), Label: Short(v)})
	}
	for i := range c.Series {
		s := &c.Series[i]
		look, _, _ := strings.Cut(s.Class, " ")
		s.Path = c.plot.Steps(c.axis.held(s.drawn), look == Soft || look == solid)
	}
	return c
}

// Paths are the series in the order in which they are painted: of a stack the tallest first, each lower one over it.
func (c *Chart) Paths() []Series {
	if c.floor == nil {
		return c.Series
	}
	out := slices.Clone(c.Series)
	slices.Reverse(out)
	return out
}

// Mark puts a point that speaks, so many seconds from the left.
func (c *Chart) Mark(seconds, value float64, text string) {
	c.Points = append(c.Points, Point{Percent(c.axis.x(seconds)), Place(c.plot.Y(value)), text})
}

// Empty tells a chart of nothing but zeros: a sentence says that in less room.
func (c *Chart) Empty() bool {
	return !slices.ContainsFunc(c.Series, func(s Series) bool { return !zero(s.values) })
}

func zero(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v != 0 })
}

// Words tell the picture to those who do not see it.
func (c *Chart) Words() string {
	var parts []string
	for _, s := range c.Series {
		if len(s.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s: between %s and %s, %s at the end", s.Name, Short(slices.Min(s.values)), Short(slices.Max(s.values)), Short(s.values[len(s.values)-1])))
		}
	}
	return strings.Join(parts, "; ") + "."
}
