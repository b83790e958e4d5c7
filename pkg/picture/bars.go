package picture

import (
	"strconv"
	"strings"
)

// Bars is a list of amounts on one axis, each divided into parts.
type Bars struct {
	Bars   []Bar
	Legend []Part
	Line   string // position of a dashed line in percent of the width; empty: no line
}

// Bar is one amount. Ours marks the bar of gpuscaler. Faint means that the bar cannot be compared with the others; Problem is the reason.
type Bar struct {
	Name, Value, Problem string
	Ours, Faint          bool
	Parts                []Part
}

// Part is a piece of a bar: Width percent of the axis, in a color of the palette.
type Part struct{ Name, Color, Text, Width string }

// Width formats a share of the axis, 0 to 1, as a percentage.
func Width(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) }

// Words describes the bar for screen readers.
func (b Bar) Words() string {
	parts := make([]string, len(b.Parts))
	for i, p := range b.Parts {
		parts[i] = p.Text
	}
	return strings.Join(parts, ", ")
}
