package scaling

import (
	"testing"
	"time"
)

// A leader that starts without what was learned, or with what another leader learned hours ago, does not remove replicas before it has
// observed the load. The load needs ten replicas all the time.
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
		t.Errorf("%d replicas after a restart that knows nothing, want at least 9 for 18 requests/s at 2/s per replica", n)
	}

	night := newDay(t, chat(), 1)
	night.run(3*time.Hour, 1, 0, 1)
	later := newDay(t, chat(), 10)
	later.now = night.now.Add(5 * time.Hour)
	later.s = State{}
	later.s.Restore(later.p, night.s.Learned().Clone(), night.now)
	later.values = []float64{18, 0, 18}
	if n := least(later, 30*time.Minute); n < 9 {
		t.Errorf("%d replicas after a restart that knows a night with little load, want at least 9 for 18 requests/s at 2/s per replica", n)
	}
}
