package promapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
)

// Series is one element of the result of a query. Decode uses the same Series for the next element, so the caller must not keep a reference
// to it. The caller may keep the strings in it.
type Series struct {
	Labels exposition.Labels // includes __name__ if the server sent it
	Value  float64           // value of an element of a vector, or newest value of an element of a matrix
	At     time.Time         // evaluation time of a vector, or newest sample of a matrix, by gpuscaler's clock; zero if unusable
	Timing fetch.Timing      // converts a Value that is a sample time, such as the result of timestamp(); At needs no conversion
	Valid  bool              // false if the element has no number, because it is a native histogram
}

// Decode reads one response of /api/v1/query, and calls the function each for every series in it. It returns an error for every malformed,
// oversized or partial response.
func Decode(r io.Reader, l Limits, each func(*Series) error) error {
	d := &decoder{json: json.NewDecoder(r), limits: l, each: each, names: internedNames{}}
	err := d.answer()
	if err == nil {
		// A proxy may have added the bytes after the JSON document, or they are from a second response. In both cases the document cannot be
		// trusted.
		if _, e := d.json.Token(); e != io.EOF {
			err = formatErrorf("bytes after the end of the answer")
		}
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, fetch.ErrTruncated):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fetch.ErrIncomplete
	case errors.As(err, &syntax), errors.As(err, &kind):
		return formatErrorf("not the JSON of a query's answer: %v", err)
	}
	return err
}

// ErrSeries is returned for a response with more series than Limits.Series. It wraps fetch.ErrTruncated.
var ErrSeries = fmt.Errorf("%w: too many series", fetch.ErrTruncated)

// FormatError is returned for a response that is not the JSON of a Prometheus server, for example the login page of a proxy.
type FormatError struct{ text string }

func (e *FormatError) Error() string { return e.text }

func formatErrorf(format string, args ...any) error {
	return &FormatError{text: fmt.Sprintf(format, args...)}
}

type decoder struct {
	json   *json.Decoder
	limits Limits
	each   func(*Series) error
	series Series
	raw    element
	names  internedNames
	count  int
}

func (d *decoder) answer() error {
	var status string
	var partial, answered bool
	var failure APIError
	var warnings []string
	if err := d.object(func(key string) error {
		switch key {
		case "status":
			return d.json.Decode(&status)
		case "errorType":
			return d.json.Decode(&failure.Type)
		case "error":
			return d.json.Decode(&failure.Message)
		case "isPartial": // VictoriaMetrics sets this field
			return d.json.Decode(&partial)
		case "warnings":
			return d.json.Decode(&warnings)
		case "data":
			answered = true
			return d.data()
		}
		return d.skip()
	}); err != nil {
		return err
	}
	switch {
	case status == "error":
		return &failure
	case status != "success":
		return formatErrorf("the answer has status %q, want success or error", status)
	case partial:
		return fetch.ErrIncomplete
	case !answered:
		return formatErrorf("the answer has no data")
	}
	return lacking(warnings)
}

// lacking returns an error if a warning shows that the response is incomplete. If a remote storage failed or a limit applied, Prometheus
// returns the status 200 with a warning and only some of the series. Warnings about the query itself, which begin with "PromQL", do not
// cause an error.
func lacking(warnings []string) error {
	for _, w := range warnings {
		if !strings.HasPrefix(w, "PromQL ") && !strings.HasSuffix(w, " annotations omitted") {
			cut := fetch.ErrIncomplete
			if strings.HasPrefix(w, "results truncated due to limit") {
				cut = ErrSeries
			}
			return fmt.Errorf("%w: %s", cut, w[:min(len(w), 200)])
		}
	}
	return nil
}

func (d *decoder) data() error {
	kind, seen := "", false
	err := d.object(func(key string) error {
		switch key {
		case "resultType":
			return d.json.Decode(&kind)
		case "result":
			seen = true
			// A "scalar" or "string" result has no labels, so it cannot be assigned to a workload.
			if kind == "scalar" || kind == "string" {
				return formatErrorf("result is a %s, which matches no workload", kind)
			}
			return d.result()
		}
		return d.skip()
	})
	if err == nil && !seen {
		return formatErrorf("the answer has no result")
	}
	return err
}

