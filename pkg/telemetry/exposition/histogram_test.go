package exposition

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func hist(sum float64, upperAndCount ...float64) Histogram {
	h := Histogram{Sum: sum}
	for i := 0; i < len(upperAndCount); i += 2 {
		h.AddBucket(upperAndCount[i], upperAndCount[i+1])
		h.Count = max(h.Count, upperAndCount[i+1])
	}
	return h
}

var inf = math.Inf(1)

func TestQuantileOfAHistogram(t *testing.T) {
	for _, c := range []struct {
		name string
		h    Histogram
		q    float64
		want float64
		ok   bool
	}{
		{"within a bucket", hist(0, 1, 10, 2, 20, inf, 20), 0.75, 1.5, true},
		{"above the highest bound: that bound", hist(0, 1, 10, 2, 10, inf, 20), 0.9, 2, true},
		{"nothing observed", hist(0, 1, 0, inf, 0), 0.9, 0, false},
		{"no finite bound", hist(0, inf, 5), 0.9, 0, false},
		{"no buckets", Histogram{Sum: 3, Count: 2}, 0.9, 0, false},
		{"a bucket that steps down, read a moment later", hist(0, 1, 10, 2, 9, 4, 20, inf, 20), 0.5, 1, true},
	} {
		if v, ok := c.h.Quantile(c.q); ok != c.ok || math.Abs(v-c.want) > 1e-9 {
			t.Errorf("%s: %g %t, want %g %t", c.name, v, ok, c.want, c.ok)
		}
	}
}

func TestLatencyOverAWindowOfPolls(t *testing.T) {
	var w Window
	at := func(seconds int) time.Time { return scraped.Add(time.Duration(seconds) * time.Second) }
	w.Observe(hist(100, 1, 90, 2, 100, inf, 100), at(0))
	if _, _, ok := w.Gain(time.Minute); ok {
		t.Error("a latency is known after one observation, whose requests may be from before the window")
	}
	w.Observe(hist(110, 1, 95, 2, 110, inf, 110), at(15))
	if g, _, ok := w.Gain(time.Minute); !ok || g.Count != 10 || g.Sum != 10 {
		t.Errorf("gained %+v, want 10 requests of 10 s together", g)
	}
	w.Observe(hist(110, 1, 95, 2, 110, inf, 110), at(30))
	if g, when, ok := w.Gain(15 * time.Second); !ok || g.Count != 0 || !when.Equal(at(30)) {
		t.Errorf("gained %+v at %v, want nothing in the last 15 s", g, when)
	}
	w.Observe(hist(3, 1, 1, 2, 2, inf, 2), at(45)) // the process restarted
	if g, _, _ := w.Gain(15 * time.Second); g.Count != 2 || g.Sum != 3 {
		t.Errorf("gained %+v after a restart, want the 2 requests since", g)
	}
	w.Observe(hist(8, 1, 2, 4, 7, inf, 7), at(60)) // a new version with different bucket bounds
	if g, _, _ := w.Gain(15 * time.Second); g.Count != 7 {
		t.Errorf("gained %+v with new bounds, want all 7", g)
	}
	w.Observe(Histogram{Count: math.NaN()}, at(75))
	w.Observe(hist(9, 1, 2, 4, 8, inf, 8), at(90))
	if g, _, ok := w.Gain(time.Hour); ok {
		t.Errorf("gained %+v after a counter that was not a number", g)
	}
}

func TestWindowWithoutObservationsIsIdleOnlyWithoutWaitingRequests(t *testing.T) {
	p, _ := Engine("vllm")
	m, _ := p.Lookup(TimeToFirstToken)
	idle := Observed{At: scraped, Quality: Good, Reported: len(m.Busy)}.WithoutObservations(m)
	if v, q := m.Latency(&idle.Gain, 0.95); idle.Quality != Good || v != 0 || q != Good {
		t.Errorf("idle server: %g (%d, %d), want 0", v, q, idle.Quality)
	}
	if stuck := (Observed{At: scraped, Quality: Good, Load: 12}).WithoutObservations(m); stuck.Quality != Suspected {
		t.Errorf("12 requests wait and none receives its first token: quality %d, want suspected", stuck.Quality)
	}
	if blind := (Observed{At: scraped, Quality: Good}).WithoutObservations(m); blind.Quality != Missing {
		t.Errorf("no gauge of waiting requests: quality %d, want missing", blind.Quality)
	}
	if busy := (Observed{At: scraped, Quality: Good, Gain: Histogram{Count: 1}}).WithoutObservations(m); busy.Quality != Good {
		t.Errorf("with observations no gauge is needed: quality %d", busy.Quality)
	}
}

func TestMergedPodsHaveTheQuantileOfAllTheirRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := []float64{0.1, 0.5, 1, 5, 10, inf}
		all := Histogram{}
		merged := Histogram{}
		for range rapid.IntRange(1, 5).Draw(t, "pods") {
			pod := Histogram{}
			for _, b := range bounds {
				pod.AddBucket(b, 0)
			}
			for range rapid.IntRange(0, 30).Draw(t, "requests") {
				took := rapid.Float64Range(0, 20).Draw(t, "took")
				pod.Sum += took
				pod.Count++
				for i := range pod.Buckets {
					if took <= pod.Buckets[i].Upper {
						pod.Buckets[i].Count++
					}
				}
			}
			for _, b := range pod.Buckets {
				all.AddBucket(b.Upper, b.Count)
			}
			merged.Merge(&pod)
		}
		q := rapid.Float64Range(0.01, 0.99).Draw(t, "q")
		a, aok := all.Quantile(q)
		b, bok := merged.Quantile(q)
		if aok != bok || math.Abs(a-b) > 1e-9 {
			t.Fatalf("%g %t of all, %g %t of the merged", a, aok, b, bok)
		}
	})
}

func TestMergeOfDifferentBoundsDoesNotUnderestimate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (Histogram, float64) {
			h, n := Histogram{}, 0.0
			for _, b := range rapid.SliceOfNDistinct(rapid.Float64Range(0.01, 100), 1, 6, rapid.ID).Draw(t, name) {
				h.AddBucket(b, 0)
			}
			for i := range h.Buckets {
				n += float64(rapid.IntRange(0, 9).Draw(t, "n"))
				h.Buckets[i].Count = n
			}
			h.AddBucket(inf, n)
			h.Count = n
			return h, n
		}
		a, na := draw("a")
		b, nb := draw("b")
		merged := a.clone()
		merged.Merge(&b)
		for i, x := range merged.Buckets {
			truth := countBelow(&a, x.Upper) + countBelow(&b, x.Upper)
			if x.Count > truth+1e-9 || (i > 0 && x.Count < merged.Buckets[i-1].Count) {
				t.Fatalf("bucket %g counts %g, at most %g are known to be in it", x.Upper, x.Count, truth)
			}
		}
		if last := merged.Buckets[len(merged.Buckets)-1]; !math.IsInf(last.Upper, 1) || last.Count != na+nb {
			t.Fatalf("last bucket %+v, want %g", last, na+nb)
		}
	})
}

func countBelow(h *Histogram, upper float64) (n float64) {
	for _, b := range h.Buckets {
		if b.Upper <= upper {
			n = b.Count
		}
	}
	return n
}
