package trace

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mark begins the first line that WriteCSV writes. That line contains the start and the duration of the trace, which the rows do not
// contain.
const mark = "# gpuscaler.io/trace "

// WriteCSV writes the trace as a request log that Open reads back: seconds from the start with nine digits, known token
// counts and known service times.
func (t *Trace) WriteCSV(w io.Writer) error {
	out := bufio.NewWriterSize(w, peekSize)
	start := "none"
	if !t.Start.IsZero() {
		start = t.Start.UTC().Format(time.RFC3339Nano)
	}
	// Write errors are not checked here, because a bufio.Writer returns its first error from Flush.
	fmt.Fprintf(out, "%sstart=%s duration=%s\ntimestamp_s,input_tokens,output_tokens,status", mark, start, t.Duration)
	services := t.Kind == Log && slices.ContainsFunc(t.log, func(r Request) bool { return r.Service > 0 })
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

func appendSeconds(line []byte, at time.Duration) []byte {
	line = strconv.AppendInt(line, int64(at/time.Second), 10)
	line = append(line, '.')
	digits := strconv.FormatInt(int64(at%time.Second), 10)
	line = append(line, strings.Repeat("0", 9-len(digits))...)
	return append(line, digits...)
}

func appendTokens(line []byte, n int) []byte {
	if n == UnknownTokens {
		return line
	}
	return strconv.AppendInt(line, int64(n), 10)
}

// readMark reads the start and the duration from the first line that WriteCSV writes. It returns the start and raises o.Duration to the
// duration. Without that line it returns the zero time and does not change o.
func readMark(p place, head []byte, o *Options) (time.Time, *Error) {
	line, _, _ := strings.Cut(string(head[:min(len(head), 200)]), "\n")
	rest, marked := strings.CutPrefix(strings.TrimSpace(line), mark)
	if !marked {
		return time.Time{}, nil
	}
	p.line = 1
	var start, length string
	if _, err := fmt.Sscanf(rest, "start=%s duration=%s", &start, &length); err != nil {
		return time.Time{}, p.failed(err, mark+"start=none|RFC3339 duration=1h2m3s")
	}
	d, err := time.ParseDuration(length)
	if err != nil || d < 0 || d > MaxDuration {
		return time.Time{}, p.refuse("duration "+quote(length), "0 to 400 days, as 1h2m3s")
	}
	o.Duration = max(o.Duration, d)
	if start == "none" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, start)
	if err != nil || !inEpoch(at.Unix()) {
		return time.Time{}, p.refuse("start "+quote(start), "none, or RFC 3339, 1970 to 2200")
	}
	return at, nil
}