func (d *decoder) result() error {
	if err := d.expect('['); err != nil {
		return err
	}
	for d.json.More() {
		if d.count++; d.count > d.limits.Series {
			return fmt.Errorf("%w: more than %d", ErrSeries, d.limits.Series)
		}
		d.raw.reset()
		if err := d.json.Decode(&d.raw); err != nil {
			return err
		}
		if err := d.raw.into(&d.series, d.limits.Labels, d.names); err != nil {
			return err
		}
		if err := d.each(&d.series); err != nil {
			return err
		}
	}
	return d.expect(']')
}

// object reads the next JSON value, which must be an object or null. It calls the function member with the key of each member of the
// object. The function member must read the value of the member from the decoder.
func (d *decoder) object(member func(key string) error) error {
	t, err := d.json.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('{') {
		return formatErrorf("the answer has %v, want an object", t)
	}
	for d.json.More() {
		key, err := d.json.Token()
		if err != nil {
			return err
		}
		if err := member(key.(string)); err != nil { // the decoder has already checked that the key is a string
			return err
		}
	}
	return d.expect('}')
}

func (d *decoder) expect(want json.Delim) error {
	t, err := d.json.Token()
	if err != nil {
		return err
	}
	if t != want {
		return formatErrorf("the answer has %v, want %q", t, rune(want))
	}
	return nil
}

func (d *decoder) skip() error {
	var ignored json.RawMessage
	return d.json.Decode(&ignored)
}

// element is one series in the JSON form that the server sends.
type element struct {
	Metric json.RawMessage `json:"metric"`
	Value  json.RawMessage `json:"value"`
	Values json.RawMessage `json:"values"`
}

func (e *element) reset() {
	e.Metric, e.Value, e.Values = e.Metric[:0], e.Value[:0], e.Values[:0]
}

func (e *element) into(s *Series, maxLabels int, names internedNames) error {
	if len(e.Metric) > maxLabels {
		return fmt.Errorf("%w: labels of %d bytes", fetch.ErrTruncated, len(e.Metric))
	}
	var err error
	if s.Labels, err = parseLabels(e.Metric, s.Labels[:0], names); err != nil {
		return err
	}
	point := e.Value
	if len(e.Values) > 0 {
		// Use only the last sample, which is the newest. The result has several samples because the query is a range selector, such as
		// metric[5m]. Only the result of a range selector contains the time at which each sample was scraped.
		if i := bytes.LastIndexByte(e.Values, '['); i > 0 {
			point = bytes.TrimRight(e.Values[i:], " \t\r\n")
			point = point[:len(point)-1]
		}
	}
	s.Valid = len(point) > 0
	if !s.Valid {
		s.Value, s.At = math.NaN(), time.Time{}
		return nil
	}
	s.At, s.Value, err = parsePoint(point)
	return err
}

// parsePoint reads a sample in the form [seconds, "value"].
func parsePoint(b []byte) (time.Time, float64, error) {
	b = bytes.TrimSpace(b)
	comma := bytes.IndexByte(b, ',')
	if len(b) < 2 || b[0] != '[' || b[len(b)-1] != ']' || comma < 0 {
		return time.Time{}, 0, formatErrorf("sample %q is not [time, \"value\"]", clip(b))
	}
	seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(b[1:comma])), 64)
	// A time after the year 2242 is invalid, because its conversion to nanoseconds could overflow.
	if err != nil || !(seconds >= 0 && seconds < 1<<33) {
		return time.Time{}, 0, formatErrorf("sample time %q is not a number of seconds", clip(b))
	}
	text := bytes.TrimSpace(b[comma+1 : len(b)-1])
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return time.Time{}, 0, formatErrorf("sample value %q is no string", clip(text))
	}
	v, err := strconv.ParseFloat(string(text[1:len(text)-1]), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return time.Time{}, 0, formatErrorf("sample value %q is not a number", clip(text))
	}
	return time.UnixMilli(int64(math.Round(seconds * 1000))), v, nil
}

func clip(b []byte) string { return string(b[:min(len(b), 40)]) }
