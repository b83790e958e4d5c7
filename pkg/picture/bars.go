package picture

import (
	"strconv"
	"strings"
)

// Bars are amounts on one axis, each cut into what it consists of.
type Bars struct {
	Bars   []Bar
	Legend []Part
	Line   string // where a dashed line stands, in percent of the width; empty: nowhere
}

// Bar is one amount. A faint one compares with none of the others, and Problem says why.
type Bar struct {
	Name, Value, Problem string
	Ours, Faint          bool
	Parts                []Part
}

// Part is a piece of a bar, Width percent of the axis wide, in a colour of the palette.
type Part struct{ Name, Color, Text, Width string }

// Width prints a share of the axis, 0 to 1.
func Width(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) }

// Words tell the bar to those who do not see it.
func (b Bar) Words() string {
	parts := make([]string, len(b.Parts))
	for i, p := range b.Parts {
		parts[i] = p.Text
	}
	return strings.Join(parts, ", ")
}
