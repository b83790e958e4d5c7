// Package explaintest simulates one chat service for the tests of the packages that show decisions. A test changes the replicas and the
// readings of the service, and advances the clock.
package explaintest

import (
	"context"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Start is the time on the clock of a new Service.
var Start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// Key is the key of the service's policy.
var Key = scaling.Key{Namespace: "team-chat", Name: "llama-chat"}

// Service is one workload with three signals (queue depth, KV cache use, GPU activity) and an engine that decides for it.
type Service struct {
	Workload scaling.Workload
	Replicas engine.View
	Readings []scaling.Reading
	Engine   *engine.Engine
	Now      time.Time
	Unseen   bool   // the scale target does not exist
	Panics   bool   // each decision of the engine panics
	Reason   string // why gpuscaler refuses the scale target; empty: not refused
}

// New returns a service with six ready replicas, whose readings recommend six replicas. onTransition may be nil.
func New(onTransition func(engine.Record)) *Service {
	s := &Service{Now: Start, Workload: scaling.Workload{
		Key: Key, Origin: "chat.yaml@3f1c", Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama-chat"},
		Policy: &scaling.Policy{
			Signals: []scaling.Signal{
				{Name: "gateway", Type: "prometheus", Target: 10, MaxAge: time.Minute, MinCoverage: 1},
				percentage("kv", "vllm", 0.8),
				percentage("gpu", "dcgm", 0.7),
			},
			MaxReplicas: 12, CooldownPeriod: 15 * time.Minute,
			ScaleDown: scaling.Direction{StabilizationWindow: 10 * time.Minute},
			Schedules: []scaling.Schedule{{Window: calendar.Window{Name: "office", Start: daily(8), End: daily(20)}, Min: 2, Max: -1}},
		},
	}}
	s.Replicas = engine.View{Replicas: 6, Ready: 6, GPUs: 1, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator,
		ManagedHPA: engine.ManagedHPA{Kind: "HPA", Name: "keda-hpa-llama-chat", Desired: 6, Exact: true}}
	s.Measure(57, 0.78, 0.69)
	s.Engine = engine.New(s, s, s, engine.Options{OnTransition: onTransition})
	return s
}

func percentage(name, source string, target float64) scaling.Signal {
	return scaling.Signal{
		Name: name, Type: source, Kind: scaling.Mean, Class: scaling.Utilization, Unit: scaling.Percent,
		Target: target, MaxAge: time.Minute, MinCoverage: 0.8,
	}
}

// daily returns a cron expression that matches once a day, at the full hour.
func daily(hour uint64) calendar.Cron {
	const all = 1<<63 | (1<<60 - 1)
	return calendar.Cron{Minute: 1, Hour: 1 << hour, DayOfMonth: all, Month: all, DayOfWeek: all}
}

// Measure replaces the readings of the three signals with the values queue, kv and gpu at the current time. The readings of kv and gpu have
// a sample of each ready pod. The reading of queue is not from pods.
func (s *Service) Measure(queue, kv, gpu float64) {
	s.Readings = nil
	for i, v := range []float64{queue, kv, gpu} {
		r := scaling.Reading{Value: v, At: s.Now, Coverage: 1, Reported: s.Replicas.Ready, Known: true}
		if i == 0 {
			r.Reported = -1
		}
		s.Readings = append(s.Readings, r)
	}
}

// ScaleUp makes the engine decide nine replicas at 09:04:06. Before the decision, it sets a longer queue, nine replicas of which three are
// not ready, and a GPU reading from only three of the six ready pods.
func (s *Service) ScaleUp() {
	s.Replicas.Replicas, s.Replicas.Loading, s.Replicas.Pending = 9, 2, 1
	s.Now = s.Now.Add(4 * time.Minute)
	s.Measure(87, 0.91, 0.72)
	s.Readings[2].At, s.Readings[2].Coverage, s.Readings[2].Reported = Start, 0.5, 3
	s.Tick(6 * time.Second)
}

// Tick advances the clock and runs one tick of the engine.
func (s *Service) Tick(after time.Duration) {
	s.Now = s.Now.Add(after)
	s.Engine.Tick(context.Background(), s.Now)
}

// Record returns the newest record of the service.
func (s *Service) Record() engine.Record {
	r, _ := s.Engine.Decisions().Record(Key)
	return r
}

// Clock returns the current time of the simulation, which is the field Now.
func (s *Service) Clock() time.Time { return s.Now }

// Current implements engine.Policies.
func (s *Service) Current() []scaling.Workload { return []scaling.Workload{s.Workload} }

// Read implements engine.Telemetry.
func (s *Service) Read(_ *scaling.Workload, out []scaling.Reading) { copy(out, s.Readings) }

// View implements engine.Cluster. It panics if Panics is set, and returns false if Unseen is set.
func (s *Service) View(*scaling.Workload) (engine.View, bool) {
	if s.Panics {
		panic("a defect in one workload")
	}
	return s.Replicas, !s.Unseen
}

// Refusal implements engine.Refusals. It returns the field Reason.
func (s *Service) Refusal(*scaling.Workload) string { return s.Reason }

// Apply implements engine.Cluster. It does nothing, because tests change the replicas with the fields of the service.
func (s *Service) Apply(context.Context, []engine.Change) error { return nil }
