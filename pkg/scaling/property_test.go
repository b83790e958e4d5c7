package scaling

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anyPolicy returns a random valid policy. If calm is true, the policy has no schedule ceilings, which would lower the target independently
// of the signals.
func anyPolicy(t *rapid.T, calm bool) *Policy {
	seconds := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Second
	}
	p := &Policy{
		Activation: Activation(rapid.IntRange(0, 1).Draw(t, "activation")), MinReplicas: int32(rapid.IntRange(0, 3).Draw(t, "min")),
		CooldownPeriod: seconds("cooldown", 90),
		Fallback: Fallback{FailureThreshold: int32(rapid.IntRange(0, 3).Draw(t, "threshold")),
			Behavior: FallbackBehavior(rapid.IntRange(0, 4).Draw(t, "behavior")),
			Replicas: int32(rapid.IntRange(0, 12).Draw(t, "fallback"))},
		Panic: Panic{Threshold: float64(rapid.IntRange(0, 3).Draw(t, "panic")), Window: seconds("panicWindow", 60)},
	}
	p.MaxReplicas = p.MinReplicas + int32(rapid.IntRange(0, 30).Draw(t, "span"))
	for i := range rapid.IntRange(0, MaxSignals).Draw(t, "signals") {
		p.Signals = append(p.Signals, Signal{Name: string(rune('a' + i)), Kind: Kind(rapid.IntRange(0, 1).Draw(t, "kind")),
			Class:  Class(rapid.IntRange(0, 2).Draw(t, "class")),
			Target: rapid.Float64Range(0.1, 20).Draw(t, "target"), Activation: float64(rapid.IntRange(0, 2).Draw(t, "active")),
			Optional: rapid.IntRange(0, 4).Draw(t, "optional") == 0,
			Forecast: Forecast{Window: rapid.SampledFrom([]time.Duration{0, 0, time.Second, 5 * time.Minute}).Draw(t, "forecastWindow"),
				Deviations: float64(rapid.IntRange(0, 3).Draw(t, "deviations")), Replaces: rapid.Bool().Draw(t, "forecastReplaces")},
			MaxAge: 30 * time.Second, MinCoverage: rapid.SampledFrom([]float64{0, 0.5, 0.8}).Draw(t, "minCoverage")})
	}
	for i, d := range []*Direction{&p.ScaleUp, &p.ScaleDown} {
		name := []string{"up", "down"}[i]
		d.StabilizationWindow = seconds(name+"Window", 120)
		d.Tolerance = rapid.SampledFrom([]float64{0, 0.1}).Draw(t, name+"Tolerance")
		d.Select = SelectPolicy(rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, name+"Select"))
		for range rapid.IntRange(0, 3).Draw(t, name+"Rates") {
			d.Rates = append(d.Rates, RatePolicy{RateType(rapid.IntRange(0, 1).Draw(t, "type")),
				int32(rapid.SampledFrom([]int{1, 2, 5, 10, 50, 100}).Draw(t, "value")), time.Second + seconds("period", 60)})
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "schedules") {
		from := seconds("from", 300)
		s := on("window", from, from+time.Second+seconds("length", 300), int32(rapid.IntRange(-1, 12).Draw(t, "floor")), -1)
		if !calm {
			s.Max = int32(rapid.IntRange(-1, 12).Draw(t, "ceiling"))
		}
		s.Lead = seconds("lead", 60)
		p.Schedules = append(p.Schedules, s)
	}
	return p
}

// anyObservation returns a random observation, which may contain values that do not occur in a cluster. If calm is true, it has no pause
// and no override.
func anyObservation(t *rapid.T, p *Policy, now time.Time, calm bool) Observation {
	n := rapid.Int32Range(-1, 14)
	o := Observation{Replicas: n.Draw(t, "replicas"), Ready: n.Draw(t, "ready"), Loading: n.Draw(t, "loading"),
		Pending: n.Draw(t, "pending"), Forecast: rapid.Int32Range(-1, 3).Draw(t, "forecast"),
		Advice: NoAdvice, Operator: NoOperator}
	for range len(p.Signals) - rapid.IntRange(0, 9).Draw(t, "short")/9 {
		r := Reading{Value: rapid.OneOf(rapid.Float64Range(0, 100), rapid.SampledFrom([]float64{0,
			0, math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300, math.MaxFloat64})).Draw(t, "value"),
			Coverage: rapid.SampledFrom([]float64{1, 1, 1, 1, 0.9, 0.5, 0, math.NaN(), -1, 7}).Draw(t, "coverage"),
			Failures: rapid.Int32Range(0, 4).Draw(t, "failures"), Known: rapid.IntRange(0, 9).Draw(t, "known") > 0}
		r.At = now.Add(-time.Duration(rapid.SampledFrom([]int{0, 1, 10, 29, 30, 31, 119,
			121, -5, -31, 1 << 30, -1 << 30}).Draw(t, "age")) * time.Second)
		o.Readings = append(o.Readings, r)
	}
	some := rapid.Int32Range(-1, 12)
	o.Advice = Advice{Cap: some.Draw(t, "cap"), AtRisk: rapid.Int32Range(-1, 4).Draw(t, "risk"),
		Surge: rapid.Int32Range(-1, 2).Draw(t, "surge")}
	o.HPAMaxReplicas = rapid.SampledFrom([]int32{0, 0, 0, 0, -1, 1, 4, 9, 1 << 30}).Draw(t, "ceiling")
	if calm {
		return o
	}
	if rapid.IntRange(0, 3).Draw(t, "operator") == 0 {
		o.Operator = Operator{Paused: rapid.IntRange(0, 3).Draw(t, "paused") == 0, Min: some.Draw(t, "opMin"), Max: some.Draw(t, "opMax"),
			Until: now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "until")) * time.Minute)}
	}
	return o
}

