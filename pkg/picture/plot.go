// Package picture draws the charts of HTML pages and reports: values over time, and bars divided into parts. A plot has a fixed width in
// SVG units, and the browser scales it to the available width. Text keeps its size, so that a chart is readable on a phone and on a large
// screen.
package picture

import (
	"math"
	"strconv"
	"strings"
)

// Canvas is the width of every plot in SVG units.
const Canvas = 1000.0

// Plot converts values to vertical positions. Height is the height of the plot in SVG units. Top is the value at the upper edge, and 0 is
// at the lower edge. Top is 0 if all values are 0.
type Plot struct{ Height, Top float64 }

// Y returns the vertical position of a value: its distance from the upper edge in SVG units.
func (p Plot) Y(v float64) float64 {
	lowest := p.Height - 1
	if v == 0 { // Top can be 0, and 0/0 is no number
		return lowest
	}
	return lowest - (p.Height-2)*min(1, v/p.Top)
}

// Held is a value that is constant between the positions From and To. Both are distances from the left edge in SVG units.
type Held struct{ From, To, Value float64 }

// Steps returns the SVG path of a step line through the values, which must be in the order of time. If a value begins after the end of the
// value before it, the line has a gap there. If area is true, the path encloses the area between the line and zero.
func (p Plot) Steps(values []Held, area bool) string {
	var d strings.Builder
	begin := 0.0
	for i, v := range values {
		switch {
		case i == 0 || values[i-1].To < v.From:
			begin = v.From
			d.WriteString("M" + Place(v.From) + " " + Place(p.Y(v.Value)))
		case v.Value != values[i-1].Value:
			d.WriteString("H" + Place(v.From) + "V" + Place(p.Y(v.Value)))
		}
		if i+1 < len(values) && v.To >= values[i+1].From {
			continue
		}
		d.WriteString("H" + Place(v.To))
		if area {
			d.WriteString("V" + Place(p.Height) + "H" + Place(begin) + "Z")
		}
	}
	return d.String()
}

// Place formats a coordinate in SVG units for an SVG attribute.
func Place(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// Percent formats a horizontal position in SVG units as a percentage of the width of the plot.
func Percent(x float64) string { return strconv.FormatFloat(x/Canvas*100, 'f', 2, 64) + "%" }
