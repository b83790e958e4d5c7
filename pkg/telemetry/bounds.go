package telemetry

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// maxPercent, maxSeconds and maxCount are the greatest plausible values of a reading by its unit. A reading above its limit is invalid.
const (
	maxPercent = 10        // 1000%, because some sources add up several devices; a query that returns 91 for 91% exceeds this value
	maxSeconds = 7 * 86400 // no request waits for a week
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

// checkTime returns r, or an unknown reading with CauseUntimed if the time of its sample is not usable. A sample time ahead of this clock
// would count as fresh at every poll until that time, even if the source had failed. If the time is at most scaling.MaxAhead ahead,
// checkTime sets it to the time of the response.
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
