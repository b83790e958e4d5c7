package picture

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// chartHeight is the height of a chart's plot in pixels. The page template contains the same number; change both together.
const chartHeight = 170

// Styles of the lines and areas of a series.
const (
	Line  = "line"
	Thin  = "thin" // a thin line, for a value with which others are compared
	Soft  = "soft" // a line over a light area
	solid = "solid"
)

// Chart is a time series chart with its axes. Add the series first, then call Draw, then add marks.
type Chart struct {
	Title, Note    string // Note is the text after the title and contains the unit
	Series         []Series
	Points         []Point
	XTicks, YTicks []Tick

	axis  Axis
	plot  Plot
	floor []float64 // sum of the series stacked so far
}

// Series is one line or area of a chart. Class contains its style and color.
type Series struct {
	Name, Class, Color, Path string

	values []float64 // values as the caller added them
	drawn  []float64 // values plus the values of the series below it in the stack
}

// Point is a marker with a tooltip.
type Point struct{ X, Y, Text string }

// NewChart returns an empty chart.
func NewChart(title, note string, axis Axis) *Chart {
	return &Chart{Title: title, Note: note, axis: axis, XTicks: axis.ticks}
}

// Add adds a line to the chart, drawn over the series that were added before it. The parameter look is a style, such as Line. The
// parameter color is a color of the palette: blue, green, orange, violet, red or slate.
func (c *Chart) Add(name, look, color string, values []float64) {
	c.Series = append(c.Series, Series{Name: name, Class: look + " " + color, Color: color, values: values, drawn: values})
}

// Stack adds an area on top of the areas that were stacked before it. If all values are zero, no area is drawn.
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

// Draw computes the paths of the series and the ticks of the value axis, and returns the chart. Call it after all series are added.
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

// Paths returns the series in drawing order. The path of each stacked area extends down to zero. Therefore the highest area is drawn
// first, and the lower areas are drawn over it.
func (c *Chart) Paths() []Series {
	if c.floor == nil {
		return c.Series
	}
	out := slices.Clone(c.Series)
	slices.Reverse(out)
	return out
}

// Mark adds a point with a tooltip at the given number of seconds from the left edge.
func (c *Chart) Mark(seconds, value float64, text string) {
	c.Points = append(c.Points, Point{Percent(c.axis.x(seconds)), Place(c.plot.Y(value)), text})
}

// Empty reports whether all values are zero. The page then shows a sentence instead of the chart.
func (c *Chart) Empty() bool {
	return !slices.ContainsFunc(c.Series, func(s Series) bool { return !zero(s.values) })
}

func zero(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v != 0 })
}

// Words returns a description of the chart for screen readers.
func (c *Chart) Words() string {
	var parts []string
	for _, s := range c.Series {
		if len(s.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s: between %s and %s, %s at the end", s.Name,
				Short(slices.Min(s.values)), Short(slices.Max(s.values)), Short(s.values[len(s.values)-1])))
		}
	}
	return strings.Join(parts, "; ") + "."
}
