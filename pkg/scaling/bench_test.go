package scaling

import (
	"testing"
	"time"
	"unsafe"
)

func benchPolicy() *Policy {
	return &Policy{
		Signals: []Signal{
			{Name: "gateway", Kind: Total, Class: Demand, Target: 10, MaxAge: time.Minute},
			{Name: "kv", Kind: Mean, Class: Utilization, Target: 0.8, MaxAge: time.Minute, MinCoverage: 0.8},
			{Name: "gpu", Kind: Mean, Class: Utilization, Target: 0.7, MaxAge: time.Minute, MinCoverage: 0.8, Optional: true},
		},
		MinReplicas: 0, MaxReplicas: 40, CooldownPeriod: 15 * time.Minute,
		ScaleUp:   Direction{Rates: []RatePolicy{{Pods, 4, 15 * time.Second}, {PercentRate, 100, 15 * time.Second}}},
		ScaleDown: Direction{StabilizationWindow: 10 * time.Minute, Tolerance: 0.1, Rates: []RatePolicy{{Pods, 1, time.Minute}}},
		Panic:     Panic{Threshold: 2, Window: time.Minute},
	}
}

// BenchmarkTenThousandQuietPolicies measures one tick of 10,000 policies whose readings do not change.
func BenchmarkTenThousandQuietPolicies(b *testing.B) { benchTick(b, func(int) float64 { return 58 }) }

// BenchmarkTenThousandBusyPolicies measures one tick of 10,000 policies in which every demand changes, so that the stabilization windows
// and the recorded changes of the target (State.steps) are full.
func BenchmarkTenThousandBusyPolicies(b *testing.B) {
	seed := uint64(1)
	benchTick(b, func(int) float64 { seed = seed*6364136223846793005 + 1442695040888963407; return float64(seed >> 55) })
}

func benchTick(b *testing.B, load func(i int) float64) {
	const policies = 10_000
	p := benchPolicy()
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	states := make([]State, policies)
	for i := range states {
		states[i] = Seed(p, 6, now)
	}
	readings := make([]Reading, 3)
	o := Observation{Replicas: 6, Ready: 6, Readings: readings, Advice: NoAdvice, Operator: NoOperator}
	b.ReportAllocs()

	for b.Loop() {
		now = now.Add(time.Second)
		for i := range states {
			readings[0] = Reading{Value: load(i), At: now, Coverage: 1, Known: true}
			readings[1] = Reading{Value: 0.6, At: now, Coverage: 1, Known: true}
			readings[2] = Reading{Value: 0.5, At: now, Coverage: 1, Known: true}
			states[i].Decide(p, &o, now)
		}
	}
	b.ReportMetric(float64(unsafe.Sizeof(State{})), "state-bytes")
	b.ReportMetric(float64(unsafe.Sizeof(Decision{})), "decision-bytes")
}

func TestTickDoesNotAllocateAndStateIsSmall(t *testing.T) {
	// 2 KiB and 24 bytes for three pointers: model, plan and CapCause
	if size := unsafe.Sizeof(State{}) + unsafe.Sizeof(Decision{}); size > 2072 {
		t.Errorf("state and decision take %d bytes", size)
	}
	p, now := benchPolicy(), nine
	p.Schedules = []Schedule{{Window: hours("office", berlin(t), 8, 20), Min: 2, Max: -1, Lead: time.Minute}}
	s := Seed(p, 6, now)
	o := Observation{Replicas: 6, Ready: 5, Loading: 1, Advice: NoAdvice, Operator: NoOperator, Readings: make([]Reading, 3)}
	load := 0.0
	if n := testing.AllocsPerRun(1000, func() {
		now, load = now.Add(time.Minute), load+7
		for i := range o.Readings {
			o.Readings[i] = Reading{Value: float64(int(load) % 90), At: now, Coverage: 1, Known: true}
		}
		s.Decide(p, &o, now)
		Without(p, o, s, now, RuleCombine, 0)
	}); n != 0 {
		t.Errorf("%v allocations a tick", n)
	}
}
