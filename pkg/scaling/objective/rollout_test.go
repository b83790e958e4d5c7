package objective

import (
	"testing"
	"time"
)

// TestRolloutKeepsFreeSlots rolls out a version of the server with the same capacity. In the first minutes, the model has few measurements
// of this version, but plans must not have fewer free serving slots than before.
func TestRolloutKeepsFreeSlots(t *testing.T) {
	w := newChat(t)
	w.l.Max = 50
	w.runVarying(t, time.Hour, 4, 0.1)
	before := w.m.plant()
	if before.spare == nil {
		t.Fatal("no free serving slots are planned before the rollout")
	}
	w.version++
	for range 20 {
		w.runVarying(t, time.Minute, 4, 0.1)
		if x := w.m.plant(); x.spare == nil || x.capacity > 1.3*before.capacity {
			t.Fatalf("%v after the rollout: free serving slots %v, a capacity of %.2f per replica; want both about as before (%.2f)",
				w.now.Sub(start), x.spare != nil, x.capacity, before.capacity)
		}
	}
}

// TestSlowerVersionIsLearned rolls out a version of the server with half the capacity. The model must learn this within ten minutes of
// load, so that the replicas serve the load again.
func TestSlowerVersionIsLearned(t *testing.T) {
	w := newChat(t)
	w.l.Max = 50
	w.capacity /= 2
	w.inFlightOnly(2 * 6.5)
	w.version++
	w.run(t, 10*time.Minute, 4)
	if got := w.m.Learned().Capacity.P50; got > 1.2*w.capacity || got < 0.6*w.capacity || w.plan.Replicas < 7 {
		t.Errorf("learned %.2f, %s; want about %.2f and at least 7 replicas", got, w.plan.Text(), w.capacity)
	}
	w.run(t, 10*time.Minute, 4)
	if w.queue > 40 {
		t.Errorf("%.0f queued 20 minutes after the rollout, want at most 10 s of work", w.queue)
	}
}