// drive runs several ticks of a random policy with random observations. Before each tick it calls the function look with the inputs of
// Decide.
func drive(t *rapid.T, calm bool, look func(p *Policy, o Observation, s State, now time.Time)) {
	p := anyPolicy(t, calm)
	now := nine
	s := Seed(p, rapid.Int32Range(0, 12).Draw(t, "seed"), now)
	for range rapid.IntRange(1, 25).Draw(t, "ticks") {
		now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 1, 1, 15, 61, 0, -1, -3600}).Draw(t, "step")) * time.Second)
		o := anyObservation(t, p, now, calm)
		look(p, o, s, now)
		_, s = Decide(p, o, s, now)
	}
}

func TestDecisionIsWithinBoundsAndReasonsLeadToIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drive(t, false, func(p *Policy, o Observation, s State, now time.Time) {
			d, _ := Decide(p, o, s, now)
			sound(t, p, o, &d)
		})
	})
}

type failer interface{ Errorf(string, ...any) }

// highest returns the greatest allowed target: maxReplicas of the policy, or of its managed HPA if it is less.
func highest(p *Policy, o Observation) int32 {
	if o.HPAMaxReplicas > 0 {
		return max(min(p.MaxReplicas, o.HPAMaxReplicas), 0)
	}
	return max(p.MaxReplicas, 0)
}

// sound checks properties that every decision must have.
func sound(t failer, p *Policy, o Observation, d *Decision) {
	high := highest(p, o)
	low := min(max(p.MinReplicas, 0), high)
	if o.Operator.Paused {
		low = 0
	}
	for _, n := range []int32{d.Replicas, d.Uncapped} {
		if n < low || n > high {
			t.Errorf("%d or %d outside %d..%d", d.Replicas, d.Uncapped, low, high)
		}
	}
	if d.Uncapped < d.Replicas {
		t.Errorf("a cap raised %d to %d", d.Uncapped, d.Replicas)
	}
	if d.Active && d.Replicas == 0 {
		t.Errorf("active with none")
	}
	all := d.Reasons.All()
	for i, r := range all {
		if i > 0 && (r.From != all[i-1].To || r.Rule <= all[i-1].Rule) {
			t.Errorf("reasons do not follow each other\n%s", table(p, d))
		}
		if Explain.Reason(r, p) == "" {
			t.Errorf("%v has no text", r.Rule)
		}
	}
	if len(all) == 0 || all[len(all)-1].To != d.Replicas {
		t.Errorf("reasons do not lead to %d\n%s", d.Replicas, table(p, d))
	}
}

func TestSameInputsGiveTheSameDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drive(t, false, func(p *Policy, o Observation, s State, now time.Time) {
			d1, s1 := Decide(p, o, s, now)
			d2, s2 := Decide(p, o, s, now)
			if d1 != d2 || s1 != s2 {
				t.Fatalf("two answers to one question:\n%+v\n%+v", d1, d2)
			}
			place := s
			if d3 := place.Decide(p, &o, now); d3 != d1 || place != s1 {
				t.Fatalf("in place it decides otherwise:\n%+v\n%+v", d1, d3)
			}
		})
	})
}

