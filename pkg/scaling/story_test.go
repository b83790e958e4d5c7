package scaling

import (
	"math"
	"testing"
	"time"
)

// scenario runs one policy second by second with a simulated workload. The workload has as many replicas as the target of the previous
// tick. A new replica is ready after the time in the field boot.
type scenario struct {
	t       *testing.T
	p       *Policy
	s       State
	now     time.Time
	boot    time.Duration
	last    Decision
	o       Observation
	value   func(w *scenario, i int) float64 // returns the value of signal i at the current time
	created []time.Time                      // creation time of each replica, oldest first
}

var nine = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC) // a Monday

func newScenario(t *testing.T, p *Policy, replicas int32, values ...float64) *scenario {
	w := &scenario{t: t, p: p, now: nine, s: Seed(p, replicas, nine)}
	w.o = Observation{Advice: NoAdvice, Operator: NoOperator, Readings: make([]Reading, len(p.Signals))}
	for range replicas {
		w.created = append(w.created, time.Time{})
	}
	w.load(values...)
	return w
}

func (w *scenario) load(values ...float64) {
	w.value = func(_ *scenario, i int) float64 { return values[i] }
}

// tick advances the clock by the given time and runs one tick.
func (w *scenario) tick(step time.Duration) Decision {
	w.t.Helper()
	w.now = w.now.Add(step)
	for int32(len(w.created)) > w.last.Replicas && w.last.Reasons.n > 0 {
		w.created = w.created[:len(w.created)-1]
	}
	for int32(len(w.created)) < w.last.Replicas && w.last.Reasons.n > 0 {
		w.created = append(w.created, w.now)
	}
	w.o.Replicas, w.o.Ready, w.o.Loading = int32(len(w.created)), 0, 0
	for _, b := range w.created {
		if w.now.Sub(b) >= w.boot {
			w.o.Ready++
		} else {
			w.o.Loading++
		}
	}
	for i := range w.o.Readings {
		if w.value != nil {
			w.o.Readings[i] = Reading{Value: w.value(w, i), At: w.now, Coverage: 1, Known: true}
			if math.IsNaN(w.o.Readings[i].Value) {
				w.o.Readings[i] = Reading{Cause: CauseEmpty, Failures: 100}
			}
		}
	}
	w.last, w.s = Decide(w.p, w.o, w.s, w.now)
	return w.last
}

// run runs one tick each second for the duration d.
func (w *scenario) run(d time.Duration) Decision {
	w.t.Helper()
	for range int(d / time.Second) {
		w.tick(time.Second)
	}
	return w.last
}

func (w *scenario) expect(n int32, why Rule) {
	w.t.Helper()
	if w.last.Replicas != n || w.last.Binding != why {
		w.t.Errorf("%s: %d by %v, want %d by %v\n%s", w.now.Format("15:04:05"), w.last.Replicas, w.last.Binding, n, why, table(w.p, &w.last))
	}
}

func table(p *Policy, d *Decision) (s string) {
	for _, r := range d.Reasons.All() {
		s += "\t" + r.Rule.String() + " " + itoa(r.From) + " -> " + itoa(r.To) + "  " + Explain.Reason(r, p) + "\n"
	}
	return s
}

func itoa(n int32) string { return trim(float64(n)) }

func queue(target float64) Signal {
	return Signal{Name: "queue", Kind: Total, Class: Demand, Target: target, MaxAge: time.Minute}
}

func busy(target float64) Signal {
	return Signal{Name: "gpu", Kind: Mean, Class: Utilization, Unit: Percent, Target: target, MaxAge: time.Minute, MinCoverage: 0.8}
}

