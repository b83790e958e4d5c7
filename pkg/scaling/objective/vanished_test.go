package objective

import (
	"testing"
	"time"
)

// newChat returns a workload whose server reports the queue and the requests in flight, but not the throughput. The workload has served a
// varying load for two hours. Bursts saturated the replicas, so the model knows the true capacity of 1.23/s per replica.
func newChat(t *testing.T) *workload {
	t.Helper()
	const service, slots = 6.5, 8
	w := newWorkload()
	w.capacity, w.ready, w.l.Max = slots/service, 6, 6
	w.inFlightOnly(service)
	for range 4 {
		w.runVarying(t, 25*time.Minute, 5.4, 0.1)
		w.run(t, 5*time.Minute, 9)
	}
	w.runVarying(t, 20*time.Minute, 4, 0.1)
	if got := w.m.Learned().Capacity.P50; got < 0.8*w.capacity || got > 1.2*w.capacity || w.queue > 0 {
		t.Fatalf("learned %v with %v queued, want about %v and an empty queue", got, w.queue, w.capacity)
	}
	return w
}

// TestDeletedWorkIsNotServedWork deletes all work of a long queue, as the restart of a router or a purge of the queue does. The replicas
// did not serve this work, so the learned capacity must not increase. Before a correction, the model learned 1.6 times the capacity from
// one deletion.
func TestDeletedWorkIsNotServedWork(t *testing.T) {
	for _, missing := range []time.Duration{0, 30 * time.Second, 4 * time.Minute} {
		w := newWorkload()
		w.capacity, w.ready, w.l.Min, w.l.Max = 8/6.5, 6, 6, 6
		w.inFlightOnly(6.5)
		measured := w.change
		w.runVarying(t, 20*time.Minute, 4, 0.1)
		for range 3 {
			w.queue += 5000
			w.run(t, 3*time.Minute, 4)
			if missing > 0 {
				w.change = func(e *Evidence) { measured(e); e.Queued = Value{} }
				w.queue = 0
				w.run(t, missing, 4)
				w.change = measured
			}
			w.queue = 0
			before := w.m.Learned().Capacity.P50
			w.run(t, 10*time.Minute, 4)
			if got := w.m.Learned().Capacity.P50; got > 1.1*before || got > 1.3*w.capacity {
				t.Errorf("queue missing for %v: learned %.2f after work was deleted, %.2f before; the true capacity is %.2f",
					missing, got, before, w.capacity)
			}
		}
	}
}

// TestFasterServerIsLearnedFromItsQueue replaces the server by one with eight times the capacity, without a new version. The queue then
// becomes shorter faster than the known capacity allows, although no work is deleted, and the learned capacity must increase.
func TestFasterServerIsLearnedFromItsQueue(t *testing.T) {
	w := newChat(t)
	old := w.capacity
	w.capacity *= 8
	w.inFlightOnly(6.5 / 8)
	for range 6 {
		w.queue += 3000
		w.run(t, 10*time.Minute, 4)
	}
	if got := w.m.Learned().Capacity.P50; got < 2*old || got > 1.3*w.capacity {
		t.Errorf("learned %.2f, want between %.2f and %.2f", got, 2*old, 1.3*w.capacity)
	}
}
