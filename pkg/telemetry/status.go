package telemetry

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// pollStatus is the result of the last poll of a group.
type pollStatus struct {
	Source  string // name of the data source in the PlatformConfig; empty for an implicit one
	Poll    string // query, selector, gauges, histogram, dcgm, kueue, scrape, exporter, redis or external
	Name    string // of the query, or the engine and its latency
	Signals int    // that the poll serves
	Known   int    // signals with a reading
	Untimed int    // signals whose samples have no usable time
	At      time.Time
	Took    time.Duration
	Skew    time.Duration // how far the source's clock is ahead of ours; 0 for less than two seconds and where it is not known
	Cause   scaling.Cause // of the failure of the whole poll
	Error   string        // of that failure

	Violations []LimitViolation // namespaces whose part of the answer exceeds a limit
}
