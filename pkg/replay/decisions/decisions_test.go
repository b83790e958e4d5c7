package decisions

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

func TestSimulator(t *testing.T) {
	r := &run{work: []float64{2, 0, 6, 0, 0, 0, 0, 0}, capacity: 1, changed: 1, change: 8}
	r.total = []float64{0, 2, 2, 8, 8, 8, 8, 8, 8}
	s := setup{cold: 2, wait: 1, most: 10}
	for _, c := range []struct {
		name   string
		policy policy
		want   score
	}{
		// One replica serves the 2 units of slot 0 in time. Of the 6 units of slot 2 it serves only 2 in time, in slots 2 and 3.
		{"one", static(1), score{Late: 4, Work: 8, Cost: 40}},
		// The run begins with one ready replica. Two more are ready after the cold start, in slot 2, but are paid from slot 0. The three
		// replicas serve 3 units of work in slot 2 and 3 in slot 3.
		{"three", static(3), score{Late: 0, Work: 8, Cost: 120}},
		// A replica that is removed and started again needs a second cold start.
		{"flapping", flapping{}, score{Late: 7, Work: 8, Cost: 35}},
	} {
		if got := simulate(r, s, c.policy); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

type flapping struct{}

func (flapping) decide(v *view) int32 {
	if v.t == 1 {
		return 0
	}
	return 1
}

// TestObjectiveOnUntunedTraffic is a short part of `make bench-decisions`. The model gets only the SLO. It must learn the capacity of a
// replica.
func TestObjectiveOnUntunedTraffic(t *testing.T) {
	for _, c := range []struct {
		family string
		wait   time.Duration
		// greatest allowed cost, relative to the smallest fixed fleet and to the best reactive baseline, both known only after the run
		overStatic, most float64
	}{
		{"flat", 10 * time.Second, 1.15, 1.1},
		{"bursty", 10 * time.Second, 1.2, 1.1},
		{"bursty", time.Minute, 0.7, 1.1},
	} {
		f := developed[slices.IndexFunc(developed, func(f family) bool { return f.name == c.family })]
		r := f.newLaw(3).realize(3)
		s := newSetup(r, time.Minute, c.wait)
		got := simulate(r, s, newLearned(r, s, 99, objective.DefaultTuning()))
		fleet, static := smallestStatic(r, s, allowedLate(99))
		if got.lateShare() > allowedLate(99) {
			t.Errorf("%s, wait %v: %.2f%% attained, want 99%%", c.family, c.wait, 100*(1-got.lateShare()))
		}
		if got.Cost > c.overStatic*static.Cost {
			t.Errorf("%s, wait %v: cost %.2f of %d replicas, want at most %.2f", c.family, c.wait, got.Cost/static.Cost, fleet, c.overStatic)
		}
		if tuned, met := tunedReactive(reactiveGrid(r, s), allowedLate(99)); met && got.Cost > c.most*tuned.Cost {
			t.Errorf("%s, wait %v: cost %.2f of the baseline tuned in hindsight, want at most %.2f", c.family, c.wait, got.Cost/tuned.Cost, c.most)
		}
	}
}
