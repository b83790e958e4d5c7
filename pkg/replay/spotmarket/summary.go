package spotmarket

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/readable"
)

// Summary contains statistics of a spot trace.
type Summary struct {
	Name       string        `json:"name"`
	Start      time.Time     `json:"start,omitzero"`
	Duration   time.Duration `json:"durationNanos"`
	Added      int           `json:"added"`        // nodes added after the start
	Lost       int           `json:"lost"`         // nodes lost
	Drops      int           `json:"drops"`        // events with lost nodes
	LargestOne int           `json:"largestDrop"`  // greatest number of nodes lost in one event
	Min        int           `json:"min"`          // minimum number of available nodes
	Max        int           `json:"max"`          // maximum number of available nodes
	Mean       float64       `json:"mean"`         // mean number of available nodes over time
	None       time.Duration `json:"noneForNanos"` // time without a node
	Lifetimes  []Lifetime    `json:"lifetimes,omitempty"`
	Notes      []string      `json:"notes,omitempty"`
}

// Lifetime is a quantile of the lifetimes of the lost nodes.
type Lifetime struct {
	Quantile float64       `json:"quantile"`
	Duration time.Duration `json:"nanos"`
}

// Summarize returns the summary of a spot trace.
func (s *Trace) Summarize() Summary {
	sum := Summary{Name: s.Name, Start: s.Start, Duration: s.Duration, Min: s.Initial, Max: s.Initial, Notes: s.Notes}
	area, now, n := 0.0, time.Duration(0), s.Initial
	hold := func(until time.Duration) {
		area += float64(n) * (until - now).Seconds()
		if n == 0 {
			sum.None += until - now
		}
		now = until
	}
	for i, e := range s.Events {
		if i == 0 && e.At == 0 {
			sum.Min, sum.Max = e.Available, e.Available
		}
		hold(e.At)
		n = e.Available
		sum.Added += e.Added
		sum.Lost += e.Lost
		sum.LargestOne = max(sum.LargestOne, e.Lost)
		sum.Min, sum.Max = min(sum.Min, n), max(sum.Max, n)
		if e.Lost > 0 {
			sum.Drops++
		}
	}
	hold(s.Duration)
	if s.Duration > 0 {
		sum.Mean = area / s.Duration.Seconds()
	}
	sum.Lifetimes = s.lifetimes()
	return sum
}

func (s *Trace) lifetimes() []Lifetime {
	added := map[string]time.Duration{}
	var lifetimes []time.Duration
	for _, e := range s.Events {
		for _, id := range e.LostIDs {
			if b, ok := added[id]; ok { // a node without an entry in added was added and lost at the same time, so its lifetime is not counted
				lifetimes = append(lifetimes, e.At-b)
				delete(added, id)
			}
		}
		for _, id := range e.AddedIDs {
			added[id] = e.At
		}
	}
	if len(lifetimes) == 0 {
		return nil
	}
	slices.Sort(lifetimes)
	var out []Lifetime
	for _, q := range []float64{0.1, 0.5, 0.9} {
		out = append(out, Lifetime{Quantile: q, Duration: lifetimes[int(q*float64(len(lifetimes)))]})
	}
	return out
}

// WriteText writes the summary of a spot trace for a terminal.
func (s Summary) WriteText(w io.Writer) error {
	t := &readable.Lines{W: w}
	t.Add("spot", "%s: %s%s", s.Name, readable.Duration(s.Duration), readable.Since(s.Start))
	t.Add("nodes", "min %d  mean %.1f  max %d; none for %s", s.Min, s.Mean, s.Max, readable.Duration(s.None))
	t.Add("changes", "%d added, %d lost in %d drops, up to %d at once", s.Added, s.Lost, s.Drops, s.LargestOne)
	if len(s.Lifetimes) > 0 {
		var parts []string
		for _, l := range s.Lifetimes {
			parts = append(parts, fmt.Sprintf("p%.0f %s", 100*l.Quantile, readable.Duration(l.Duration)))
		}
		t.Add("lifetime", "%s, of the nodes that were lost", strings.Join(parts, "  "))
	}
	for _, n := range s.Notes {
		t.Add("note", "%s", n)
	}
	return t.Err()
}
