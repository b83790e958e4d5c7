package telemetry

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// maxPercent, maxSeconds and maxCount are the greatest plausible values of a reading, one for each unit. A reading above the limit of its
// unit is invalid.
const (
	maxPercent = 10        // 1000%, because some sources add up several devices; a query that returns 91 instead of 0.91 exceeds this value
	maxSeconds = 7 * 86400 // no request waits for longer than a week
	maxCount   = 1e12
)

// checkValue returns r, or an unknown reading with CauseInvalid if the value is not plausible for the signal's unit.
func checkValue(r scaling.Reading, s *scaling.Signal) scaling.Reading {
	limit := float64(maxCount)
	switch s.Unit {
	case scaling.Percent:
		limit = maxPercent
	case scaling.Seconds:
		limit = maxSeconds
	}
	if math.IsNaN(r.Value) || r.Value < 0 || r.Value > limit {
		return scaling.Reading{At: r.At, Coverage: r.Coverage, Reported: r.Reported, Cause: scaling.CauseInvalid}
	}
	return r
}

// checkTime returns r, or an unknown reading with CauseUntimed if the time of its sample is not usable. A sample time that is ahead of
// gpuscaler's clock would count as fresh at every poll until that time, even if the source had failed. If the sample time is ahead by at
// most scaling.MaxAhead, checkTime replaces it with received, the time at which the response was received.
func checkTime(r scaling.Reading, received time.Time) scaling.Reading {
	switch {
	case !r.Known:
		return r
	case r.At.After(received.Add(scaling.MaxAhead)), !r.At.After(time.UnixMilli(0)):
		return scaling.Reading{Coverage: r.Coverage, Reported: r.Reported, Cause: scaling.CauseUntimed}
	case r.At.After(received):
		r.At = received
	}
	return r
}
