package trace

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// rows reads CSV records one at a time and counts their lines.
type rows struct {
	place
	budget *budget
	csv    *csv.Reader
}

func newRows(p place, in io.Reader, comma rune) *rows {
	b := &budget{r: in, left: maxRecord}
	c := csv.NewReader(b)
	c.ReuseRecord, c.FieldsPerRecord, c.TrimLeadingSpace = true, -1, true
	c.Comma, c.Comment = comma, '#'
	return &rows{place: p, budget: b, csv: c}
}

// next returns the next record, or nil at the end. The record is valid until the next call.
func (r *rows) next() ([]string, *Error) {
	row, err := r.csv.Read()
	r.budget.refill()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			r.line = parse.Line
			err = parse.Err
		} else {
			r.line++ // the line at which the error occurred
		}
		return nil, r.failed(err, "CSV (RFC 4180), rows of at most 1 MiB, a whole file")
	}
	r.line, _ = r.csv.FieldPos(0)
	return row, nil
}

// delimiter returns the delimiter of the columns: the first of comma, tab and semicolon that the line contains, or a comma.
func delimiter(line []byte) rune {
	for _, c := range ",\t;" {
		if bytes.ContainsRune(line, c) {
			return c
		}
	}
	return ','
}

// firstRecord returns the first CSV record in head, which is the beginning of a file.
func firstRecord(p place, head []byte) ([]string, *Error) {
	r := newRows(p, bytes.NewReader(head), delimiter(firstLine(head)))
	row, err := r.next()
	if err == nil && row == nil {
		return nil, p.refuse("only comments", "at least one request or window")
	}
	return slices.Clone(row), err
}

// firstLine returns the first line that is neither empty nor a comment.
func firstLine(head []byte) []byte {
	for line := range bytes.Lines(head) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return line
		}
	}
	return nil
}

// table is a CSV file with its layout.
type table struct {
	*rows
	layout
	header []string // names of the columns; nil if the file has no header
	first  []string // the first record, if it is not a header
}

// openTable reads the first record and determines the columns. The first record is a header unless its time column contains a timestamp. If
// the file has no header, positions has the default columns.
func openTable(p place, in *bufio.Reader, o Options, positions Columns) (*table, *Error) {
	head, _ := in.Peek(peekSize) // an error is returned again when its row is read
	t := &table{rows: newRows(p, in, delimiter(firstLine(head)))}
	row, err := t.next()
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, p.refuse("an empty file", "at least one request or window")
	}
	first := slices.Clone(row)
	if isData(first, o) {
		t.first, o.Columns = first, o.Columns.over(positions.within(len(first)))
	} else {
		t.header = first
	}
	if t.layout, err = resolve(t.place, t.header, o); err != nil {
		return nil, err
	}
	if t.at[roleTime] == absent {
		return nil, t.refuse("no column of timestamps among "+listed(first), "one named like timestamp, time, ts or start; or say which "+
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
	c := clock{unit: o.TimeUnit, layout: o.TimeLayout, location: o.Location}
	_, allowed := c.instant(row[at])
	return allowed == ""
}

// each calls f for every data row. It skips repeated headers and counts them. It returns an error for a row with too few columns.
func (t *table) each(f func(p place, row []string) *Error, counts *logCounts) *Error {
	row, err := t.first, (*Error)(nil)
	if row == nil {
		row, err = t.next()
	}
	for ; row != nil && err == nil; row, err = t.next() {
		switch {
		case len(row) < t.width:
			return t.refuse(strconv.Itoa(len(row))+" columns: "+quote(strings.Join(row, ",")), "at least "+strconv.Itoa(t.width)+" columns, as "+
				"the first row has")
		case t.header != nil && slices.Equal(row, t.header):
			counts.headers++ // a repeated header: several files were concatenated
		default:
			err = f(t.place, row)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// timeUnit returns the time unit in the options. If the options have none, it returns the unit in the header of the time column.
func (t *table) timeUnit(o Options) TimeUnit {
	if o.TimeUnit == AutoUnit && t.header != nil {
		return unitByName(t.header[t.at[roleTime]])
	}
	return o.TimeUnit
}

// readCSV reads a request log. Without a header the first column is the time, and other columns are used only if they are named by
// position.
func readCSV(p place, in *bufio.Reader, o Options, t *Trace) *Error {
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
	add := func(p place, row []string) *Error { return b.add(p, &table.layout, row) }
	if err := table.each(add, &b.seen); err != nil {
		return err
	}
	t.Columns, t.Notes = table.said, append(t.Notes, table.notes...)
	return b.finish(p, t)
}
