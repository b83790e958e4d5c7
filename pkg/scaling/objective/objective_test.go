package objective

import (
	"testing"
	"time"
)

var start = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

func known(v float64, at time.Time) Value { return Value{V: v, At: at, Known: true} }

// workload simulates a workload whose replicas follow the plans of the model m. Work is a continuous quantity, without single requests. A
// tick is 5 seconds long.
type workload struct {
	m        *Model
	o        Objective
	l        Limits
	now      time.Time
	capacity float64 // capacity of a replica, in work per second
	cold     time.Duration
	queue    float64
	ready    int32
	starting []time.Duration
	version  uint64
	change   func(e *Evidence) // changes the evidence before the model reads it
	plan     Plan
}

func newWorkload() *workload {
	return &workload{m: New(), o: Objective{Limit: 10 * time.Second, Percentile: 99}, l: Limits{Max: 50}, now: start, capacity: 1,
		cold: time.Minute, ready: 1, version: 1}
}

// run continues the simulation for the duration length. load is the work that arrives per second.
func (w *workload) run(t *testing.T, length time.Duration, load float64) {
	t.Helper()
	const tick = 5 * time.Second
	for end := w.now.Add(length); w.now.Before(end); {
		w.now = w.now.Add(tick)
		e := Evidence{Version: w.version}
		for i := 0; i < len(w.starting); {
			if w.starting[i] += tick; w.starting[i] >= w.cold {
				w.ready++
				w.starting = append(w.starting[:i], w.starting[i+1:]...)
				e.ColdStarts = append(e.ColdStarts, ColdStart{Total: w.cold})
				continue
			}
			i++
		}
		served := min(w.queue+load*tick.Seconds(), float64(w.ready)*w.capacity*tick.Seconds())
		w.queue += load*tick.Seconds() - served
		e.Arrivals, e.Served, e.Queued = known(load, w.now), known(served/tick.Seconds(), w.now), known(w.queue, w.now)
		e.Ready, e.Starting = w.ready, w.starting
		if w.change != nil {
			w.change(&e)
		}
		w.m.Observe(w.now, &e)
		w.plan = w.m.Plan(w.now, w.o, w.l)
		w.follow(t)
	}
}

// follow starts or removes replicas until their number equals the number in the plan.
func (w *workload) follow(t *testing.T) {
	t.Helper()
	sum := int32(0)
	for _, n := range w.plan.Added {
		sum += n
	}
	if sum != w.plan.Replicas || sum < w.l.Min || sum > w.l.Max {
		t.Fatalf("%v: %d replicas, the terms add up to %d, limits %v: %s", w.now, w.plan.Replicas, sum, w.l, w.plan.Text())
	}
	for n := w.plan.Replicas - w.ready - int32(len(w.starting)); n > 0; n-- {
		w.starting = append(w.starting, 0)
	}
	for n := w.ready + int32(len(w.starting)) - w.plan.Replicas; n > 0; n-- {
		if len(w.starting) > 0 {
			w.starting = w.starting[:len(w.starting)-1]
		} else {
			w.ready--
		}
	}
}

// TestWindowLimitsTheAttainedShare misses the SLO for an hour and meets it for a day. The share that was attained within the window of an
// hour must then be 1. Within the default window of a day, it must still contain the hour.
func TestWindowLimitsTheAttainedShare(t *testing.T) {
	for _, window := range []time.Duration{time.Hour, 0} {
		w := newWorkload()
		w.o.Window, w.l.Max = window, 3
		w.run(t, time.Hour, 4.2) // more than three replicas can serve
		missed := w.m.Learned()
		w.l.Max = 20
		w.run(t, 24*time.Hour, 4.2)
		l := w.m.Learned()
		if missed.Attained > 0.4 || missed.Budget != 0 {
			t.Errorf("window %v: attained %.3f with budget %.3f left in an hour with too few replicas", window, missed.Attained, missed.Budget)
		}
		if hour := window == time.Hour; hour != (l.Attained > 0.9999) || hour != (l.Budget > 0.99) || !hour && l.Attained < 0.9 {
			t.Errorf("window %v: attained %.5f with budget %.3f left a day later", window, l.Attained, l.Budget)
		}
	}
}

