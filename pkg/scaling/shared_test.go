package scaling

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// If all readings are from shared GPUs, the target must not increase, for any values and any forecast.
func TestSharedReadingsAloneNeverRaise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Policy{MinReplicas: 1, MaxReplicas: 64}
		for range rapid.IntRange(1, 3).Draw(t, "signals") {
			p.Signals = append(p.Signals, Signal{Kind: Kind(rapid.IntRange(0, 1).Draw(t, "kind")),
				Class: Class(rapid.IntRange(0, 2).Draw(t, "class")), Target: 0.7, MaxAge: time.Minute,
				Forecast: Forecast{Window: rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "forecast"), Deviations: 2,
					Replaces: rapid.Bool().Draw(t, "replaces")}})
		}
		p.Panic = Panic{Threshold: float64(rapid.IntRange(0, 2).Draw(t, "panic")), Window: time.Minute}
		now := nine
		replicas := rapid.Int32Range(1, 12).Draw(t, "replicas")
		s := Seed(p, replicas, now)
		for range rapid.IntRange(1, 20).Draw(t, "ticks") {
			now = now.Add(15 * time.Second)
			o := Observation{Replicas: replicas, Ready: rapid.Int32Range(0, replicas).Draw(t, "ready"), Advice: NoAdvice, Operator: NoOperator}
			for range p.Signals {
				o.Readings = append(o.Readings, Reading{Value: rapid.Float64Range(0, 20).Draw(t, "value"), At: now, Coverage: 1, Known: true,
					Shared: true})
			}
			before := replicas
			var d Decision
			d, s = Decide(p, o, s, now)
			if replicas = d.Replicas; replicas > before {
				t.Fatalf("%d -> %d on shared readings alone %+v\n%s", before, replicas, o.Readings, table(p, &d))
			}
		}
	})
}

// A busy shared GPU prevents a decrease but does not raise the target. When the GPU is idle, the target decreases.
func TestSharedGPUKeepsReplicasUntilItIsIdle(t *testing.T) {
	p := &Policy{MinReplicas: 1, MaxReplicas: 64, Signals: []Signal{{Name: "gpu", Kind: Mean, Target: 0.7, MaxAge: time.Minute}}}
	now, replicas := nine, int32(4)
	s := Seed(p, replicas, now)
	for _, step := range []struct {
		value float64
		want  int32
	}{{0.95, 4}, {1, 4}, {0.7, 4}, {0.35, 2}, {0.95, 2}, {0, 1}} {
		now = now.Add(time.Minute)
		var d Decision
		d, s = Decide(p, Observation{Replicas: replicas, Ready: replicas, Advice: NoAdvice, Operator: NoOperator,
			Readings: []Reading{{Value: step.value, At: now, Coverage: 1, Reported: replicas, Measured: replicas, Known: true,
				Shared: true}}}, s, now)
		if replicas = d.Replicas; replicas != step.want {
			t.Fatalf("at %g: %d, want %d\n%s", step.value, replicas, step.want, table(p, &d))
		}
	}
}
