package telemetry

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// An adapter may send a sample time in any year, and gpuscaler subtracts the difference between the clocks from it. The time of a known
// reading must not be later than the poll. JSON must be able to represent it (years 0 to 9999), because ticks are recorded as JSON.
func TestAReadingWithoutAUsableTimeIsUnknown(t *testing.T) {
	received := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	zero := time.Time{}
	for _, c := range []struct {
		name     string
		at, want time.Time // a zero want means that the reading must be unknown
	}{
		{"an hour old", received.Add(-time.Hour), received.Add(-time.Hour)},
		{"of this moment", received, received},
		{"two seconds ahead", received.Add(2 * time.Second), received},
		{"more than two seconds ahead", received.Add(2*time.Second + time.Nanosecond), zero},
		{"an hour ahead", received.Add(time.Hour), zero},
		{"after the year 9999", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), zero},
		{"1970", time.UnixMilli(0), zero},
		{"the year 0 east of Greenwich", time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)).UTC(), zero},
		{"no timestamp, corrected by a century", zero.Add(-100 * 365 * 24 * time.Hour), zero},
		{"no timestamp", zero, zero},
	} {
		got := checkTime(scaling.Reading{Value: 3, At: c.at, Coverage: 1, Reported: 2, Known: true}, received)
		if got.Known == c.want.IsZero() || !got.At.Equal(c.want) || got.Reported != 2 {
			t.Errorf("%s: %+v, want %v", c.name, got, c.want)
		}
		if !got.Known && got.Cause != scaling.CauseUntimed {
			t.Errorf("%s: cause %q", c.name, got.Cause)
		}
	}
}
