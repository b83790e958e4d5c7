package scaling

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// hpa implements the scaling behavior of an HPA, so that tests can compare Decide with it. It follows the code of k8s.io/kubernetes 1.36,
// pkg/controller/podautoscaler: the functions stabilizeRecommendationWithBehaviors and convertDesiredReplicasWithBehaviorRate, and the
// functions that compute the scale-up limit and the scale-down limit. It uses the same scale events and floating-point arithmetic.
type hpa struct {
	p               *Policy
	recommendations []event
	ups, downs      []event
	current         int32
}

type event struct {
	at time.Time
	n  int32
}

func (h *hpa) decide(desired int32, now time.Time) int32 {
	up, down := desired, desired
	for _, r := range h.recommendations {
		if r.at.After(now.Add(-h.p.ScaleUp.StabilizationWindow)) {
			up = min(up, r.n)
		}
		if r.at.After(now.Add(-h.p.ScaleDown.StabilizationWindow)) {
			down = max(down, r.n)
		}
	}
	h.recommendations = append(h.recommendations, event{now, desired})
	n := h.current
	n = max(n, up)
	n = min(n, down)
	switch {
	case n > h.current:
		limit := max(h.upLimit(now), h.current)
		n = min(n, limit, h.p.MaxReplicas)
	case n < h.current:
		limit := min(h.downLimit(now), h.current)
		n = max(n, limit, h.p.MinReplicas)
	}
	if n > h.current {
		h.ups = append(h.ups, event{now, n - h.current})
	} else if n < h.current {
		h.downs = append(h.downs, event{now, h.current - n})
	}
	h.current = n
	return n
}

func change(events []event, period time.Duration, now time.Time) (sum int32) {
	for _, e := range events {
		if e.at.After(now.Add(-period)) {
			sum += e.n
		}
	}
	return sum
}

func (h *hpa) upLimit(now time.Time) int32 {
	d := &h.p.ScaleUp
	if d.Select == Disabled {
		return h.current
	}
	result := int32(math.MinInt32)
	if d.Select == SelectMin || len(d.Rates) == 0 {
		result = math.MaxInt32
	}
	for _, r := range d.Rates {
		start := h.current - change(h.ups, r.Period, now) + change(h.downs, r.Period, now)
		proposed := start + r.Value
		if r.Type == PercentRate {
			proposed = int32(math.Ceil(float64(start)*(1+float64(r.Value)/100) - 1e-9))
		}
		if d.Select == SelectMin {
			result = min(result, proposed)
		} else {
			result = max(result, proposed)
		}
	}
	return result
}

func (h *hpa) downLimit(now time.Time) int32 {
	d := &h.p.ScaleDown
	if d.Select == Disabled {
		return h.current
	}
	result := int32(math.MaxInt32)
	if d.Select == SelectMin || len(d.Rates) == 0 {
		result = math.MinInt32
	}
	for _, r := range d.Rates {
		start := h.current - change(h.ups, r.Period, now) + change(h.downs, r.Period, now)
		proposed := start - r.Value
		if r.Type == PercentRate {
			proposed = int32(float64(start)*(1-float64(r.Value)/100) + 1e-9)
		}
		if d.Select == SelectMin {
			result = max(result, proposed)
		} else {
			result = min(result, proposed)
		}
	}
	return result
}

// Decide must return the same target as an HPA. One intended difference is excluded: like Decide, the type hpa subtracts 1e-9 before it
// rounds up. In floating-point arithmetic, ceil(110 * 1.1) is 122, although ten percent more than 110 is 121.
func TestBehaviorEqualsTheHPA(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := anyPolicy(t, true)
		p := &Policy{Signals: []Signal{queue(1)}, MinReplicas: 1, MaxReplicas: 15, ScaleUp: drawn.ScaleUp, ScaleDown: drawn.ScaleDown}
		p.ScaleUp.Tolerance, p.ScaleDown.Tolerance = 0, 0
		first := rapid.Int32Range(1, 15).Draw(t, "first")
		h := &hpa{p: p, current: first, recommendations: []event{{nine, first}}}
		s, now := Seed(p, first, nine), nine
		for range 150 {
			now = now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "step")) * time.Second)
			desired := rapid.Int32Range(1, 15).Draw(t, "desired")
			o := Observation{Replicas: h.current, Ready: h.current, Advice: NoAdvice, Operator: NoOperator,
				Readings: []Reading{{Value: float64(desired), At: now, Coverage: 1, Known: true}}}
			var d Decision
			d, s = Decide(p, o, s, now)
			if want := h.decide(desired, now); d.Replicas != want {
				t.Fatalf("%s: %d, an HPA returns %d for %d\n%s", now.Format("15:04:05"), d.Replicas, want, desired, table(p, &d))
			}
		}
	})
}

// exactWindow is a stabilization window that stores every proposal, as an HPA does.
type exactWindow []event

// greatest returns the greatest proposal in the window of the given length that ends at now.
func (w exactWindow) greatest(now time.Time, length time.Duration) (n int32) {
	for i := len(w) - 1; i >= 0 && w[i].at.After(now.Add(-length)); i-- {
		n = max(n, w[i].n)
	}
	return n
}

// Demand decreases from 200 to 20 replicas in 30 minutes. During this time there are more different recommendations than a window has
// entries, so entries are merged. The target may be only slightly above the target of an exact window.
func TestTargetFollowsALongDecrease(t *testing.T) {
	for _, c := range []struct {
		name   string
		scrape time.Duration
		window time.Duration
	}{
		{"readings every 15 seconds", 15 * time.Second, 5 * time.Minute},
		{"readings every second", time.Second, 5 * time.Minute},
		{"a window of an hour", 15 * time.Second, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Policy{Signals: []Signal{queue(1)}, MinReplicas: 1, MaxReplicas: 400, ScaleDown: Direction{StabilizationWindow: c.window}}
			w := newScenario(t, p, 200)
			w.value = func(w *scenario, _ int) float64 {
				past := w.now.Sub(nine).Truncate(c.scrape)
				return max(200-180*past.Minutes()/30, 20)
			}
			var exact exactWindow
			var target, want, late float64
			for range int((30*time.Minute + c.window) / time.Second) {
				w.tick(time.Second)
				exact = append(exact, event{w.now, roundUp(w.value(w, 0))})
				n := exact.greatest(w.now, c.window)
				target, want = target+float64(w.last.Replicas), want+float64(n)
				if w.last.Replicas < n {
					t.Fatalf("%s: target %d, the exact window holds %d", w.now.Format("15:04:05"), w.last.Replicas, n)
				}
				if held := exact.greatest(w.now, c.window+c.window/7); w.last.Replicas > held {
					t.Fatalf("%s: target %d, no proposal was above %d for a window and a seventh", w.now.Format("15:04:05"), w.last.Replicas, held)
				}
				if w.last.Replicas > n {
					late++
				}
			}
			t.Logf("replica-hours %.2f%% above the exact window, target above it for %.0f s", 100*(target/want-1), late)
			if target > 1.02*want {
				t.Errorf("%.0f replica-seconds, an exact window takes %.0f", target, want)
			}
			if w.run(c.window / 7); w.last.Replicas != 20 {
				t.Errorf("%d a window and a seventh after demand reached 20\n%s", w.last.Replicas, table(p, &w.last))
			}
		})
	}
}
