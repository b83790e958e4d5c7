package trace

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"time"
)

// UnknownTokens stands where a trace does not say how many tokens a request had.
const UnknownTokens = -1

// Request is one arrival.
type Request struct {
	At           time.Duration // since the trace's start, never negative
	InputTokens  int           // prompt tokens; UnknownTokens where not recorded
	OutputTokens int           // generated tokens; 0 is a recorded zero: a failed request, or an embedding
	Failed       bool          // the log's status column says that it failed; it is demand all the same
}

// Stream yields requests in order of At, ties in an order that is always the
// same. After the last it answers false for ever.
type Stream interface {
	Next() (Request, bool)
}

// Kind is what a trace was made from.
type Kind string

const (
	Log       Kind = "request log"    // every request with its own time
	Rates     Kind = "windowed rates" // requests/s per window; arrivals are drawn
	Generated Kind = "generated"      // drawn from a Profile
)

// Trace is traffic that can be streamed any number of times. It does not change
// once made, and several goroutines may stream it at once.
type Trace struct {
	Name     string        // the file, or the profile
	Kind     Kind          //
	Start    time.Time     // the instant of At = 0, UTC; zero where the file names none
	Duration time.Duration // from the start to the last request, or to the end of the last window
	Columns  []string      // how columns were read, as "TIMESTAMP = time"
	Notes    []string      // what was unusual in the file, and what was made of it

	log     []Request
	clients []client
	profile *Profile
	draw    draw
}

// draw is how arrivals and missing token counts are drawn.
type draw struct {
	seed   uint64
	tokens *Tokens
	from   time.Duration // the slice of the windows that is this trace
}

// Stream starts the trace from its beginning.
func (t *Trace) Stream() Stream {
	switch t.Kind {
	case Rates:
		return newMerge(t)
	case Generated:
		return &limited{from: newGenerator(*t.profile), end: t.Duration}
	}
	return &logStream{rest: t.log}
}

// All is Stream as a range-over-func.
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

// Collect holds all requests in memory, 32 bytes each; for a log it is the
// trace's own slice, not to be changed. More than max requests are an error: a
// fortnight of rates can be hundreds of millions. max <= 0 means DefaultMaxRequests.
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

// expected is about how many requests a trace of rates holds; 0 for others.
func (t *Trace) expected() int {
	n := 0.0
	for _, w := range t.Windows() {
		n += w.Requests
	}
	return int(n) + len(t.clients)
}

// Drawn is the trace with its arrivals drawn and kept, as a log: the same
// requests that Stream yields. Errors as Collect.
func (t *Trace) Drawn(max int) (*Trace, error) {
	all, err := t.Collect(max)
	if err != nil {
		return nil, err
	}
	drawn := *t
	drawn.Kind, drawn.log, drawn.clients, drawn.profile = Log, all, nil, nil
	if t.Kind != Log {
		drawn.Notes = append(slices.Clone(t.Notes), fmt.Sprintf("arrivals drawn with seed %d", t.draw.seed))
	}
	return &drawn, nil
}

// Delayed is a drawn trace that begins so much earlier than its first request: an older start, and everything later by as much.
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

// Until is a drawn trace without what comes at or after an instant, at which it ends; one that ends before stays as it is.
func (t *Trace) Until(end time.Duration) *Trace {
	if t.Duration <= end {
		return t
	}
	out := *t
	out.Duration = end
	n := sort.Search(len(t.log), func(i int) bool { return t.log[i].At >= end })
	if out.log = t.log[:n:n]; n < len(t.log) {
		out.Notes = append(slices.Clone(t.Notes), fmt.Sprintf("%d requests after %s are left out", len(t.log)-n, end))
	}
	return &out
}

// Bins counts arrivals per slot of the given width, from the trace's start to
// its Duration; the last slot may be partial. width must be positive.
func (t *Trace) Bins(width time.Duration) []int {
	bins := make([]int, int(t.Duration/width)+1)
	for r := range t.All() {
		bins[min(int(r.At/width), len(bins)-1)]++
	}
	if len(bins) > 1 && t.Duration%width == 0 && bins[len(bins)-1] == 0 {
		bins = bins[:len(bins)-1] // a day has 1440 minutes, not 1441
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

// limited cuts an endless stream at end.
type limited struct {
	from *Generator
	end  time.Duration
}

func (s *limited) Next() (Request, bool) {
	r, ok := s.from.nextBefore(s.end)
	return r, ok
}
