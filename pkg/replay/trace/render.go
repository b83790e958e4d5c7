package trace

import (
	"io"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/readable"
)

// sparkWidth is the width of a chart in characters. It fits in a terminal with 80 columns.
const sparkWidth = 72

// WriteText writes the summary for a terminal.
func (s Summary) WriteText(w io.Writer) error {
	t := &lines{readable.Lines{W: w}}
	t.Add("trace", "%s: %s", s.Name, s.Kind)
	if s.Clients > 1 {
		t.Add("clients", "%s", readable.Count(s.Clients))
	}
	t.Add("requests", "%s in %s%s", readable.Count(s.Requests), readable.Duration(s.Duration), readable.Since(s.Start))
	t.Add("rate", "mean %s/s, %s req/min mean", readable.Number(s.RPM.Mean/60), readable.Number(s.RPM.Mean))
	t.Add("", "req/min min %s  p50 %s  p95 %s  max %s, over %s slots of %s", readable.Number(s.RPM.MinWhole),
		readable.Number(s.RPM.P50), readable.Number(s.RPM.P95),
		readable.Number(s.RPM.Max), readable.Count(len(s.Bins)), readable.Duration(s.Bin))
	if s.Partial > 0 && len(s.Bins) > 1 {
		t.Add("", "the last slot has only %s (%s requests), so its count is not comparable",
			readable.Duration(s.Partial), readable.Number(s.Bins[len(s.Bins)-1]))
	}
	t.Add("idle", "longest gap %s; gaps over 5m: %d, over 10m: %d (%.1f%% of the time); empty "+
		"slots: %s", readable.Duration(s.LongestGap), s.Over5m, s.Over10m,
		100*s.Over10mFrac, readable.Count(s.ZeroBins))
	t.tokens("input", s.Input, s.Requests)
	t.tokens("output", s.Output, s.Requests)
	t.service(s.Service, s.Requests)
	t.Add("profile", "%s", Sparkline(s.Bins, sparkWidth))
	for _, c := range s.Columns {
		t.Add("column", "%s", c)
	}
	for _, n := range s.Notes {
		t.Add("note", "%s", n)
	}
	return t.Err()
}

// lines writes the lines of a summary.
type lines struct{ readable.Lines }

func (t *lines) tokens(label string, s TokenSummary, requests int) {
	if s.Known == 0 {
		t.Add(label, "tokens not recorded")
		return
	}
	t.Add(label, "tokens mean %s  p50 %s  p95 %s  max %s", readable.Number(s.Mean),
		readable.Count(s.P50), readable.Count(s.P95), readable.Count(s.Max))
	if s.Known < requests {
		t.Add("", "known for %s of the requests", readable.Count(s.Known))
	}
}

// service writes the line about service times, if any are known.
func (t *lines) service(s TimeSummary, requests int) {
	if s.Known == 0 {
		return
	}
	length := func(seconds float64) string { return readable.Duration(time.Duration(seconds * float64(time.Second))) }
	t.Add("service", "mean %s  p50 %s  p95 %s  max %s", length(s.Mean), length(s.P50), length(s.P95), length(s.Max))
	if s.Known < requests {
		t.Add("", "known for %s of the requests", readable.Count(s.Known))
	}
}

// Sparkline returns a chart with at most width characters. Each character is for one bin or a few successive bins. It is a block with the
// height of their mean, or a dot if the mean is 0. The dot shows that there were no requests, while the lowest block means few requests.
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
