package exposition

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Accept is the value of the Accept header in requests for a /metrics page.
const Accept = "text/plain;version=0.0.4"

// Limits contains the limits of the lines that Parse keeps. The caller must limit the size of the whole page.
type Limits struct {
	Line   int // maximum bytes of one line
	Series int // maximum number of series that are kept
	Kept   int // maximum bytes of all lines that are kept
}

// DefaultLimits permit more than any engine serves. Seven latencies with 25 buckets each, for a few models, are 1,000 series of 200 bytes
// each. The GPUs of a host in MIG mode are 500 series of 600 bytes. A parsed page needs about ten times its size in memory.
var DefaultLimits = Limits{Line: 64 << 10, Series: 4000, Kept: 1 << 20}

var (
	// ErrTruncated is returned for a page that exceeds a limit or ends within a line.
	ErrTruncated = errors.New("exposition truncated")
	// ErrFormat is returned for a page that is not in the Prometheus text format.
	ErrFormat = errors.New("not an exposition")
)

// Parse reads a page in the Prometheus text format. It calls the function each for every sample whose name is a key of the map series. For
// histograms and summaries, the map must contain the names with suffix (_bucket, _sum, _count). Lines of other metrics are dropped before
// parsing, so that a page of several megabytes needs little CPU time, and an unusual line of another metric is not an error.
//
// If a sample on the page has no timestamp, the parameter at is used as its time. If the timestamp is before 1970 or after the year 9999,
// the time of the sample is the zero time.
func Parse(r io.Reader, series map[string]bool, l Limits, at time.Time, each func(*Sample)) error {
	kept, err := filter(r, series, l)
	if err != nil {
		return err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(kept))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			flatten(name, f.GetType(), m, at, each)
		}
	}
	return nil
}

// filter returns the lines of the given series, and one TYPE line for each of their metric families.
func filter(r io.Reader, series map[string]bool, l Limits) ([]byte, error) {
	var kept bytes.Buffer
	typed := map[string]bool{}
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 4096), l.Line)
	in.Split(wholeLines)
	n := 0
	for in.Scan() {
		line := bytes.TrimLeft(in.Bytes(), " \t")
		if len(line) == 0 || line[0] == '{' { // "{" begins a line with a quoted UTF-8 name, which no supported engine uses
			continue
		}
		if line[0] == '#' {
			if name := typeLine(line); name != "" && !typed[name] && isFamily(name, series) {
				typed[name] = true // skips a second TYPE line, which multi-process servers write and which the parser rejects
				kept.Write(line)
				kept.WriteByte('\n')
			}
			continue
		}
		name := metricName(line)
		if name == "" {
			return nil, fmt.Errorf("%w: line %.40q", ErrFormat, line)
		}
		if !series[name] {
			continue
		}
		if n++; n > l.Series || kept.Len()+len(line) > l.Kept {
			return nil, fmt.Errorf("%w: more than %d series or %d bytes", ErrTruncated, l.Series, l.Kept)
		}
		kept.Write(line)
		kept.WriteByte('\n')
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrTruncated, l.Line)
	}
	return kept.Bytes(), in.Err()
}

// wholeLines splits the input into lines like bufio.ScanLines, but returns an error if the last line does not end with a line feed. The
// format requires a line feed, so a page without it was truncated.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, bytes.TrimRight(data[:i], "\r"), nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, fmt.Errorf("%w: within a line", ErrTruncated)
	}
	return 0, nil, nil
}

// typeLine returns the metric name in a TYPE line, and "" for any other comment line.
func typeLine(line []byte) string {
	fields := bytes.Fields(line)
	if len(fields) != 4 || string(fields[0]) != "#" || string(fields[1]) != "TYPE" {
		return ""
	}
	return string(fields[2])
}

// isFamily reports whether the map series contains a series of the metric family with the given name.
func isFamily(name string, series map[string]bool) bool {
	return series[name] || series[name+"_bucket"] || series[name+"_sum"] || series[name+"_count"]
}

// metricName returns the metric name at the start of a sample line, or "" if the line does not start with a valid name.
func metricName(line []byte) string {
	n := 0
	for n < len(line) && isNameByte(line[n], n) {
		n++
	}
	if n == len(line) || n == 0 || (line[n] != '{' && line[n] != ' ' && line[n] != '\t') {
		return ""
	}
	return string(line[:n])
}

func isNameByte(b byte, at int) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_' || b == ':' || (at > 0 && b >= '0' && b <= '9')
}

// flatten calls the function each with every sample of a metric: one sample for a gauge or counter, and several for a histogram or summary.
func flatten(name string, kind dto.MetricType, m *dto.Metric, at time.Time, each func(*Sample)) {
	s := Sample{At: at}
	if m.TimestampMs != nil {
		s.At = stamp(m.GetTimestampMs())
	}
	for _, l := range m.GetLabel() {
		s.Labels = append(s.Labels, Label{l.GetName(), l.GetValue()})
	}
	put := func(suffix string, v float64) {
		s.Name, s.Value = name+suffix, v
		each(&s)
	}
	switch kind {
	case dto.MetricType_COUNTER:
		put("", m.GetCounter().GetValue())
	case dto.MetricType_GAUGE:
		put("", m.GetGauge().GetValue())
	case dto.MetricType_UNTYPED:
		put("", m.GetUntyped().GetValue())
	case dto.MetricType_SUMMARY:
		put("_sum", m.GetSummary().GetSampleSum())
		put("_count", float64(m.GetSummary().GetSampleCount()))
	case dto.MetricType_HISTOGRAM:
		h := m.GetHistogram()
		put("_sum", h.GetSampleSum())
		put("_count", floatOr(h.GetSampleCountFloat(), h.GetSampleCount()))
		base := s.Labels
		for _, b := range h.GetBucket() {
			s.Labels = append(base[:len(base):len(base)], Label{"le", formatBound(b.GetUpperBound())})
			put("_bucket", floatOr(b.GetCumulativeCountFloat(), b.GetCumulativeCount()))
		}
	}
}

// year10000 is the start of the year 10000 in Unix milliseconds. Ticks are recorded as JSON, and Go cannot encode this time or a later time
// as JSON. Therefore such a timestamp is not usable.
const year10000 = 253_402_300_800_000

// stamp converts a timestamp in Unix milliseconds to a time. For an unusable timestamp it returns the zero time, for which Cell and GPUs
// return the quality Untimed.
func stamp(ms int64) time.Time {
	if ms <= 0 || ms >= year10000 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC() // in a time zone east of UTC, the last hours of 9999 would be in the year 10000
}

func floatOr(f float64, n uint64) float64 {
	if f > 0 {
		return f
	}
	return float64(n)
}

func formatBound(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// SeriesNames returns the names of all series that the given metrics use, including the gauges in Metric.Busy.
func (p *Profile) SeriesNames(metrics ...string) map[string]bool {
	out := map[string]bool{}
	for _, name := range metrics {
		m, ok := p.Lookup(name)
		if !ok {
			continue
		}
		for i := range m.From {
			m.From[i].names(m.Shape, out)
		}
		for _, busy := range m.Busy {
			if b, ok := p.Lookup(busy); ok {
				for i := range b.From {
					b.From[i].names(b.Shape, out)
				}
			}
		}
	}
	return out
}

func (f *Series) names(shape Shape, out map[string]bool) {
	switch shape {
	case Gauge:
		out[f.Name] = true
	case Quotient:
		out[f.Name], out[f.Per] = true, true
	case Histogrammed:
		for _, suffix := range [...]string{"_bucket", "_sum", "_count"} {
			out[f.Name+suffix] = true
		}
	}
}
