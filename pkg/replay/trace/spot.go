package trace

import (
	"cmp"
	"slices"
	"time"
)

// Spot is how much spot capacity could be had over time. It is a step function:
// capacity changes only at Events.
type Spot struct {
	Name     string
	Start    time.Time     // the instant of At = 0, UTC; zero where the file names none
	Duration time.Duration // to the last row
	Initial  int           // nodes at At = 0, before the events there
	Events   []SpotEvent   // in order of At, each instant once
	Named    bool          // the file tells nodes apart
	Notes    []string

	sampling time.Duration // longest time between two rows of counts
}

// SpotEvent is an instant at which nodes came, or were taken away (preempted).
// A trace of counts knows only the difference: of two nodes lost and one won in
// the same interval it shows one lost.
type SpotEvent struct {
	At        time.Duration
	Added     int
	Lost      int
	Available int      // after the event
	AddedIDs  []string // where the file names nodes, else nil
	LostIDs   []string
}

// Available is the capacity at an instant, events at that instant included;
// before 0 the initial one, after the end the last.
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

// Drops are the events that took nodes away.
func (s *Spot) Drops() []SpotEvent {
	var drops []SpotEvent
	for _, e := range s.Events {
		if e.Lost > 0 {
			drops = append(drops, e)
		}
	}
	return drops
}

// SpotSummary is what a spot trace holds.
type SpotSummary struct {
	Name       string        `json:"name"`
	Start      time.Time     `json:"start,omitzero"`
	Duration   time.Duration `json:"durationNanos"`
	Added      int           `json:"added"`        // nodes, after the initial ones
	Lost       int           `json:"lost"`         // nodes
	Drops      int           `json:"drops"`        // instants at which nodes were lost
	LargestOne int           `json:"largestDrop"`  // nodes lost at once
	Min        int           `json:"min"`          // available, over the trace
	Max        int           `json:"max"`          //
	Mean       float64       `json:"mean"`         // over time
	None       time.Duration `json:"noneForNanos"` // without any node
	Lifetimes  []Lifetime    `json:"lifetimes,omitempty"`
	Notes      []string      `json:"notes,omitempty"`
}

// Lifetime is a quantile of how long the nodes that were lost had been there.
type Lifetime struct {
	Quantile float64       `json:"quantile"`
	Duration time.Duration `json:"nanos"`
}

// Summarize counts a spot trace.
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
			if b, ok := born[id]; ok { // else it came and went in this instant
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
