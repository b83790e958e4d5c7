package engine

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// steady is a cluster of n workloads that do not change. It stores them in slices, so that the benchmark measures the engine and not this
// fake.
type steady struct {
	workloads []scaling.Workload
	readings  [3]scaling.Reading
	view      View
}

func newSteady(n int) *steady {
	s := &steady{view: View{Replicas: 5, Ready: 5, Operator: scaling.NoOperator}}
	for i := range n {
		s.workloads = append(s.workloads, scaling.Workload{
			Key: scaling.Key{Namespace: fmt.Sprintf("team-%d", i%50), Name: fmt.Sprintf("policy-%d", i)},
			Policy: &scaling.Policy{
				Signals: []scaling.Signal{
					{Name: "gateway", Target: 10, MaxAge: time.Minute, MinCoverage: 1},
					{Name: "kv", Kind: scaling.Mean, Class: scaling.Utilization, Unit: scaling.Percent, Target: 0.8, MaxAge: time.Minute,
						MinCoverage: 0.8},
					{Name: "gpu", Kind: scaling.Mean, Class: scaling.Utilization, Unit: scaling.Percent, Target: 0.7, MaxAge: time.Minute,
						MinCoverage: 0.8},
				},
				MinReplicas: 0, MaxReplicas: 12, CooldownPeriod: 15 * time.Minute,
				ScaleDown: scaling.Direction{StabilizationWindow: 10 * time.Minute, Rates: []scaling.RatePolicy{{Value: 1, Period: time.Minute}}},
			},
		})
	}
	return s
}

func (s *steady) Current() []scaling.Workload                     { return s.workloads }
func (s *steady) Read(_ *scaling.Workload, out []scaling.Reading) { copy(out, s.readings[:]) }
func (s *steady) View(*scaling.Workload) (View, bool)             { return s.view, true }
func (s *steady) Apply(context.Context, []Change) error           { return nil }
func (s *steady) at(now time.Time) {
	for i, v := range []float64{47, 0.7, 0.6} {
		s.readings[i] = scaling.Reading{Value: v, At: now, Coverage: 1, Reported: 5, Known: true}
	}
}

func BenchmarkQuietTick10000(b *testing.B) { quietTick(b, 10_000) }

// A tick of 50,000 policies must take less than one second, the time between two ticks, on one core.
func BenchmarkQuietTick50000(b *testing.B) { quietTick(b, 50_000) }

func quietTick(b *testing.B, n int) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := newSteady(n)
	e, now := New(s, s, s, Options{}), nine
	s.at(now)
	e.Tick(context.Background(), now)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		now = now.Add(time.Second)
		s.at(now)
		if out := e.Tick(context.Background(), now); len(out.Changes) > 0 {
			b.Fatalf("not quiet: %d changes", len(out.Changes))
		}
	}
	perPolicy(b, n)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "heap-B/policy")
}

func perPolicy(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/policy")
}

// The target of every policy changes in each tick.
func BenchmarkTickWithChanges50000(b *testing.B) {
	const n = 50_000
	s := newSteady(n)
	for i := range s.workloads {
		s.workloads[i].Policy.ScaleDown = scaling.Direction{}
	}
	e, now := New(s, s, s, Options{}), nine
	s.at(now)
	e.Tick(context.Background(), now)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(time.Second)
		s.at(now)
		s.readings[0].Value = []float64{67, 87}[i%2]
		if out := e.Tick(context.Background(), now); len(out.Changes) != n {
			b.Fatalf("%d changes", len(out.Changes))
		}
	}
	perPolicy(b, n)
}

func BenchmarkLookup(b *testing.B) {
	s := newSteady(10_000)
	e := New(s, s, s, Options{})
	s.at(nine)
	e.Tick(context.Background(), nine)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Decisions().Lookup(s.workloads[7777].Key, nine); err != nil {
			b.Fatal(err)
		}
	}
}