func TestStepInTheQueueIsFollowedAtOnceAndRevertedAfterTheWindow(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 20,
		ScaleDown: Direction{StabilizationWindow: 10 * time.Minute, Rates: []RatePolicy{{Pods, 1, time.Minute}}}}
	w := newScenario(t, p, 6, 60)
	w.run(time.Minute)
	w.expect(6, RuleCombine)
	w.load(87)
	w.tick(time.Second)
	w.expect(9, RuleCombine)
	w.load(52)
	w.run(10*time.Minute - 2*time.Second)
	w.expect(9, RuleStabilize) // the window still contains the recommendation of 9 from 09:01:01
	if want := nine.Add(11*time.Minute + time.Second); !w.last.EarliestScaleDown.Equal(want) || w.last.ScaleDownRule != RuleStabilize {
		t.Errorf("EarliestScaleDown is %v by %v, want %v", w.last.EarliestScaleDown, w.last.ScaleDownRule, want)
	}
	w.run(2 * time.Second)
	w.expect(8, RuleRate) // the window no longer contains a recommendation of 9, and the rate permits one pod a minute
	w.run(59 * time.Second)
	w.expect(8, RuleRate)
	w.tick(time.Second)
	w.expect(7, RuleRate)
	w.run(time.Minute)
	w.expect(6, RuleCombine)
	w.run(time.Hour)
	w.expect(6, RuleCombine)
}

// The case is aibrix#2670: a model takes 5 minutes to load, and demand is constant. While the replicas load, the target must not increase
// again in each tick.
func TestLoadingReplicasAreNotRequestedTwice(t *testing.T) {
	unlimited := Direction{}
	t.Run("a total", func(t *testing.T) {
		p := &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 64, ScaleUp: unlimited}
		w := newScenario(t, p, 2, 40)
		w.boot = 5 * time.Minute
		for range 6 * 60 {
			if w.tick(time.Second); w.last.Replicas != 4 {
				t.Fatalf("%s: bought %d for a queue of 40 at 10 each", w.now.Format("15:04:05"), w.last.Replicas)
			}
		}
	})
	t.Run("a mean over the ready", func(t *testing.T) {
		p := &Policy{Signals: []Signal{busy(0.5)}, MinReplicas: 1, MaxReplicas: 64, ScaleUp: unlimited,
			ScaleDown: Direction{StabilizationWindow: 5 * time.Minute}}
		w := newScenario(t, p, 2)
		w.boot = 5 * time.Minute
		// The load keeps two replicas fully busy. It is divided among the ready replicas.
		w.value = func(w *scenario, _ int) float64 { return 2 / float64(max(w.o.Ready, 1)) }
		for range 20 * 60 {
			if w.tick(time.Second); w.last.Replicas != 4 {
				t.Fatalf("%s: bought %d for two replicas' work at 50%%\n%s", w.now.Format("15:04:05"), w.last.Replicas, table(p, &w.last))
			}
		}
	})
	t.Run("a mean that still speaks of the two old ones", func(t *testing.T) {
		p := &Policy{Signals: []Signal{busy(0.5)}, MinReplicas: 1, MaxReplicas: 64, ScaleUp: unlimited}
		w := newScenario(t, p, 4)
		w.value = nil
		w.o.Readings[0] = Reading{Value: 1, At: w.now, Coverage: 0.5, Reported: 2, Known: true}
		if d := w.tick(time.Second); d.Replicas != 4 {
			t.Errorf("2 of 4 replicas are busy at twice the target: want 4, got %d", d.Replicas)
		}
	})
}

func TestScaleToZeroAtNightAndUpOnTheFirstRequest(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MinReplicas: 0, MaxReplicas: 20, CooldownPeriod: 15 * time.Minute,
		ScaleUp:   Direction{Rates: []RatePolicy{{Pods, 4, 15 * time.Second}}},
		ScaleDown: Direction{StabilizationWindow: 5 * time.Minute, Rates: []RatePolicy{{Pods, 1, time.Minute}}}}
	w := newScenario(t, p, 3, 0)
	w.run(5 * time.Minute)
	w.expect(2, RuleRate) // the window no longer contains a recommendation of 3
	w.run(time.Minute)
	w.expect(1, RuleIdle) // the queue needs no replica, but the cooldown keeps one
	w.run(9*time.Minute - time.Second)
	w.expect(1, RuleIdle)
	if want := nine.Add(15 * time.Minute); !w.last.EarliestScaleDown.Equal(want) || w.last.ScaleDownRule != RuleIdle {
		t.Errorf("EarliestScaleDown is %v by %v, want %v by the cooldown", w.last.EarliestScaleDown, w.last.ScaleDownRule, want)
	}
	w.tick(time.Second) // 09:15:00, without further requests
	w.expect(0, RuleCombine)
	w.run(time.Hour)
	w.expect(0, RuleCombine)
	w.load(65)
	w.tick(time.Second)
	w.expect(4, RuleRate) // 7 are needed, and the rate permits 4 pods in 15 s
	w.run(15 * time.Second)
	w.expect(7, RuleCombine)
}

