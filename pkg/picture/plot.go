// Package picture draws the charts of pages and reports: values over time, and parts of a whole. The width of a plot is a fixed number
// of units, which the browser stretches to the available width. Text keeps its size, so a phone shows the same chart as a large screen.
package picture

import (
	"math"
	"strconv"
	"strings"
)

// Canvas is the width of every plot in units.
const Canvas = 1000.0

// Plot converts values to positions. Top is the value at the upper edge and is positive; 0 is at the lower edge, Height units below.
type Plot struct{ Height, Top float64 }

// Y returns the position of a value in units from the upper edge.
func (p Plot) Y(v float64) float64 { return p.Height - (p.Height-2)*min(1, v/p.Top) - 1 }

// Held is a value that is constant between two positions in units from the left edge.
type Held struct{ From, To, Value float64 }

// Steps returns the SVG path of a step line through the values in the order of time. The line has a gap between two values that do not
// touch. An area is closed down to zero.
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

// Place formats a number of units for an attribute.
func Place(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// Percent formats a position on the canvas as a percentage of its width.
func Percent(x float64) string { return strconv.FormatFloat(x/Canvas*100, 'f', 2, 64) + "%" }
