// Package spotmarket reads recordings of the available spot capacity: how many nodes of an instance type a provider had over time.
//
// [Open] reads a file with the events of single nodes (t_ms, add or remove, node), with counts of nodes over time, or the JSON of SkyPilot
// with counts at a fixed interval. A file that cannot be read is a [*trace.Error] of package trace.
package spotmarket

import (
	"cmp"
	"slices"
	"time"
)

// Trace is the number of available spot nodes over time. It changes only at Events.
type Trace struct {
	Name     string
	Start    time.Time     // start of the trace in UTC; zero if the file has no start time
	Duration time.Duration // time from the start to the last row, or to one interval after the last count in SkyPilot's format
	Initial  int           // number of nodes at the start, before the events at that time
	Events   []Event       // events in the order of At, at most one for each time
	Named    bool          // the file has names of nodes
	Notes    []string

	sampling time.Duration // longest time between two rows of counts
}

// Event is a time at which nodes were added or lost (preempted). A trace of counts shows only the difference between two counts: if two
// nodes are lost and one node is added between two counts, the event has one lost node and no added node.
type Event struct {
	At        time.Duration
	Added     int
	Lost      int
	Available int      // number of nodes after the event
	AddedIDs  []string // names of the added nodes; nil if the file has no names
	LostIDs   []string
}

// Available returns the number of available nodes at a time, after the events at that time. Before 0 it is Initial; after the end it is the
// last number.
func (s *Trace) Available(at time.Duration) int {
	i, found := slices.BinarySearchFunc(s.Events, at, func(e Event, at time.Duration) int { return cmp.Compare(e.At, at) })
	if found {
		i++
	}
	if i == 0 {
		return s.Initial
	}
	return s.Events[i-1].Available
}

// Drops returns the events with lost nodes.
func (s *Trace) Drops() []Event {
	var drops []Event
	for _, e := range s.Events {
		if e.Lost > 0 {
			drops = append(drops, e)
		}
	}
	return drops
}
