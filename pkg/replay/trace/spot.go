package trace

import (
	"cmp"
	"slices"
	"time"
)

// Spot is the number of available spot nodes over time. It changes only at Events.
type Spot struct {
	Name     string
	Start    time.Time     // time of At = 0 in UTC; zero if the file has none
	Duration time.Duration // time from the start to the last row
	Initial  int           // number of nodes at the start, before the events at that time
	Events   []SpotEvent   // events in the order of At, at most one for each time
	Named    bool          // the file has names of nodes
	Notes    []string

	sampling time.Duration // longest time between two rows of counts
}

// SpotEvent is a time at which nodes were added or lost (preempted). A trace of counts shows only the difference between two counts: if two
// nodes are lost and one is added in between, the event has one lost node and no added node.
type SpotEvent struct {
	At        time.Duration
	Added     int
	Lost      int
	Available int      // number of nodes after the event
	AddedIDs  []string // names of nodes, or nil
	LostIDs   []string
}

// Available returns the number of available nodes at a time, after the events at that time. Before 0 it is Initial; after the end it is the
// last number.
func (s *Spot) Available(at time.Duration) int {
	i, found := slices.BinarySearchFunc(s.Events, at, func(e SpotEvent, at time.Duration) int { return cmp.Compare(e.At, at) })
	if found {
		i++
	}
	if i == 0 {
		return s.Initial
	}
	return s.Events[i-1].Available
}

// Drops returns the events with lost nodes.
func (s *Spot) Drops() []SpotEvent {
	var drops []SpotEvent
	for _, e := range s.Events {
		if e.Lost > 0 {
			drops = append(drops, e)
		}
	}
	return drops
}

// SpotSummary is a summary of a spot trace.
type SpotSummary struct {
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
func (s *Spot) Summarize() SpotSummary {
	sum := SpotSummary{Name: s.Name, Start: s.Start, Duration: s.Duration, Min: s.Initial, Max: s.Initial, Notes: s.Notes}
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

func (s *Spot) lifetimes() []Lifetime {
	born := map[string]time.Duration{}
	var lived []time.Duration
	for _, e := range s.Events {
		for _, id := range e.LostIDs {
			if b, ok := born[id]; ok { // a node without an entry in born was added and lost at the same time
				lived = append(lived, e.At-b)
				delete(born, id)
			}
		}
		for _, id := range e.AddedIDs {
			born[id] = e.At
		}
	}
	if len(lived) == 0 {
		return nil
	}
	slices.Sort(lived)
	var out []Lifetime
	for _, q := range []float64{0.1, 0.5, 0.9} {
		out = append(out, Lifetime{Quantile: q, Duration: quantile(lived, q)})
	}
	return out
}
