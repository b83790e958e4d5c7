package telemetry

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// PollStatus is how one poll went the last time, for people.
type PollStatus struct {
	Source  string // of PlatformConfig.dataSources; empty for what is read in the built-in way
	Poll    string // query, selector, gauges, histogram, dcgm, kueue, scrape, exporter, redis or external
	Name    string // the query's name, or the engine and its latency
	Signals int    // signals that it serves
	Known   int    // those of them that it brought a reading for
	Untimed int    // those of them whose samples had no usable time
	At      time.Time
	Took    time.Duration
	Skew    time.Duration // what the source's clock stands ahead of ours; 0 for less than two seconds, or where it does not tell
	Cause   scaling.Cause // of the whole poll's failure
	Error   string
	// Offences are the namespaces whose part of the answer exceeded a limit. Signals of other namespaces are not affected.
	Offences []Offence
}

// Status lists the polls, the same ones in the same order each time. A poll that has not ended yet is left out.
func (p *Poller) Status() []PollStatus {
	p.mu.Lock()
	var out []PollStatus
	for _, r := range p.state {
		r.mu.Lock()
		if !r.status.At.IsZero() {
			out = append(out, r.status)
		}
		r.mu.Unlock()
	}
	p.mu.Unlock()
	slices.SortFunc(out, func(a, b PollStatus) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Poll, b.Poll), cmp.Compare(a.Name, b.Name))
	})
	return out
}
