package telemetry

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// pollStatus is the result of the last poll of a group.
type pollStatus struct {
	Source  string // name of the data source in the PlatformConfig; empty for an implicit one
	Poll    string // query, selector, gauges, histogram, dcgm, kueue, scrape, exporter, redis or external
	Name    string // name of the query, or the engine and its latency
	Signals int    // number of signals that the poll serves
	Known   int    // number of signals with a reading
	Untimed int    // number of signals whose samples have no usable time
	Refused int    // number of signals whose request the source rejected for lack of permission, in a poll that succeeded for others
	Example string // one of the refused signals, with its workload and the cause
	Part    error  // error that made the readings of some signals missing, in a poll that succeeded for others
	At      time.Time
	Took    time.Duration
	Skew    time.Duration // how far the source's clock is ahead of gpuscaler's; 0 if the difference is below two seconds or not known
	Cause   scaling.Cause // cause of the failure of the whole poll
	Error   string        // text of the error that made the whole poll fail; empty if the poll succeeded

	Violations []LimitViolation // namespaces that exceed a limit for the series or bytes of a response
}