func TestMissingInputsNeverLower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drive(t, true, func(p *Policy, o Observation, s State, now time.Time) {
			d, _ := Decide(p, o, s, now)
			bad := false
			for i, sig := range p.Signals {
				bad = bad || d.Status[i] != SignalOK && !sig.Optional
			}
			least := o.Replicas
			if o.Advice.Cap < 0 {
				least = max(least, s.lastTarget) // the replicas of the last target were requested, but may not exist yet
			}
			if bad && d.Replicas < min(least, highest(p, o)) {
				t.Fatalf("the target decreased from %d to %d with missing inputs\n%s", least, d.Replicas, table(p, &d))
			}
			if bad && o.Replicas > 0 && !d.Degraded {
				t.Fatalf("the decision is not degraded although inputs are missing")
			}
			// The same observation with a missing signal must not result in a lower target.
			for i := range o.Readings {
				if p.Signals[i].Optional {
					continue
				}
				lost := o
				lost.Readings = append([]Reading(nil), o.Readings...)
				lost.Readings[i] = Reading{Cause: CauseEmpty}
				if less, _ := Decide(p, lost, s, now); less.Replicas < min(least, d.Replicas) {
					t.Fatalf("losing %s lowers %d to %d", p.Signals[i].Name, d.Replicas, less.Replicas)
				}
			}
		})
	})
}

func TestMoreLoadNeverMeansFewerReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drive(t, false, func(p *Policy, o Observation, s State, now time.Time) {
			more := o
			more.Readings = append([]Reading(nil), o.Readings...)
			for i := range more.Readings {
				if v := more.Readings[i].Value; v >= 0 && v < 1e200 {
					more.Readings[i].Value += rapid.Float64Range(0, 50).Draw(t, "more")
				}
			}
			a, _ := Decide(p, o, s, now)
			b, _ := Decide(p, more, s, now)
			if b.Replicas < a.Replicas {
				t.Fatalf("%d for less load, %d for more\n%s\n%s", a.Replicas, b.Replicas, table(p, &a), table(p, &b))
			}
		})
	})
}

func TestTargetChangesWithoutTheBindingRuleOrATieIsNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drive(t, false, func(p *Policy, o Observation, s State, now time.Time) {
			d, _ := Decide(p, o, s, now)
			n := Without(p, o, s, now, d.Binding, d.BindingIndex)
			if (n == d.Replicas) != (d.Tied != RuleNone) {
				t.Fatalf("%d by %v %d, %d without, tied %v\n%s", d.Replicas, d.Binding, d.BindingIndex, n, d.Tied, table(p, &d))
			}
			if d.Tied == d.Binding && d.TiedIndex == d.BindingIndex {
				t.Fatalf("%v is tied with itself\n%s", d.Tied, table(p, &d))
			}
			if n := Without(p, o, s, now, RuleNone, -1); n != d.Replicas {
				t.Fatalf("without nothing %d, decided %d", n, d.Replicas)
			}
		})
	})
}

// From any state, if all demand ends, the target must decrease at EarliestScaleDown and not earlier. The policies have no utilization
// signals, because with them RuleGrowingDemand could prevent a decrease until a time that is not known.
func TestTargetDecreasesExactlyAtEarliestScaleDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t, true)
		for i := range p.Signals {
			p.Signals[i].Class = Demand
		}
		for i := range p.Schedules {
			p.Schedules[i].Window.From, p.Schedules[i].Lead = nine, 0 // EarliestScaleDown does not include schedules that open later
		}
		now, s := nine, Seed(p, rapid.Int32Range(0, 12).Draw(t, "seed"), nine)
		quiet := Observation{Advice: NoAdvice, Operator: NoOperator, Readings: make([]Reading, len(p.Signals))}
		see := func(o Observation, load func(i int) float64) Observation {
			o.Replicas, o.Ready = s.lastTarget, s.lastTarget
			for i := range o.Readings {
				o.Readings[i] = Reading{Value: load(i), At: now, Coverage: 1, Known: true}
			}
			return o
		}
		var d Decision
		for range rapid.IntRange(1, 40).Draw(t, "ticks") {
			now = now.Add(time.Second)
			d, s = Decide(p, see(quiet, func(int) float64 { return rapid.Float64Range(0, 60).Draw(t, "load") }), s, now)
		}
		if d.ScaleDownRule == RuleBounds || d.Degraded || d.EarliestScaleDown.IsZero() && d.ScaleDownRule != RuleNone {
			return
		}
		falls := max(d.EarliestScaleDown.Sub(now), time.Second)
		for wait := time.Second; wait <= falls; wait += time.Second {
			now = now.Add(time.Second)
			e, next := Decide(p, see(quiet, func(int) float64 { return 0 }), s, now)
			// A schedule floor keeps a workload active. Its cooldown therefore starts at the end of the schedule, and ends later than
			// EarliestScaleDown.
			exact := p.MinReplicas > 0 || len(p.Schedules) == 0
			if fell := e.Replicas < d.Replicas; fell && wait < falls || !fell && wait == falls && exact {
				t.Fatalf("%d after %d, %v later, announced in %v by %v\n%s", e.Replicas, d.Replicas, wait, falls, d.ScaleDownRule, table(p, &e))
			}
			s = next
		}
	})
}

