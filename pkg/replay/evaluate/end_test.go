package evaluate

import (
	"testing"
	"time"
)

// A trace of twenty minutes on a scenario of ten: what comes later is not seen by the run, nor by the bounds.
func TestTrafficBeyondTheEndIsLeftOut(t *testing.T) {
	whole := small(t, nil)
	half := small(t, func(c *Case) { c.For, c.Bound = 10*time.Minute, true })
	certificates := int64(0)
	for r := range whole.Traffic.All() {
		if r.At < 10*time.Minute {
			certificates++
		}
	}
	r := evaluateCase(t, half)
	if r.Bound(FluidBound) == nil || r.Bound(RequestBound) == nil {
		t.Fatalf("bounds: %+v", r.Bounds)
	}
	if r.Traffic.Requests != certificates || r.Runs[0].Arrived != certificates || r.Traffic.Duration != 600 {
		t.Errorf("%d requests in %v s, %d arrived, want %d", r.Traffic.Requests, r.Traffic.Duration, r.Runs[0].Arrived, certificates)
	}
	if all := evaluateCase(t, whole); all.Traffic.Requests <= certificates || r.Runs[0].Cost >= all.Runs[0].Cost {
		t.Errorf("ten minutes of %d requests cost %v, twenty of %d cost %v", certificates, r.Runs[0].Cost, all.Traffic.Requests, all.Runs[0].Cost)
	}
}
