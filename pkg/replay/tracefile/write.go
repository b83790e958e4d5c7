package tracefile

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// mark begins the first line that WriteCSV writes. That line contains the start and the duration of the trace, which the rows do not
// contain.
const mark = "# gpuscaler.io/trace "

// WriteCSV writes the trace as a request log that Open reads back: seconds from the start with nine digits, known token
// counts and known service times.
func WriteCSV(w io.Writer, t *trace.Trace) error {
	out := bufio.NewWriterSize(w, input.PeekSize)
	start := "none"
	if !t.Start.IsZero() {
		start = t.Start.UTC().Format(time.RFC3339Nano)
	}
	// Write errors are not checked here, because a bufio.Writer returns its first error from Flush.
	fmt.Fprintf(out, "%sstart=%s duration=%s\ntimestamp_s,input_tokens,output_tokens,status", mark, start, t.Duration)
	services := hasServiceTimes(t)
	if services {
		fmt.Fprint(out, ",service_seconds")
	}
	fmt.Fprintln(out)
	var line []byte
	for r := range t.All() {
		line = appendSeconds(line[:0], r.At)
		line = appendTokens(append(line, ','), r.InputTokens)
		line = appendTokens(append(line, ','), r.OutputTokens)
		line = append(line, ',')
		if r.Failed {
			line = append(line, "failed"...)
		}
		if services {
			line = append(line, ',')
			if r.Service > 0 {
				line = appendSeconds(line, r.Service)
			}
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}

// hasServiceTimes reports whether a log has a request with a known service time.
func hasServiceTimes(t *trace.Trace) bool {
	if t.Kind != trace.Log {
		return false
	}
	for r := range t.All() {
		if r.Service > 0 {
			return true
		}
	}
	return false
}

func appendSeconds(line []byte, at time.Duration) []byte {
	line = strconv.AppendInt(line, int64(at/time.Second), 10)
	line = append(line, '.')
	digits := strconv.FormatInt(int64(at%time.Second), 10)
	line = append(line, strings.Repeat("0", 9-len(digits))...)
	return append(line, digits...)
}

func appendTokens(line []byte, n int) []byte {
	if n == trace.UnknownTokens {
		return line
	}
	return strconv.AppendInt(line, int64(n), 10)
}

// readMark reads the start and the duration from the first line of a file that WriteCSV wrote. It returns the start. If o.Duration is
// shorter than that duration, readMark sets o.Duration to it. For a file without such a line, readMark returns the zero time and does not
// change o.
func readMark(p input.Place, head []byte, o *Options) (time.Time, *trace.Error) {
	line, _, _ := strings.Cut(string(head[:min(len(head), 200)]), "\n")
	rest, marked := strings.CutPrefix(strings.TrimSpace(line), mark)
	if !marked {
		return time.Time{}, nil
	}
	p.Line = 1
	var start, length string
	if _, err := fmt.Sscanf(rest, "start=%s duration=%s", &start, &length); err != nil {
		return time.Time{}, p.Failed(err, mark+"start=none|RFC3339 duration=1h2m3s")
	}
	d, err := time.ParseDuration(length)
	if err != nil || d < 0 || d > trace.MaxDuration {
		return time.Time{}, p.Refuse("duration "+input.Quote(length), "0 to 400 days, as 1h2m3s")
	}
	o.Duration = max(o.Duration, d)
	if start == "none" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, start)
	if err != nil || !timestamp.InRange(at.Unix()) {
		return time.Time{}, p.Refuse("start "+input.Quote(start), "none, or RFC 3339, 1970 to 2200")
	}
	return at, nil
}
