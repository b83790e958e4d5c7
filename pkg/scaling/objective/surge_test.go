package objective

import (
	"testing"
	"time"
)

// bursts simulates bursts of ten times the usual load. Each burst lasts five minutes and starts less than an hour after the previous burst.
// A cold start takes five minutes. After the last burst, a longer time passes without a burst.
func bursts(t *testing.T, w *workload) {
	t.Helper()
	w.cold = 5 * time.Minute
	w.run(t, 30*time.Minute, 2)
	for _, gap := range []time.Duration{20, 45, 30, 50, 25, 40, 30, 100} {
		w.run(t, 5*time.Minute, 20)
		w.run(t, gap*time.Minute, 2)
	}
}

// TestSteadyLoadHasNoSurge checks that a load that varies by half of its mean does not count as a surge.
func TestSteadyLoadHasNoSurge(t *testing.T) {
	w := newWorkload()
	w.runVarying(t, 3*time.Hour, 4, 0.5)
	if got := w.m.saved.B.Surge; got != 0 {
		t.Errorf("a surge of %v/s, want none", got)
	}
}

// TestKeepsTheReplicasOfABurstInALongGap checks that the replicas of a burst are kept if the next burst would make more work late than the
// SLO permits. So far, no gap between bursts was longer than an hour, so the rule that keeps replicas for an hour has had no more late work
// than the rule that keeps them for a day. It costs less in the longer gap. Without Tuning.Repeat, the model would choose it and remove the
// replicas.
func TestKeepsTheReplicasOfABurstInALongGap(t *testing.T) {
	w := newWorkload()
	bursts(t, w)
	if w.plan.Safe != NotSafe || w.plan.Replicas < 20 {
		t.Errorf("%s, want the learned rule with 20 replicas for a burst of 20/s", w.plan.Text())
	}
	without := DefaultTuning()
	without.Repeat = 0
	w = newWorkload()
	w.m = NewTuned(without)
	bursts(t, w)
	if w.plan.Replicas >= 20 {
		t.Errorf("without Repeat: %s, so this test does not show its effect", w.plan.Text())
	}
}

// TestLoadThatIsMuchLessThanUsualCanReturn serves a steady load on five days, and an eighth of it on a holiday. On the next day, most of
// the load returns suddenly. For an SLO of 99.9%, the work that would be late during a cold start exceeds the late budget, so the replicas
// for the usual load must be kept. For an SLO of 99%, it is within the budget, so most replicas must be removed.
func TestLoadThatIsMuchLessThanUsualCanReturn(t *testing.T) {
	for _, percentile := range []float64{99, 99.9} {
		w := newWorkload()
		w.cold, w.o.Percentile = 5*time.Minute, percentile
		w.run(t, 5*24*time.Hour, 8)
		w.run(t, 16*time.Hour, 1)
		holiday := w.plan
		w.run(t, 8*time.Hour, 1)
		late := w.runVarying(t, 12*time.Hour, 6.5, 0)
		if keeps := percentile == 99.9; keeps != (holiday.Replicas >= 8) || keeps != (late == 0) || holiday.Safe != NotSafe {
			t.Errorf("SLO of %v%%: %s on the holiday, late in %.2f%% of the next 12 hours", percentile, holiday.Text(), 100*late)
		}
		if late > 0.01 {
			t.Errorf("SLO of %v%%: late in %.2f%% of 12 hours, want at most 1%%", percentile, 100*late)
		}
	}
}
