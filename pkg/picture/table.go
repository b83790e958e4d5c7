package picture

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Table is a table for a terminal and for an HTML page. A - at the beginning of a column name is not printed; it means that the column
// contains text, which a page can wrap. On a narrow screen, the page shows each row as a card.
type Table struct {
	Title, Note, Foot string
	Heads             []string
	Rows              [][]any
	Ours              bool // the first row is the result of gpuscaler and is highlighted
}

type (
	// Good is a value that a page shows in the color of a good result.
	Good string
	// Bad is a value that a page shows in the color of a bad result.
	Bad string
)

// Cell is a value of a table with the name of its column. Mark is "good", "bad" or empty.
type Cell struct{ Name, Class, Mark, Text string }

// Label returns the name of the table for screen readers: the title, or the names of the first three columns if there is no title.
func (t Table) Label() string {
	if t.Title != "" {
		return t.Title
	}
	var names []string
	for _, c := range t.Columns()[:min(3, len(t.Heads))] {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// Columns returns the column names as cells without a value.
func (t Table) Columns() []Cell {
	out := make([]Cell, len(t.Heads))
	for i, head := range t.Heads {
		var text bool
		if out[i].Name, text = strings.CutPrefix(head, "-"); text {
			out[i].Class = "text"
		}
	}
	return out
}

// Cells returns the rows of the table. Each cell contains the name of its column. Mark is set if the value is Good or Bad.
func (t Table) Cells() [][]Cell {
	out := make([][]Cell, len(t.Rows))
	for i, row := range t.Rows {
		out[i] = t.Columns()
		for k, v := range row {
			out[i][k].Text = fmt.Sprint(v)
			switch v.(type) {
			case Good:
				out[i][k].Mark = "good"
			case Bad:
				out[i][k].Mark = "bad"
			}
		}
	}
	return out
}

// String formats the table for a terminal, without control characters. It returns "" if the table has no rows.
func (t Table) String() string {
	if len(t.Rows) == 0 {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, c := range t.Columns() {
		fmt.Fprint(w, strings.ToUpper(c.Name)+"\t")
	}
	for _, row := range t.Cells() {
		fmt.Fprintln(w)
		for _, c := range row {
			fmt.Fprint(w, Clean(c.Text)+"\t")
		}
	}
	w.Flush()
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ") + "\n"
	}
	return strings.Join(lines, "")
}

// Clean replaces each control character of a text with a question mark, so that the text cannot control a terminal.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