func TestEndOfABacklogDoesNotScaleToZeroAtOnce(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MaxReplicas: 20, CooldownPeriod: time.Minute,
		ScaleDown: Direction{StabilizationWindow: 10 * time.Minute, Rates: []RatePolicy{{Pods, 2, 30 * time.Second}}}}
	w := newScenario(t, p, 9, 0)
	w.run(time.Minute)
	w.expect(7, RuleRate) // the cooldown is over, so the scale-down window does not apply; the rate permits two pods
	for _, want := range []int32{5, 3, 1, 0} {
		if w.run(30 * time.Second); w.last.Replicas != want {
			t.Errorf("%s: %d, want %d", w.now.Format("15:04:05"), w.last.Replicas, want)
		}
	}
}

func TestOutageOfPrometheusKeepsTheTarget(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MaxReplicas: 20, CooldownPeriod: 5 * time.Minute}
	w := newScenario(t, p, 10, 100)
	w.run(time.Minute)
	w.value = nil // there are no new samples, so the last sample becomes stale
	w.run(time.Minute)
	w.expect(10, RuleCombine)
	w.tick(time.Second)
	w.expect(10, RuleMissing) // the reading is stale
	for i := range w.o.Readings {
		w.o.Readings[i] = Reading{Cause: CauseUnreachable, Failures: 9}
	}
	for range 3600 {
		if w.tick(time.Second); w.last.Replicas != 10 || !w.last.Degraded || !w.last.Active {
			t.Fatalf("%s: %d, degraded %v", w.now.Format("15:04:05"), w.last.Replicas, w.last.Degraded)
		}
	}
	w.load(120)
	w.tick(time.Second)
	w.expect(12, RuleCombine) // the signal has a value again, which raises the target immediately
	w.load(20)
	w.tick(time.Second)
	w.expect(2, RuleCombine)
}

func TestMissingSignalsStopTheCooldown(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MaxReplicas: 20, CooldownPeriod: 10 * time.Minute}
	w := newScenario(t, p, 1, 0)
	w.run(9 * time.Minute)
	w.value = nil
	w.o.Readings[0] = Reading{Cause: CauseEmpty}
	w.run(time.Hour)
	w.expect(1, RuleMissing)
	w.load(0)
	w.run(59 * time.Second) // idle for 9 minutes before the outage and for 59 s after it; the outage does not count
	w.expect(1, RuleIdle)
	w.run(time.Second)
	w.expect(0, RuleCombine)
}

func TestRestartDoesNotScaleDown(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MaxReplicas: 20, CooldownPeriod: 15 * time.Minute,
		ScaleDown: Direction{StabilizationWindow: 10 * time.Minute}}
	w := newScenario(t, p, 8, 0)
	w.run(9 * time.Minute)
	w.s = Seed(p, w.last.Replicas, w.now) // another leader, which has only the current observation
	w.run(10*time.Minute - time.Second)
	w.expect(8, RuleStabilize)
	w.tick(time.Second)
	w.expect(1, RuleIdle)
	w.s = State{} // a caller that starts with the zero State and does not call Seed
	w.run(15*time.Minute - time.Second)
	w.expect(1, RuleIdle)
}

func TestBurstPreventsScaleDownUntilThePanicWindowEnds(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 40,
		ScaleUp: Direction{StabilizationWindow: time.Minute, Rates: []RatePolicy{{Pods, 1, time.Minute}}},
		Panic:   Panic{Threshold: 2, Window: 90 * time.Second}}
	w := newScenario(t, p, 5, 50)
	w.run(2 * time.Minute)
	w.load(90)
	w.run(30 * time.Second)
	w.expect(5, RuleStabilize) // 9 replicas are 1.8 times the ready replicas, so the increase waits for the scale-up window
	w.load(100)
	w.tick(time.Second)
	w.expect(10, RuleCombine) // 10 replicas are twice the ready replicas, so the increase is immediate
	w.load(10)
	w.run(89 * time.Second)
	w.expect(10, RulePanic)
	w.tick(time.Second)
	w.expect(1, RuleCombine)
}

