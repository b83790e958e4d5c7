package scaling

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// hpa is an implementation of the scaling behavior of an HPA for comparison. It follows the functions stabilizeRecommendationWithBehaviors
// and convertDesiredReplicasWithBehaviorRate and the two limits in k8s.io/kubernetes 1.36, pkg/controller/podautoscaler, with the same
// scale events and floating-point arithmetic.
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

// Decide must return the target of the HPA. One difference is excluded: the type hpa subtracts 1e-9 before it rounds up, because with
// floating-point numbers ceil(110 * 1.1) is 122, although ten percent more is 121.
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
				t.Fatalf("%s: %d, an HPA says %d for %d\n%s", now.Format("15:04:05"), d.Replicas, want, desired, table(p, &d))
			}
		}
	})
}

func TestWindowIsExactForAsManyValuesAsItHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int32{5, windowSize, 1000}).Draw(t, "most")
		var w window
		var all []event
		now, last := nine, int32(1000)
		for range rapid.IntRange(1, 300).Draw(t, "ticks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "step")) * time.Second)
			cutoff := now.Add(-time.Minute * 5)
			n, want := rapid.Int32Range(1, most).Draw(t, "n"), int32(0)
			if most == 1000 {
				n = max(last-rapid.Int32Range(-3, 12).Draw(t, "fall"), 1) // a long fall keeps them all
			}
			last = n
			w.expire(stamp(cutoff))
			w.push(stamp(now), n, 0)
			all = append(all, event{now, n})
			longest := int32(0)
			for _, e := range all {
				if e.at.After(cutoff) {
					want = max(want, e.n)
				}
				if e.at.After(cutoff.Add(-5 * time.Minute / overhold)) {
					longest = max(longest, e.n)
				}
			}
			got := w.greatest(stamp(cutoff), n)
			if got < want || got > longest || most <= windowSize && got != want {
				t.Fatalf("window says %d, all values say %d, those of a window that is a seventh longer %d", got, want, longest)
			}
		}
	})
}

func TestStepsContainEveryChangeOrItsRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s steps
		var all []event
		const keep = 120 * time.Second
		now := nine
		even := rapid.IntRange(0, 5).Draw(t, "even") // changes at a fixed interval; 0: at any time
		for range rapid.IntRange(1, 80).Draw(t, "ticks") {
			step := even
			if step == 0 {
				step = rapid.SampledFrom([]int{1, 1, 1, 1, 1, 30}).Draw(t, "step")
			}
			now = now.Add(time.Duration(step) * time.Second)
			n := rapid.Int32Range(0, 9).Draw(t, "n")
			if s.n == 0 || s.last() != n {
				s.push(stamp(now), n, keep.Milliseconds())
			}
			all = append(all, event{now, n})
			at := now.Add(-time.Duration(rapid.IntRange(0, 120).Draw(t, "back")) * time.Second)
			want, least, most := all[0].n, int32(math.MaxInt32), int32(0) // at the time, and within a seventh of the period around it
			for i, e := range all {
				if !e.at.After(at) {
					want = e.n
				}
				ends := i+1 == len(all) || all[i+1].at.After(at.Add(-keep/overhold))
				if ends && !e.at.After(at.Add(keep/overhold)) {
					least, most = min(least, e.n), max(most, e.n)
				}
			}
			got := s.list[s.before(stamp(at))]
			if !at.Before(all[0].at) && (got.low < least || got.high > most) {
				t.Fatalf("%v ago it was %d, within a seventh of the period %d..%d, remembered as %d..%d",
					now.Sub(at), want, least, most, got.low, got.high)
			}
			if got.low > want || got.high < want || len(all) <= stepsSize && got.low != got.high {
				t.Fatalf("%v ago it was %d, remembered as %d..%d", now.Sub(at), want, got.low, got.high)
			}
			if newest := s.list[s.n-1]; newest.low != n || newest.high != n {
				t.Fatalf("now it is %d, remembered as %+v", n, newest)
			}
		}
	})
}
