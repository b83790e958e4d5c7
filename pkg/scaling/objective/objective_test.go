package objective

import (
	"testing"
	"time"
)

var start = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

func known(v float64, at time.Time) Value { return Value{V: v, At: at, Known: true} }

// TestTermsAddUp follows a workload from its first request to a missing metric.
func TestTermsAddUp(t *testing.T) {
	m, o, l := New(), Objective{Limit: 10 * time.Second, Percentile: 99}, Limits{Min: 1, Max: 8}
	check := func(when string, want int32) {
		t.Helper()
		p, sum := m.Plan(m.s.last, o, l), int32(0)
		for _, n := range p.Added {
			sum += n
		}
		if p.Replicas != want || sum != want {
			t.Errorf("%s: %d replicas, the terms add up to %d, want %d: %s", when, p.Replicas, sum, want, p.Text())
		}
	}
	check("nothing known", 1)
	m.Observe(start, &Evidence{Arrivals: known(4, start), Queued: known(8, start), Served: known(2, start), Ready: 2})
	check("4/s and 8 queued within 10s at 1/s per replica", 5)
	m.Observe(start.Add(time.Second), &Evidence{Ready: 2, Starting: make([]time.Duration, 3)})
	check("metric missing", 5)
}