// A chat service has a gateway queue, which has a value at zero replicas, and three signals that are read from its pods, which have no
// value at zero replicas. The fallback to 9 replicas must not apply during a cold start.
func TestColdStartFromZeroFollowsTheGateway(t *testing.T) {
	kv := Signal{Name: "kv", Kind: Mean, Class: Utilization, Target: 0.8, MaxAge: time.Minute, MinCoverage: 0.8}
	engine := queue(10)
	engine.Name = "engine"
	p := &Policy{Signals: []Signal{queue(10), engine, kv, busy(0.7)}, MaxReplicas: 12, CooldownPeriod: 15 * time.Minute,
		Fallback:  Fallback{FailureThreshold: 3, Behavior: FallbackStatic, Replicas: 9},
		ScaleDown: Direction{StabilizationWindow: 10 * time.Minute, Rates: []RatePolicy{{Pods, 1, time.Minute}}}}
	w := newScenario(t, p, 0)
	w.boot = 4 * time.Minute
	waiting := 0.0
	w.value = func(w *scenario, i int) float64 {
		switch {
		case i == 0:
			return waiting
		case w.o.Ready == 0:
			return math.NaN()
		case i == 1:
			return 0
		}
		return min(waiting/12/float64(w.o.Ready), 1) // 12 requests at the same time make a replica busy
	}
	w.run(time.Hour)
	w.expect(0, RuleCombine)
	if w.last.Degraded || w.last.Active {
		t.Errorf("a quiet zero: degraded %v, active %v", w.last.Degraded, w.last.Active)
	}
	waiting = 24
	for range 20 * 60 {
		if w.tick(time.Second); w.last.Replicas != 3 {
			t.Fatalf("%s: %d for 24 waiting\n%s", w.now.Format("15:04:05"), w.last.Replicas, table(p, &w.last))
		}
	}
	waiting = 0
	w.run(10 * time.Minute)
	w.expect(2, RuleRate)
	w.run(5*time.Minute - 2*time.Second)
	w.expect(1, RuleIdle)
	w.run(2 * time.Second)
	w.expect(0, RuleCombine)
	w.run(10 * time.Minute)
	w.expect(0, RuleCombine)
}

// A spot node with 2 of 6 replicas will be interrupted in two minutes, and a replacement loads for one minute. The target must not change
// until the node is gone. If the target decreased as soon as the replacements are ready, the ReplicaSet would choose which pods to delete,
// and could delete a replacement.
func TestReplacementsAreKeptUntilTheNodeIsGone(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 20}
	w := newScenario(t, p, 6, 60)
	w.boot = time.Minute
	w.run(time.Minute)
	w.expect(6, RuleCombine)
	w.o.Advice.AtRisk = 2
	for range 120 {
		if w.tick(time.Second); w.last.Replicas != 8 {
			t.Fatalf("%s: %d while two of them are about to go, want 8\n%s", w.now.Format("15:04:05"), w.last.Replicas, table(p, &w.last))
		}
	}
	w.o.Advice.AtRisk = 0
	w.created = w.created[2:] // the two oldest replicas are deleted with their node
	w.tick(time.Second)
	w.expect(6, RuleCombine)
	if w.o.Ready < 6 {
		t.Errorf("%d ready when the node was deleted, want 6", w.o.Ready)
	}
}

// The advice of the capacity group is one tick old. When the node of the only replica is interrupted, the observation no longer contains
// the replica, but the advice contains it for one more tick. The target must not decrease in this tick: the only pod that a ReplicaSet
// could delete then is the replacement.
func TestTargetDoesNotDecreaseBecauseTheAdviceIsOneTickOld(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 20}
	w := newScenario(t, p, 1, 10)
	w.boot = time.Minute
	w.run(time.Minute)
	w.o.Advice.AtRisk = 1
	w.run(30 * time.Second)
	w.expect(2, RuleAtRisk)
	w.created = w.created[1:] // the node was deleted, and the replacement is not ready
	w.tick(time.Second)
	if w.o.Ready != 0 {
		t.Fatalf("%d ready replicas, want none", w.o.Ready)
	}
	w.expect(2, RuleAtRisk)
	w.o.Advice.AtRisk = 0
	w.tick(time.Second)
	w.expect(1, RuleCombine)
}