// TestLearnsAWorkload runs a workload from its first minute. At first, the safe policy must determine the plan. After two hours, the number
// of replicas must be close to what the load needs. While all metrics are missing, the number of replicas must not change. When a new
// version of the server has half the capacity, the model must learn the new capacity.
func TestLearnsAWorkload(t *testing.T) {
	w := newWorkload()
	w.run(t, time.Minute, 4.2)
	if w.plan.Safe == NotSafe || w.plan.Replicas < 5 {
		t.Errorf("first minute: %s, want at least 5 replicas of the safe policy", w.plan.Text())
	}
	w.run(t, 2*time.Hour, 4.2)
	if w.plan.Safe != NotSafe || w.plan.Replicas < 5 || w.plan.Replicas > 6 || w.queue > 0 {
		t.Errorf("after two hours: %s, want 5 or 6 replicas for 4.2/s at 1/s per replica", w.plan.Text())
	}
	if l := w.m.Learned(); l.Capacity.P50 != 1 || l.ColdStart.P90 != 60 || l.Load < 4.1 || l.Load > 4.3 {
		t.Errorf("learned %+v, want capacity 1, cold start 60, load 4.2", l)
	}
	before := w.plan.Replicas
	w.change = func(e *Evidence) { e.Arrivals, e.Served, e.Queued = Value{}, Value{}, Value{} }
	w.run(t, 30*time.Minute, 0)
	if w.plan.Safe != EvidenceMissing || w.plan.Replicas != before {
		t.Errorf("metrics missing: %s, want the %d replicas from before", w.plan.Text(), before)
	}
	w.change, w.capacity, w.version = nil, 0.5, 2
	w.run(t, 30*time.Minute, 4.2)
	if got := w.m.Learned().Capacity.P50; got != 0.5 || w.plan.Replicas < 9 {
		t.Errorf("after a rollout to half the capacity: learned %v, %s, want 0.5 and at least 9", got, w.plan.Text())
	}
}

// In all outputs, the text of a plan follows the number of replicas ("6 replicas: "), so the text must not repeat this number.
func TestPlanAsText(t *testing.T) {
	for _, c := range []struct {
		plan Plan
		want string
	}{
		{Plan{Replicas: 6, Added: [Terms]int32{TermSafe: 6}, Safe: EvidenceMissing}, "safe policy, because arrivals and queue are missing"},
		{Plan{Replicas: 6, Added: [Terms]int32{TermLevel: 4, TermSafe: 2}, Safe: EvidenceMissing},
			"safe policy, because arrivals and queue are missing: 4 (expected load) + 2 (safe policy)"},
		{Plan{Replicas: 5, Added: [Terms]int32{TermLevel: 4, TermMargin: 3, TermLimits: -2}, Load: 4.2, Queued: 1, Capacity: 1.5},
			"4 (expected load) + 3 (variation) - 2 (limits); expected load 4.2/s, queued 1, capacity per replica 1.5/s"},
		{Plan{Capacity: 1.5}, "no replica is needed; expected load 0/s, queued 0, capacity per replica 1.5/s"},
		{Plan{Safe: EvidenceMissing}, "safe policy, because arrivals and queue are missing: no replica is needed"},
	} {
		if got := c.plan.Text(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A disabled kind of rules is never chosen. Each rule belongs to at most one of the kinds. The remaining rules use the means of half a
// minute to ten minutes.
func TestDisabledKindsOfRulesAreNotChosen(t *testing.T) {
	counts := map[Rules]int{TrendRules: 4, SeasonRules: 4, PeakRules: 34, HourRules: 8}
	for kind, want := range counts {
		n := 0
		for i := range rules {
			if rules[i].isIn(kind) {
				n++
			}
		}
		if n != want || rules[0].isIn(kind) {
			t.Errorf("%d rules of kind %d, want %d", n, kind, want)
		}
		w := newWorkload()
		tuning := DefaultTuning()
		tuning.Without = kind
		w.m = NewTuned(tuning)
		w.change = func(*Evidence) {
			if r := &rules[w.m.saved.B.Best]; r.isIn(kind) {
				t.Fatalf("%s is chosen without its kind", w.plan.RuleText())
			}
		}
		for minute := range 6 * 60 {
			w.run(t, time.Minute, float64(1+minute/10%5))
		}
	}
}
