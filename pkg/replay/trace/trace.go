package trace

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"time"
)

// UnknownTokens is the token count of a request for which the trace has no token count.
const UnknownTokens = -1

// Request is one arrival.
type Request struct {
	At           time.Duration // time since the start of the trace, not negative
	InputTokens  int           // prompt tokens, or UnknownTokens
	OutputTokens int           // number of generated tokens, or UnknownTokens; 0 for example for a failed request or an embedding
	Failed       bool          // the request failed according to the log; it still counts as load
	Service      time.Duration // recorded time of the request in a replica, without waiting; 0: unknown
}

// Stream returns requests in the order of At. Requests with the same At have the same order in each stream. After the last request, Next
// returns false.
type Stream interface {
	Next() (Request, bool)
}

// Kind is the kind of a trace: a request log, windowed rates, or generated traffic.
type Kind string

// Values of Kind.
const (
	Log       Kind = "request log"    // the trace contains the time of every request
	Rates     Kind = "windowed rates" // the trace contains requests per second for each window, and arrivals are drawn at random
	Generated Kind = "generated"      // the requests are drawn from a Profile
)

// Trace is traffic that can be streamed any number of times. It is immutable and safe for concurrent use.
type Trace struct {
	Header
	Kind Kind

	log     []Request
	clients []Client
	profile *Profile
	drawing Drawing
}

// Header describes a trace apart from its requests.
type Header struct {
	Name     string        // name of the file or of the profile
	Start    time.Time     // the time at which At is 0, in UTC; zero if the file has no timestamps
	Duration time.Duration // time from the start to the last request, or to the end of the last window
	Columns  []string      // roles of the columns in the file, for example "TIMESTAMP = time"
	Notes    []string      // notes about the file
}

// Drawing contains the settings for the random arrivals and token counts of a trace of rates.
type Drawing struct {
	Seed   uint64
	Tokens *Tokens       // distributions of the token counts; nil: the counts are unknown
	From   time.Duration // time since the start of the file from which windows are used
}

const (
	// DefaultMaxRequests is the default limit of requests in memory. With 40 bytes each they need 800 MB.
	DefaultMaxRequests = 20_000_000
	// MaxDuration is the maximum length of a trace. A longer trace is rejected, because it probably has a wrong timestamp or a wrong time
	// unit.
	MaxDuration = 400 * 24 * time.Hour
	// MaxRate is the maximum number of requests per second of one client or profile. A higher rate probably has a wrong unit.
	MaxRate = 1e6
	// MaxWindows is the maximum number of windows of a trace of rates.
	MaxWindows = 20_000_000
)

// NewLog returns a trace of kind Log. The requests are in the order of At and must not be changed afterwards.
func NewLog(h Header, requests []Request) *Trace {
	return &Trace{Header: h, Kind: Log, log: requests}
}

// NewRates returns a trace of kind Rates, whose arrivals are drawn when the trace is read. Each client has at least one window. The trace
// is the part of the windows that begins at Drawing.From and has the length Header.Duration. Arrivals outside of this part are not
// returned. The clients must not be changed afterwards.
func NewRates(h Header, clients []Client, d Drawing) *Trace {
	return &Trace{Header: h, Kind: Rates, clients: clients, drawing: d}
}

// Stream returns a stream from the beginning of the trace.
func (t *Trace) Stream() Stream {
	switch t.Kind {
	case Rates:
		return newMerge(t)
	case Generated:
		return &limited{from: newGenerator(*t.profile), end: t.Duration}
	}
	return &logStream{rest: t.log}
}

// All returns an iterator over the requests of a new Stream.
func (t *Trace) All() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		s := t.Stream()
		for r, ok := s.Next(); ok; r, ok = s.Next() {
			if !yield(r) {
				return
			}
		}
	}
}

// Collect returns all requests, 40 bytes each. For a log it returns the trace's own slice, which must not be changed. For other traces,
// more than max requests are an error, because two weeks of rates can be hundreds of millions of requests. max <= 0 means
// DefaultMaxRequests.
func (t *Trace) Collect(max int) ([]Request, error) {
	if max <= 0 {
		max = DefaultMaxRequests
	}
	if t.Kind == Log {
		return t.log, nil
	}
	all := make([]Request, 0, min(t.expected(), max))
	for r := range t.All() {
		if len(all) == max {
			return nil, &Error{File: t.Name, Found: fmt.Sprintf("more than %d requests", max),
				Allowed: "fewer: take a slice (from, to), a smaller scale, or stream it"}
		}
		all = append(all, r)
	}
	return all, nil
}

// expected returns the approximate number of requests of a trace of kind Rates, and 0 for other traces.
func (t *Trace) expected() int {
	n := 0.0
	for _, w := range t.Windows() {
		n += w.Requests
	}
	return int(n) + len(t.clients)
}

// Drawn returns a trace of kind Log with the requests that Stream returns. It returns the errors of Collect.
func (t *Trace) Drawn(max int) (*Trace, error) {
	all, err := t.Collect(max)
	if err != nil {
		return nil, err
	}
	drawn := *t
	drawn.Kind, drawn.log, drawn.clients, drawn.profile = Log, all, nil, nil
	if t.Kind != Log {
		drawn.Notes = append(slices.Clone(t.Notes), fmt.Sprintf("arrivals drawn with seed %d", t.drawing.Seed))
	}
	return &drawn, nil
}

// Delayed returns a trace that begins with the given time without requests and continues with the requests of t. The trace t must be of
// kind Log, for example the result of Drawn.
func (t *Trace) Delayed(by time.Duration) *Trace {
	if by == 0 {
		return t
	}
	out := *t
	out.Duration += by
	if !t.Start.IsZero() {
		out.Start = t.Start.Add(-by)
	}
	out.log = slices.Clone(t.log)
	for i := range out.log {
		out.log[i].At += by
	}
	return &out
}

// Until returns the trace without the requests at or after end, and with the duration end. If the trace is not longer than end, it is
// returned unchanged. The trace must be of kind Log, for example the result of Drawn.
func (t *Trace) Until(end time.Duration) *Trace {
	if t.Duration <= end {
		return t
	}
	out := *t
	out.Duration = end
	n := sort.Search(len(t.log), func(i int) bool { return t.log[i].At >= end })
	if out.log = t.log[:n:n]; n < len(t.log) {
		out.Notes = append(slices.Clone(t.Notes), fmt.Sprintf("%d requests after %s are omitted", len(t.log)-n, end))
	}
	return &out
}

// Bins counts the arrivals in each interval of the given width, from the start to Duration. The last interval may be shorter. width must be
// positive.
func (t *Trace) Bins(width time.Duration) []int {
	bins := make([]int, int(t.Duration/width)+1)
	for r := range t.All() {
		bins[min(int(r.At/width), len(bins)-1)]++
	}
	if len(bins) > 1 && t.Duration%width == 0 && bins[len(bins)-1] == 0 {
		// The last bin is only for a request exactly at the end. Without such a request it is removed, so that a day has 1440 bins of a minute.
		bins = bins[:len(bins)-1]
	}
	return bins
}

type logStream struct{ rest []Request }

func (s *logStream) Next() (Request, bool) {
	if len(s.rest) == 0 {
		return Request{}, false
	}
	r := s.rest[0]
	s.rest = s.rest[1:]
	return r, true
}

// limited is a Stream that returns the requests of a generator before the time end.
type limited struct {
	from *generator
	end  time.Duration
}

func (s *limited) Next() (Request, bool) {
	r, ok := s.from.nextBefore(s.end)
	return r, ok
}
