package trace

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// sparkWidth is the width of a chart in characters. It fits in a terminal with 80 columns.
const sparkWidth = 72

// WriteText writes the summary for a terminal.
func (s Summary) WriteText(w io.Writer) error {
	t := &lines{w: w}
	t.line("trace", "%s: %s", s.Name, s.Kind)
	if s.Clients > 1 {
		t.line("clients", "%s", grouped(s.Clients))
	}
	t.line("requests", "%s in %s%s", grouped(s.Requests), human(s.Duration), since(s.Start))
	t.line("rate", "mean %s/s, %s req/min mean", compact(s.RPM.Mean/60), compact(s.RPM.Mean))
	t.line("", "req/min min %s  p50 %s  p95 %s  max %s, over %s slots of %s", compact(s.RPM.MinWhole), compact(s.RPM.P50), compact(s.RPM.P95),
		compact(s.RPM.Max), grouped(len(s.Bins)), human(s.Bin))
	if s.Partial > 0 && len(s.Bins) > 1 {
		t.line("", "the last slot is cut short at %s (%s requests): no low load", human(s.Partial), compact(s.Bins[len(s.Bins)-1]))
	}
	t.line("idle", "longest gap %s; gaps over 5m: %d, over 10m: %d (%.1f%% of the time); empty "+
		"slots: %s", human(s.LongestGap), s.Over5m, s.Over10m,
		100*s.Over10mFrac, grouped(s.ZeroBins))
	t.tokens("input", s.Input, s.Requests)
	t.tokens("output", s.Output, s.Requests)
	t.service(s.Service, s.Requests)
	t.line("profile", "%s", Sparkline(s.Bins, sparkWidth))
	for _, c := range s.Columns {
		t.line("column", "%s", c)
	}
	for _, n := range s.Notes {
		t.line("note", "%s", n)
	}
	return t.err
}

// WriteText writes the summary of a spot trace for a terminal.
func (s SpotSummary) WriteText(w io.Writer) error {
	t := &lines{w: w}
	t.line("spot", "%s: %s%s", s.Name, human(s.Duration), since(s.Start))
	t.line("nodes", "min %d  mean %.1f  max %d; none for %s", s.Min, s.Mean, s.Max, human(s.None))
	t.line("changes", "%d added, %d lost in %d drops, up to %d at once", s.Added, s.Lost, s.Drops, s.LargestOne)
	if len(s.Lifetimes) > 0 {
		var parts []string
		for _, l := range s.Lifetimes {
			parts = append(parts, fmt.Sprintf("p%.0f %s", 100*l.Quantile, human(l.Duration)))
		}
		t.line("lifetime", "%s, of the nodes that were lost", strings.Join(parts, "  "))
	}
	for _, n := range s.Notes {
		t.line("note", "%s", n)
	}
	return t.err
}

// lines writes lines that begin with a label, and keeps the first write error. If a line has the same label as the line before, the label
// is left empty.
type lines struct {
	w     io.Writer
	label string
	err   error
}

func (t *lines) line(label, format string, args ...any) {
	shown := label
	if label == t.label {
		shown = ""
	}
	t.label = cmp.Or(label, t.label)
	_, err := fmt.Fprintf(t.w, "%-9s %s\n", shown, fmt.Sprintf(format, args...))
	if t.err == nil {
		t.err = err
	}
}

func (t *lines) tokens(label string, s TokenSummary, requests int) {
	if s.Known == 0 {
		t.line(label, "tokens not on record")
		return
	}
	t.line(label, "tokens mean %s  p50 %s  p95 %s  max %s", compact(s.Mean), grouped(s.P50), grouped(s.P95), grouped(s.Max))
	if s.Known < requests {
		t.line("", "known for %s of the requests", grouped(s.Known))
	}
}

// service writes the line about service times, if any are known.
func (t *lines) service(s TimeSummary, requests int) {
	if s.Known == 0 {
		return
	}
	length := func(seconds float64) string { return human(time.Duration(seconds * float64(time.Second))) }
	t.line("service", "mean %s  p50 %s  p95 %s  max %s", length(s.Mean), length(s.P50), length(s.P95), length(s.Max))
	if s.Known < requests {
		t.line("", "known for %s of the requests", grouped(s.Known))
	}
}

// Sparkline returns a chart of bins as at most width characters. The height of each block is the mean of its bins. A dot is a mean of 0, so
// that no requests and few requests look different.
func Sparkline(bins []float64, width int) string {
	n := min(width, len(bins))
	means := make([]float64, n)
	top := 0.0
	for i := range means {
		part := bins[i*len(bins)/n : (i+1)*len(bins)/n]
		for _, x := range part {
			means[i] += x / float64(len(part))
		}
		top = max(top, means[i])
	}
	blocks := []rune("▁▂▃▄▅▆▇█")
	var sb strings.Builder
	for _, x := range means {
		if x == 0 {
			sb.WriteRune('·')
			continue
		}
		sb.WriteRune(blocks[min(int(x/top*8), 7)])
	}
	return sb.String()
}

// compact formats a number without an exponent. Whole numbers and numbers from 100 have no decimals, numbers from 1 have one decimal, and
// smaller numbers have three significant digits.
func compact(x float64) string {
	switch {
	case x == math.Trunc(x) || math.Abs(x) >= 100:
		return grouped(int(math.Round(x)))
	case math.Abs(x) >= 1:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// grouped formats 1383669 as 1,383,669.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// human formats a duration in its two largest units: 14d, 3h20m, 58m22s, 4.3s, 250ms.
func human(d time.Duration) string {
	if d >= time.Hour {
		d = d.Round(time.Minute)
	}
	switch {
	case d >= day:
		if d%day != 0 {
			return fmt.Sprintf("%dd%s", d/day, human(d%day))
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

func since(start time.Time) string {
	if start.IsZero() {
		return ""
	}
	return ", from " + start.Format("2006-01-02 15:04:05 MST")
}
