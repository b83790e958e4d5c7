package objective

import (
	"testing"
	"time"
)

// A wrong metric reports 1e12 requests in flight while work waits. If the model computed with 1e12 serving slots, it would block the
// process.
func TestAbsurdWorkInFlightDoesNotBlockThePlan(t *testing.T) {
	for _, value := range []float64{1e5, 1e9, 1e12} {
		w := newWorkload()
		w.capacity, w.ready = 1, 4
		w.inFlightOnly(8)
		w.run(t, time.Hour, 3)
		usual := w.change
		w.change = func(e *Evidence) {
			usual(e)
			e.InFlight, e.Queued = known(value, w.now), known(5, w.now)
		}
		w.run(t, time.Minute, 3)
		w.change = usual
		w.run(t, time.Hour, 3)
		x := plant{concurrency: value, service: 8, limit: 10}
		var d delays
		d.compute(&x, 50*value/8)
		if d.late[10] != 1 {
			t.Errorf("%g slots: 10 replicas for the work of 50 are late with probability %g", value, d.late[10])
		}
	}
}
