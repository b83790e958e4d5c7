package telemetry

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// An adapter may write any year, and a correction of its clock moves it on: no reading carries a time that JSON cannot hold, or that
// says more than that the sample is stale.
func TestATimeThatIsNoneIsTheZeroTimeWhichIsStale(t *testing.T) {
	received := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	zero := time.Time{}
	for _, c := range []struct {
		name     string
		at, want time.Time
	}{
		{"an hour old", received.Add(-time.Hour), received.Add(-time.Hour)},
		{"from the future", received.Add(time.Hour), received},
		{"after the year 9999", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), received},
		{"the year 0 east of Greenwich", time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)).UTC(), zero},
		{"no timestamp, corrected by a century", zero.Add(-100 * 365 * 24 * time.Hour), zero},
		{"no timestamp", zero, zero},
	} {
		e := entry{readings: make([]scaling.Reading, 1)}
		e.record(0, scaling.Reading{Value: 3, At: c.at, Known: true}, received)
		got := e.get(0)
		if _, err := got.At.MarshalJSON(); err != nil || !got.At.Equal(c.want) || !got.Known {
			t.Errorf("%s: %+v (%v), want %v", c.name, got, err, c.want)
		}
	}
}
