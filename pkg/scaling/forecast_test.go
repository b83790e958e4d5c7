package scaling

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every four minutes, demand increases from 2 to 6 replicas for a minute. A new replica needs a minute to load. With a forecast, 6 replicas
// must already be ready when a later burst starts.
func TestForecastHasReplicasReadyForARepeatedBurst(t *testing.T) {
	short := func(f Forecast) (waiting int) {
		sig := queue(10)
		sig.Forecast = f
		p := &Policy{Signals: []Signal{sig}, MinReplicas: 1, MaxReplicas: 20, ScaleDown: Direction{StabilizationWindow: 30 * time.Second}}
		w := newScenario(t, p, 2, 20)
		w.boot = time.Minute
		w.value = func(w *scenario, _ int) float64 {
			if w.now.Sub(nine)%(4*time.Minute) >= 3*time.Minute {
				return 60
			}
			return 20
		}
		for range 3600 {
			w.tick(time.Second)
			if late := w.now.Sub(nine) > 40*time.Minute; late && w.value(w, 0) == 60 && w.o.Ready < 6 {
				waiting++
			}
		}
		return waiting
	}
	if n := short(Forecast{}); n < 200 {
		t.Errorf("without a forecast %d seconds of 5 crowds find too few, which proves nothing", n)
	}
	if n := short(Forecast{Window: 5 * time.Minute, Deviations: 2}); n > 0 {
		t.Errorf("%d seconds of 5 crowds find too few replicas", n)
	}
}

func TestForecastDecreasesWhenTrafficEnds(t *testing.T) {
	sig := queue(10)
	sig.Forecast = Forecast{Window: 5 * time.Minute, Deviations: 3}
	p := &Policy{Signals: []Signal{sig}, MinReplicas: 1, MaxReplicas: 20}
	w := newScenario(t, p, 2, 20)
	w.run(10 * time.Minute)
	w.load(90)
	w.run(10 * time.Minute)
	w.load(0)
	w.tick(time.Second)
	if w.last.Replicas < 5 || w.last.Binding != RuleForecast {
		t.Errorf("%d by %v a second after 9 were needed\n%s", w.last.Replicas, w.last.Binding, table(p, &w.last))
	}
	if w.run(90 * time.Minute); w.last.Replicas != 1 {
		t.Errorf("%d an hour and a half later\n%s", w.last.Replicas, table(p, &w.last))
	}
}

func TestForecastNeverLowers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drive(t, false, func(p *Policy, o Observation, s State, now time.Time) {
			plain := *p
			plain.Signals = append([]Signal(nil), p.Signals...)
			for i := range plain.Signals {
				if !p.Signals[i].Forecast.Replaces {
					plain.Signals[i].Forecast = Forecast{}
				}
			}
			with, _ := Decide(p, o, s, now)
			s.policy = &plain // the policy is set directly, because Adopt would delete windows, steps and forecasts
			if without, _ := Decide(&plain, o, s, now); with.Replicas < without.Replicas {
				t.Fatalf("%d with a forecast, %d without\n%s", with.Replicas, without.Replicas, table(p, &with))
			}
		})
	})
}

// Demand is 4 replicas on average. Because of noise, single readings vary between 3 and 5. A forecast that replaces the readings must start
// only a few replicas.
func TestReplacingForecastIgnoresNoiseOfSingleReadings(t *testing.T) {
	starts := func(f Forecast) (n int32) {
		sig := queue(10)
		sig.Forecast = f
		p := &Policy{Signals: []Signal{sig}, MinReplicas: 1, MaxReplicas: 20}
		w := newScenario(t, p, 5, 20)
		w.boot = time.Minute
		w.value = func(w *scenario, _ int) float64 { return 30 + float64(w.now.Sub(nine)/(15*time.Second)*7%3)*10 }
		for range 3600 {
			before := w.last.Replicas
			w.tick(time.Second)
			if late := w.now.Sub(nine) > 15*time.Minute; late {
				n += max(0, w.last.Replicas-before)
			}
		}
		return n
	}
	if n := starts(Forecast{}); n < 50 {
		t.Errorf("the readings alone start %d in an hour, which proves nothing", n)
	}
	if n := starts(Forecast{Window: 5 * time.Minute, Deviations: 2, Replaces: true}); n > 3 {
		t.Errorf("%d starts in an hour of the same demand", n)
	}
}

