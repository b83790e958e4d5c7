// Package readable formats numbers, durations and lists of facts for a terminal.
package readable

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Number formats a number without an exponent. Whole numbers and numbers from 100 have no decimals, numbers from 1 have one decimal, and
// smaller numbers have three significant digits.
func Number(x float64) string {
	switch {
	case x == math.Trunc(x) || math.Abs(x) >= 100:
		return Count(int(math.Round(x)))
	case math.Abs(x) >= 1:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// Count formats 1383669 as 1,383,669.
func Count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Duration formats a duration in its two largest units: 14d, 3h20m, 58m22s, 4.3s, 250ms.
func Duration(d time.Duration) string {
	if d >= time.Hour {
		d = d.Round(time.Minute)
	}
	switch {
	case d >= day:
		if d%day != 0 {
			return fmt.Sprintf("%dd%s", d/day, Duration(d%day))
		}
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Minute && d < time.Hour:
		d = d.Round(time.Second)
	case d >= time.Second && d < time.Minute:
		d = d.Round(time.Second / 10)
	}
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Since returns ", from " and the time, or "" for the zero time.
func Since(start time.Time) string {
	if start.IsZero() {
		return ""
	}
	return ", from " + start.Format("2006-01-02 15:04:05 MST")
}

// Lines writes lines that begin with a label, and keeps the first write error. If a line has the same label as the line before, the label
// is left empty.
type Lines struct {
	W     io.Writer
	label string
	err   error
}

// Add writes one line. The arguments are formatted as by fmt.Sprintf.
func (t *Lines) Add(label, format string, args ...any) {
	shown := label
	if label == t.label {
		shown = ""
	}
	t.label = cmp.Or(label, t.label)
	_, err := fmt.Fprintf(t.W, "%-9s %s\n", shown, fmt.Sprintf(format, args...))
	if t.err == nil {
		t.err = err
	}
}

// Err returns the first write error.
func (t *Lines) Err() error { return t.err }
