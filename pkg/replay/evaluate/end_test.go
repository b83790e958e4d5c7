package evaluate

import (
	"testing"
	"time"
)

// The run lasts ten of the twenty minutes of the trace. Later requests are in neither the run nor the bounds.
func TestTrafficAfterTheEndIsIgnored(t *testing.T) {
	whole := small(t, nil)
	half := small(t, func(c *Case) { c.For, c.Bound = 10*time.Minute, true })
	inRun := int64(0)
	for r := range whole.Traffic.All() {
		if r.At < 10*time.Minute {
			inRun++
		}
	}
	r := evaluateCase(t, half)
	if r.Bound(FluidBound) == nil || r.Bound(RequestBound) == nil {
		t.Fatalf("bounds: %+v", r.Bounds)
	}
	if r.Traffic.Requests != inRun || r.Runs[0].Arrived != inRun || r.Traffic.Duration != 600 {
		t.Errorf("%d requests in %v s, %d arrived, want %d", r.Traffic.Requests, r.Traffic.Duration, r.Runs[0].Arrived, inRun)
	}
	if all := evaluateCase(t, whole); all.Traffic.Requests <= inRun || r.Runs[0].Cost >= all.Runs[0].Cost {
		t.Errorf("ten minutes of %d requests cost %v, twenty of %d cost %v", inRun, r.Runs[0].Cost, all.Traffic.Requests, all.Runs[0].Cost)
	}
}
