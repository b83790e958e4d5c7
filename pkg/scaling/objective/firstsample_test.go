package objective

import (
	"testing"
	"time"
)

// The load of a workload begins when gpuscaler starts, and is twice the capacity of its two replicas. A request takes a minute, so the
// number of requests in flight increases for a minute, and its mean is too low in the first samples. After twelve minutes, the model must
// know the capacity within 10%.
func TestSamplesBeforeTheFirstSaturationHaveLittleWeight(t *testing.T) {
	const service, load = 60.0, 4.2
	w := newWorkload()
	w.ready, w.l.Min, w.l.Max = 2, 2, 2
	w.inFlightOnly(service)
	sampled := w.change
	w.change = func(e *Evidence) {
		sampled(e)
		e.InFlight.V *= min(e.InFlight.At.Sub(start).Seconds()/service, 1)
	}
	w.run(t, 12*time.Minute, load)
	if got := w.m.Learned().Capacity; got.Count == 0 || got.P50 < 0.9*w.capacity || got.P50 > 1.1*w.capacity {
		t.Errorf("learned %+v, want %v", got, w.capacity)
	}
}
