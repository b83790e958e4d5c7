package objective

import (
	"testing"
	"time"
)

// The load of a workload begins when gpuscaler starts. A request takes a minute, so the requests in flight rise for a minute, and their
// mean is too low in the first samples. Ten minutes later, the service time must be known within 10%. The first sample once had the weight
// of 300 s.
func TestFirstSamplesHaveLittleWeight(t *testing.T) {
	const service, load = 60.0, 4.2
	w := newWorkload()
	w.ready, w.capacity, w.l.Min = 6, 1, 6
	w.inFlightOnly(service)
	sampled := w.change
	w.change = func(e *Evidence) {
		sampled(e)
		age := e.InFlight.At.Sub(start).Seconds()
		e.InFlight.V = load * min(age, service)
	}
	w.run(t, 10*time.Minute, load)
	if got := 1 / w.m.perInFlight(); got < 0.9*service || got > 1.1*service {
		t.Errorf("a request takes %.1f s by the samples, want %v s", got, service)
	}
}