// Demand doubles from 4 to 8 replicas. The target must reach 7 within a minute and 8 within three minutes. After demand has returned to 4,
// the target must decrease.
func TestReplacingForecastFollowsAStep(t *testing.T) {
	sig := queue(10)
	sig.Forecast = Forecast{Window: 5 * time.Minute, Deviations: 2, Replaces: true}
	p := &Policy{Signals: []Signal{sig}, MinReplicas: 1, MaxReplicas: 20}
	w := newScenario(t, p, 4, 20)
	w.load(40)
	w.run(10 * time.Minute)
	if w.last.Replicas != 4 {
		t.Fatalf("%d for a calm 4\n%s", w.last.Replicas, table(p, &w.last))
	}
	w.load(80)
	if w.run(time.Minute); w.last.Replicas < 7 {
		t.Errorf("%d a minute after the step\n%s", w.last.Replicas, table(p, &w.last))
	}
	if w.run(2 * time.Minute); w.last.Replicas < 8 {
		t.Errorf("%d three minutes after the step\n%s", w.last.Replicas, table(p, &w.last))
	}
	w.load(40)
	if w.run(30 * time.Minute); w.last.Replicas != 4 && w.last.Replicas != 5 {
		t.Errorf("%d half an hour after its end\n%s", w.last.Replicas, table(p, &w.last))
	}
}

// After eight hours at zero replicas, the first burst needs 6 replicas. The low mean of the night must not reduce the target, and a missing
// reading must not lower it.
func TestReplacingForecastServesTheFirstBurstAfterANightAtZero(t *testing.T) {
	sig := queue(10)
	sig.Forecast = Forecast{Window: 5 * time.Minute, Deviations: 1, Replaces: true}
	p := &Policy{Signals: []Signal{sig}, MaxReplicas: 20, CooldownPeriod: time.Minute}
	w := newScenario(t, p, 2, 20)
	w.load(0)
	if w.run(8 * time.Hour); w.last.Replicas != 0 {
		t.Fatalf("%d at night\n%s", w.last.Replicas, table(p, &w.last))
	}
	w.load(60)
	if w.tick(time.Second); w.last.Replicas != 6 {
		t.Errorf("%d for a crowd of 6\n%s", w.last.Replicas, table(p, &w.last))
	}
	if w.run(time.Minute); w.last.Replicas < 6 {
		t.Errorf("%d a minute later\n%s", w.last.Replicas, table(p, &w.last))
	}
	o := w.o
	o.Readings = []Reading{{Cause: CauseUnreachable}}
	if d, _ := Decide(p, o, w.s, w.now.Add(time.Hour)); d.Replicas < w.last.Replicas {
		t.Errorf("%d once nothing is known\n%s", d.Replicas, table(p, &d))
	}
}

// A source has no values for half an hour, and during this time the fallback sets the target to 20. Afterwards demand is 20 replicas. The
// target must not decrease to the mean of the time before the outage.
func TestReplacingForecastStartsAtTheLastTargetAfterAnOutage(t *testing.T) {
	sig := queue(10)
	sig.Forecast = Forecast{Window: 5 * time.Minute, Deviations: 1, Replaces: true}
	p := &Policy{Signals: []Signal{sig}, MinReplicas: 1, MaxReplicas: 20, Fallback: Fallback{FailureThreshold: 3,
		Behavior: FallbackStatic, Replicas: 20}}
	w := newScenario(t, p, 4, 40)
	w.run(10 * time.Minute)
	w.load(math.NaN())
	if w.run(30 * time.Minute); w.last.Replicas != 20 {
		t.Fatalf("%d by the fallback\n%s", w.last.Replicas, table(p, &w.last))
	}
	w.load(200)
	for range 120 {
		if w.tick(time.Second); w.last.Replicas < 20 {
			t.Fatalf("%d %v after the outage, for a demand of 20\n%s", w.last.Replicas, w.now.Sub(nine)-40*time.Minute, table(p, &w.last))
		}
	}
}
