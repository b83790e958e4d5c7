package input

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// MaxRecord is the maximum length of a row, which can contain a whole prompt.
const MaxRecord = 1 << 20

// Rows reads CSV records one at a time and counts their lines.
type Rows struct {
	Place
	budget *budget
	csv    *csv.Reader
}

// NewRows returns a reader of the CSV records of the input in. The parameter comma is the delimiter of the columns. Lines that begin with #
// are comments.
func NewRows(p Place, in io.Reader, comma rune) *Rows {
	b := &budget{r: in, left: MaxRecord}
	c := csv.NewReader(b)
	c.ReuseRecord, c.FieldsPerRecord, c.TrimLeadingSpace = true, -1, true
	c.Comma, c.Comment = comma, '#'
	return &Rows{Place: p, budget: b, csv: c}
}

// Next returns the next record, or nil at the end. The record is valid until the next call.
func (r *Rows) Next() ([]string, *trace.Error) {
	row, err := r.csv.Read()
	r.budget.refill()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			r.Line = parse.Line
			err = parse.Err
		} else {
			r.Line++ // the line at which the error occurred
		}
		return nil, r.Failed(err, "CSV (RFC 4180), rows of at most 1 MiB, a whole file")
	}
	r.Line, _ = r.csv.FieldPos(0)
	return row, nil
}

// Delimiter returns the delimiter of the columns: a comma if the line contains one, otherwise a tab if it contains one, otherwise a
// semicolon if it contains one, and otherwise a comma.
func Delimiter(line []byte) rune {
	for _, c := range ",\t;" {
		if bytes.ContainsRune(line, c) {
			return c
		}
	}
	return ','
}

// FirstRecord returns the first CSV record in head, which is the beginning of a file.
func FirstRecord(p Place, head []byte) ([]string, *trace.Error) {
	r := NewRows(p, bytes.NewReader(head), Delimiter(FirstLine(head)))
	row, err := r.Next()
	if err == nil && row == nil {
		return nil, p.Refuse("only comments", "at least one request or window")
	}
	return slices.Clone(row), err
}

// FirstLine returns the first line that is neither empty nor a comment.
func FirstLine(head []byte) []byte {
	for line := range bytes.Lines(head) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return line
		}
	}
	return nil
}

// budget limits the length of a record. Without it, a quotation mark that is never closed would read the whole file into memory.
type budget struct {
	r    io.Reader
	left int
}

// ErrLongRecord is the error of a row with more than MaxRecord bytes.
var ErrLongRecord = fmt.Errorf("a row longer than %d bytes (a quote that is never closed?)", MaxRecord)

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrLongRecord
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (b *budget) refill() { b.left = MaxRecord }
