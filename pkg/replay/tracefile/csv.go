package tracefile

import (
	"bufio"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// table is a CSV file with its layout.
type table struct {
	*input.Rows
	layout
	header []string // names of the columns; nil if the file has no header
	first  []string // the first record, if it is not a header
}

// openTable reads the first record and determines the columns. The first record is a header unless its time column contains a timestamp. If
// the file has no header, the columns in `positions` are used.
func openTable(p input.Place, in *bufio.Reader, o Options, positions Columns) (*table, *trace.Error) {
	head, _ := in.Peek(input.PeekSize) // a read error occurs again when the row is read
	t := &table{Rows: input.NewRows(p, in, input.Delimiter(input.FirstLine(head)))}
	row, err := t.Next()
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, p.Refuse("an empty file", "at least one request or window")
	}
	first := slices.Clone(row)
	if isData(first, o) {
		t.first, o.Columns = first, o.Columns.over(positions.within(len(first)))
	} else {
		t.header = first
	}
	if t.layout, err = resolve(t.Place, t.header, o); err != nil {
		return nil, err
	}
	if t.at[roleTime] == absent {
		return nil, t.Refuse("no column of timestamps among "+listed(first), "one named like timestamp, time, ts or start; or say which "+
			"(columns.time)")
	}
	return t, nil
}

// isData reports whether the record is data and not a header.
func isData(row []string, o Options) bool {
	at := 0
	if n, err := strconv.Atoi(strings.TrimPrefix(o.Columns.Time, "#")); err == nil && n >= 1 {
		at = n - 1
	}
	if at >= len(row) {
		return false
	}
	c := timestamp.Parser{Unit: o.TimeUnit, Layout: o.TimeLayout, Location: o.Location}
	_, allowed := c.Parse(row[at])
	return allowed == ""
}

// each calls f for every data row. It skips repeated headers and counts them. It returns an error for a row with too few columns.
func (t *table) each(f func(p input.Place, row []string) *trace.Error, counts *logCounts) *trace.Error {
	row, err := t.first, (*trace.Error)(nil)
	if row == nil {
		row, err = t.Next()
	}
	for ; row != nil && err == nil; row, err = t.Next() {
		switch {
		case len(row) < t.width:
			return t.Refuse(strconv.Itoa(len(row))+" columns: "+input.Quote(strings.Join(row, ",")),
				"at least "+strconv.Itoa(t.width)+" columns, as the first row has")
		case t.header != nil && slices.Equal(row, t.header):
			counts.headers++ // a repeated header: several files were concatenated
		default:
			err = f(t.Place, row)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// timeUnit returns the time unit in the options. If the options have none, it returns the unit in the header of the time column.
func (t *table) timeUnit(o Options) timestamp.Unit {
	if o.TimeUnit == timestamp.Auto && t.header != nil {
		return unitByName(t.header[t.at[roleTime]])
	}
	return o.TimeUnit
}

// readCSV reads a request log. Without a header the first column is the time, and other columns are used only if they are named by
// position.
func readCSV(p input.Place, in *bufio.Reader, o Options, t *contents) *trace.Error {
	head, _ := in.Peek(200)
	head = slices.Clone(head)
	table, err := openTable(p, in, o, Columns{Time: "#1"})
	if err != nil {
		return err
	}
	o.TimeUnit = table.timeUnit(o)
	if t.Start, err = readMark(p, head, &o); err != nil {
		return err
	}
	b := newLogBuilder(o)
	add := func(p input.Place, row []string) *trace.Error { return b.add(p, &table.layout, row) }
	if err := table.each(add, &b.seen); err != nil {
		return err
	}
	t.Columns, t.Notes = table.said, append(t.Notes, table.notes...)
	return b.finish(p, t)
}
