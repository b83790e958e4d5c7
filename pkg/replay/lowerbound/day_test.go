package lowerbound

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// deepseekDay returns the ServeGen deepseek-r1 day in slots of 10 s, with random arrivals at the recorded rates. All requests have equal
// work. A replica serves eight of them in a slot, so the busiest minutes need 53 of 64 replicas.
func deepseekDay(t testing.TB, coldSlots int) Problem {
	rates := deepseek(t)
	r := rand.New(rand.NewPCG(7, 7))
	p := Problem{
		TimeSlot: 10 * time.Second, Arrivals: make([]int64, 8640), UnitsPerReplicaSlot: 8, MaxReplicas: 64, InitialReplicas: 12,
		ReplicaSlotCost: 1.0 / 360, StartCost: float64(coldSlots) / 360, WaitSlots: 1, BootSlots: coldSlots, LateShare: 0.01,
	}
	for i := range p.Arrivals {
		mean := rates[i/60] * 10
		p.Arrivals[i] = int64(max(0, math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	return p
}

// BenchmarkDay solves one day in slots of 10 s with up to 64 replicas.
func BenchmarkDay(b *testing.B) {
	for name, cold := range map[string]int{"cold=60s": 6, "cold=300s": 30} {
		b.Run(name, func(b *testing.B) {
			p := deepseekDay(b, cold)
			for b.Loop() {
				i, err := Solve(p, Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(i.Gap(), "UB/LB")
				b.ReportMetric(float64(i.Solves), "solves")
				b.ReportMetric(float64(i.FullSolves), "full-solves")
				b.ReportMetric(float64(i.Bytes)/1e6, "MB-tables")
			}
		})
	}
}

// BenchmarkHour solves one hour of the day, for `make bench-compare`: the whole day takes minutes on a busy machine.
func BenchmarkHour(b *testing.B) {
	p := deepseekDay(b, 6)
	p.Arrivals = p.Arrivals[14*360 : 15*360]
	for b.Loop() {
		if _, err := Solve(p, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
