package baseline

import (
	"testing"
	"time"
)

// The first case is the example in the documentation of llm-d's analyzer: five replicas of one model, thresholds 0.80 (KV cache) and 5
// (queue), spare triggers 0.1 and 3.
func TestWVADecidesAsItsDocumentationDoes(t *testing.T) {
	w := WVA{Max: 10}.NewActuator().(*wva).config
	documented := []load1m{{0.70, 2}, {0.75, 3}, {0.60, 1}, {0.65, 2}, {0.55, 1}}
	for _, c := range []struct {
		name  string
		loads []load1m
		spec  int32
		want  int32
	}{
		{"the documented five spare 0.15 and 3.2: they stay, the rest could not take a fifth", documented, 5, 5},
		{"spare cache below 0.1", []load1m{{0.75, 0}, {0.72, 0}}, 2, 3},
		{"spare queue below 3", []load1m{{0.1, 3}, {0.1, 2}}, 2, 3},
		{"all saturated", []load1m{{0.9, 0}, {0.85, 9}}, 2, 3},
		{"a saturated one does not count", []load1m{{0.9, 0}, {0.5, 0}, {0.5, 0}}, 3, 3},
		{"one less can take it: 0.6 and 1 each", []load1m{{0.4, 0.5}, {0.4, 1}, {0.4, 0.5}}, 3, 2},
		{"a replica is pending: the target is kept (cascade prevention)", []load1m{{0.79, 4}, {0.79, 4}}, 3, 3},
		{"never to zero by saturation", []load1m{{0, 0}}, 1, 1},
		{"the most", []load1m{{0.9, 9}, {0.9, 9}, {0.9, 9}, {0.9, 9}, {0.9, 9}, {0.9, 9}, {0.9, 9}, {0.9, 9}, {0.9, 9}, {0.9, 9}}, 10, 10},
	} {
		if got := w.next(c.loads, c.spec); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// The cases are examples from the comments in Knative's autoscaler.go, and from Knative's documentation of the panic window.
func TestKnativeDecidesAsItsSourceSays(t *testing.T) {
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	k := Knative{Max: 1000, Target: 10}.NewActuator().(*kpa)
	at := func(after time.Duration, ready int32, stable, panicked float64, want int32, why string) {
		t.Helper()
		if got := k.scale(now.Add(after), ready, stable, panicked); got != want {
			t.Errorf("%s: %s: %d, want %d", after, why, got, want)
		}
	}
	at(0, 3, 30, 30, 3, "on its target")
	at(2*time.Second, 3, 31, 31, 4, "rounded up")
	at(4*time.Second, 10, 0, 0, 5, "max-scale-down-rate 2 halves at most")
	at(6*time.Second, 2, 20, 30, 2, "three proposed for two ready: 150%, no panic, the stable window is used")
	at(8*time.Second, 2, 20, 41, 5, "five proposed for two ready: 250%, panic")
	at(10*time.Second, 2, 20, 10, 5, "nothing falls in a panic")
	at(12*time.Second, 2, 70, 10, 7, "the stable window may ask for more than the panic's")
	at(68*time.Second, 7, 10, 10, 7, "a stable window after the last panic value it still panics")
	at(69*time.Second, 7, 10, 10, 3, "and then not")
	delayed := Knative{Max: 1000, Target: 10, ScaleDownDelay: time.Minute}.NewActuator().(*kpa)
	k = delayed
	at(0, 2, 40, 0, 4, "a rise waits for no delay")
	at(59*time.Second, 4, 20, 0, 4, "scale-down-delay keeps the greatest of its time")
	at(60*time.Second, 4, 20, 0, 2, "and lets it go")
}

func TestSkyServeChangesTheTargetAfterItsDelay(t *testing.T) {
	k := SkyServe{Min: 1, Max: 10, Target: 2.5}.NewActuator().(*skyServe)
	if got := k.config.desired(10); got != 4 {
		t.Errorf("10 requests a second at 2.5 each: %d, want 4", got)
	}
	k.target = 1
	for i := range 14 {
		if got := k.next(4); got != 1 {
			t.Fatalf("decision %d: %d before 300 s", i, got)
		}
	}
	if got := k.next(4); got != 4 {
		t.Errorf("%d after 15 decisions of 20 s", got)
	}
	for range 59 {
		k.next(2)
	}
	if k.next(4); k.target != 4 || k.dow != 0 {
		t.Errorf("the delay restarts after the proposal changed back: %d, %d", k.target, k.dow)
	}
	for range 60 {
		k.next(2)
	}
	if k.target != 2 {
		t.Errorf("%d after 60 decisions, which are 1200 s", k.target)
	}
}
