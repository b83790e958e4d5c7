package input

import (
	"errors"
	"strings"
	"testing"
)

func TestRowsReportTheLineOfAnError(t *testing.T) {
	r := NewRows(Place{File: "x.csv"}, strings.NewReader("a,b\n# a comment\n\"1\n2\",3\n\"never closed\n"), ',')
	for _, want := range []struct {
		first string
		line  int
	}{{"a", 1}, {"1\n2", 3}} {
		row, err := r.Next()
		if err != nil || row[0] != want.first || r.Line != want.line {
			t.Fatalf("row %q at line %d, error %v; want %q at line %d", row, r.Line, err, want.first, want.line)
		}
	}
	if _, err := r.Next(); err == nil || err.Line != 5 || err.File != "x.csv" {
		t.Errorf("error %v, want one at x.csv:5", err)
	}
}

func TestLongRowIsRejected(t *testing.T) {
	_, err := NewRows(Place{}, strings.NewReader("\""+strings.Repeat("x", 2*MaxRecord)), ',').Next()
	if !errors.Is(err, ErrLongRecord) {
		t.Errorf("error %v, want %v", err, ErrLongRecord)
	}
}

func TestDigits(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "007": 7, "9223372036854775799": 9223372036854775799} {
		if n, ok := Digits(s); !ok || n != want {
			t.Errorf("%q is %d, %v; want %d", s, n, ok, want)
		}
	}
	for _, s := range []string{"", "-1", "+1", "1.0", "9223372036854775808", "00000000000000000001"} {
		if n, ok := Digits(s); ok {
			t.Errorf("%q is %d, want no number", s, n)
		}
	}
}
