package picture

import (
	"strconv"
	"strings"
)

// Bars is a bar chart: a list of amounts on one axis. Each amount is divided into parts.
type Bars struct {
	Bars   []Bar
	Legend []Part
	Line   string // position of a dashed line in percent of the width; empty: no line
}

// Bar is one amount. Ours marks the bar of gpuscaler. Faint marks a bar that must not be compared with the other bars, and Problem is the
// reason.
type Bar struct {
	Name, Value, Problem string
	Ours, Faint          bool
	Parts                []Part
}

// Part is a piece of a bar. Width is its width in percent of the axis; Color is a color of the palette.
type Part struct{ Name, Color, Text, Width string }

// Width formats a share of the axis, from 0 to 1, as a percentage without the percent sign.
func Width(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) }

// Words returns a description of the bar for screen readers.
func (b Bar) Words() string {
	parts := make([]string, len(b.Parts))
	for i, p := range b.Parts {
		parts[i] = p.Text
	}
	return strings.Join(parts, ", ")
}