// This is a regression test for a failure of TestMoreLoadNeverMeansFewerReplicas. A rule that raises the target to a whole number of
// replicas must also raise the recommendation that RuleTolerance uses. Otherwise, a small load, for which the rule raises the target, is
// outside the tolerance, but a greater load is within the tolerance and results in fewer replicas.
func TestToleranceComparesWithTheRaisedRecommendation(t *testing.T) {
	decide := func(p *Policy, o Observation) int32 {
		o.Advice, o.Operator = NoAdvice, NoOperator
		d, _ := Decide(p, o, Seed(p, o.Replicas, nine), nine)
		return d.Replicas
	}
	known := func(v float64) Reading { return Reading{Value: v, At: nine, Coverage: 1, Known: true} }
	t.Run("fallback", func(t *testing.T) {
		p := &Policy{Signals: []Signal{queue(1), queue(1)}, MaxReplicas: 20, ScaleUp: Direction{Tolerance: 0.1},
			Fallback: Fallback{FailureThreshold: 1, Behavior: FallbackStatic, Replicas: 2}}
		for _, load := range []float64{0, 1, 1.05, 1.5, 2} {
			o := Observation{Replicas: 1, Ready: 1, Readings: []Reading{{Cause: CauseUnreachable, Failures: 1}, known(load)}}
			if n := decide(p, o); n != 2 {
				t.Errorf("load %v: %d replicas, want the fallback's 2", load, n)
			}
		}
	})
	t.Run("loading", func(t *testing.T) {
		p := &Policy{Signals: []Signal{queue(1), busy(0.7)}, MinReplicas: 1, MaxReplicas: 20, ScaleDown: Direction{Tolerance: 0.1}}
		for _, load := range []float64{0, 5, 10, 10.5, 10.9, 11, 12} {
			// The last target is 12, 10 replicas are ready and 1 is loading. RuleLoading raises the target to 11, which the tolerance
			// ignores as too small a change from 12.
			o := Observation{Replicas: 12, Ready: 10, Loading: 1, Readings: []Reading{known(load), known(0.5)}}
			if n := decide(p, o); n != 12 {
				t.Errorf("load %v: %d replicas, want 12", load, n)
			}
		}
	})
}

// This is a regression test for two failures of TestTargetDecreasesExactlyAtEarliestScaleDown: with full stabilization windows, and with a
// signal that has a forecast.
func TestEarliestScaleDownWithFullWindowsAndForecasts(t *testing.T) {
	follow := func(t *testing.T, w *scenario) {
		t.Helper()
		said, rule, n, first := w.last.EarliestScaleDown, w.last.ScaleDownRule, w.last.Replicas, w.now.Sub(nine)+time.Second
		w.load(0)
		for w.tick(time.Second); w.last.Replicas == n; w.tick(time.Second) {
			if w.now.Sub(nine) > 2*time.Hour {
				t.Fatalf("still %d after an hour", n)
			}
		}
		switch {
		case said.IsZero() && rule != RuleNone:
			return // the decision contains no time
		case said.IsZero():
			said = nine.Add(first)
		}
		if said.Before(w.now.Add(-time.Second)) || said.After(w.now) {
			t.Errorf("the target decreased at %s, the announced earliest scale-down was %s by %v",
				w.now.Format("15:04:05"), said.Format("15:04:05"), rule)
		}
	}
	t.Run("a window full of falling proposals", func(t *testing.T) {
		for n := range 40 {
			p := &Policy{Signals: []Signal{queue(1)}, MinReplicas: 1, MaxReplicas: 100, ScaleDown: Direction{StabilizationWindow: 2 * time.Minute}}
			w := newScenario(t, p, 100)
			w.value = func(w *scenario, _ int) float64 { return 100 - w.now.Sub(nine).Seconds() }
			w.run(time.Duration(n) * time.Second)
			if n > 0 {
				follow(t, w)
			}
		}
	})
	t.Run("a forecast that replaces the reading, within the down tolerance", func(t *testing.T) {
		sig := queue(1)
		sig.Forecast = Forecast{Window: 5 * time.Minute, Replaces: true}
		p := &Policy{Signals: []Signal{sig}, MinReplicas: 1, MaxReplicas: 100, ScaleDown: Direction{Tolerance: 0.1}}
		w := newScenario(t, p, 11, 9.95)
		w.run(time.Hour)
		w.expect(11, RuleTolerance)
		follow(t, w)
	})
}
