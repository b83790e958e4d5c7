package scaling

import (
	"testing"
	"time"
)

// The load always needs ten replicas. A new leader has no model of the workload, or a model that another leader saved hours ago. The new
// leader must not remove replicas before it has observed the load.
func TestARestartDoesNotLowerAnObjective(t *testing.T) {
	least := func(w *day, d time.Duration) int32 {
		t.Helper()
		n := w.ready
		for end := w.now.Add(d); w.now.Before(end); {
			w.tick(time.Second)
			n = min(n, w.last.Replicas)
		}
		return n
	}
	fresh := newDay(t, chat(), 10)
	fresh.values = []float64{18, 0, 18}
	if n := least(fresh, 10*time.Minute); n < 9 {
		t.Errorf("%d replicas after a restart without a model, want at least 9 for 18 requests/s at 2/s per replica", n)
	}

	night := newDay(t, chat(), 1)
	night.run(3*time.Hour, 1, 0, 1)
	later := newDay(t, chat(), 10)
	later.now = night.now.Add(5 * time.Hour)
	later.s = State{}
	later.s.Restore(later.p, night.s.Learned().Clone(), night.now)
	later.values = []float64{18, 0, 18}
	if n := least(later, 30*time.Minute); n < 9 {
		t.Errorf("%d replicas after a restart with a model of a night with little load, want at least 9 for 18 requests/s at 2/s per replica", n)
	}
}

// A new version of the server serves half as much work per second. The queue grows, and the model must learn the new capacity from it. Work
// may be late for at most 10 minutes, and after half an hour the replicas must serve all work again. A lower load afterwards must not
// change the learned capacity.
func TestASlowerVersionIsLearned(t *testing.T) {
	p := chat()
	p.Objective.Capacity, p.MaxReplicas = 0, 40
	w := newDay(t, p, 4)
	version, capacity, queue := uint64(1), 2.0, 0.0
	run := func(d time.Duration, load float64) (late time.Duration) {
		for end := w.now.Add(d); w.now.Before(end); {
			served := min(load+queue, capacity*float64(w.ready))
			queue += load - served
			w.values, w.version = []float64{load, queue, served}, version
			w.tick(time.Second)
			if queue > 10*load {
				late += time.Second
			}
		}
		return late
	}
	run(30*time.Minute, 12)
	run(90*time.Minute, 8)
	if c := w.s.Learned().Learned().Capacity.P50; !(c >= 1.8 && c <= 2.2) {
		t.Fatalf("the capacity is %v before the rollout, want 2", c)
	}
	version, capacity = 2, 1
	if late := run(30*time.Minute, 8); late > 10*time.Minute || queue > 80 {
		t.Errorf("work was late for %s after the rollout, want at most 10 minutes; %v wait\n%s", late, queue, w.last.Plan.Text())
	}
	if c := w.s.Learned().Learned().Capacity.P50; !(c >= 0.9 && c <= 1.1) {
		t.Errorf("the capacity is %v after the rollout, want 1", c)
	}
	if late := run(2*time.Hour, 8); late > 0 || w.last.Replicas < 8 {
		t.Errorf("%s late in the next two hours with %d replicas", late, w.last.Replicas)
	}
	// The same version has a lower load, which does not show a new capacity.
	run(time.Hour, 3)
	if c := w.s.Learned().Learned().Capacity.P50; !(c >= 0.9 && c <= 1.1) {
		t.Errorf("the capacity is %v with little load, want 1", c)
	}
}
