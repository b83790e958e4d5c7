// Package picture draws what the pages show: values over time, and shares of a whole. A plot is a fixed number of units wide and the
// browser stretches it to the width there is, while its text keeps its size: a phone sees the same picture as a wall.
package picture

import (
	"math"
	"strconv"
	"strings"
)

// Canvas is the width of every plot in units.
const Canvas = 1000.0

// Plot turns values into places. Top is the value at the upper edge, above 0; 0 lies on the lower edge, Height units below it.
type Plot struct{ Height, Top float64 }

// Y is where a value stands, in units from the upper edge.
func (p Plot) Y(v float64) float64 { return p.Height - (p.Height-2)*min(1, v/p.Top) - 1 }

// Held is a value that stands from one place to another, both in units from the left edge.
type Held struct{ From, To, Value float64 }

// Steps is the SVG path of values that stand until they change, in the order of time. Between two that do not touch the line ends. An
// area is closed down to zero.
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

// Place prints a number of units for an attribute.
func Place(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// Percent prints a place on the canvas as a part of its width.
func Percent(x float64) string { return strconv.FormatFloat(x/Canvas*100, 'f', 2, 64) + "%" }
