package simulator

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Actuator writes spec.replicas of a workload: it follows the target of gpuscaler, or decides itself (a baseline). The simulator
// calls Act at virtual time 0, and then at the times that each Move requests.
type Actuator interface {
	Act(s *Scene) Move
}

// ActuatorFactory returns a new actuator without state, so that one Config can be used for several simulators.
type ActuatorFactory func() Actuator

// Move is the result of an actuator.
type Move struct {
	Replicas int32         // new spec.replicas; the current value means no write
	Again    time.Duration // time until the next call; below one millisecond means the next tick
	// Asked and Idle are set by baselines, for the ledger. Asked is the number of replicas that the metrics request. Idle is the cause of
	// idle replicas above that number (0: Cooldown).
	Asked int32
	Idle  Cause
}

// Scene is the input of an actuator. It is valid only during Act.
type Scene struct {
	Now     time.Time
	Spec    int32 // spec.replicas
	Status  int32 // status.replicas: pods that are not terminating
	Ready   int32
	Loading int32 // pods that have a node and are not ready
	Pending int32 // pods without a node
	Tick    time.Duration

	l *load
}

// Served returns the target that the external metrics API serves for the workload; ok is false if the API would return an error.
func (s *Scene) Served() (engine.Served, bool) {
	served, err := s.l.w.engine.Decisions().Lookup(s.l.key, s.Now)
	return served, err == nil
}

// Sample returns the newest sample of a measure that a query would return at present, that is, after the scrape interval and the lag. ok
// is false if there is none, or if a Fault hides it.
func (s *Scene) Sample(m measure.Measure) (Sample, bool) { return s.l.newest(m, "") }

// Uniform returns a random number in 0..1 that does not change for a workload. Actuators use it as the phase of their loops, so that not
// all loops run at the same time.
func (s *Scene) Uniform() float64 { return s.l.meter.phase }

// Policy returns the workload's policy, or nil for a baseline.
func (s *Scene) Policy() *scaling.Policy {
	if s.l.config.Policy == nil {
		return nil
	}
	return s.l.config.Policy.Workload.Policy
}

func (l *load) act() {
	w := l.w
	m := l.actuator.Act(&Scene{
		Now: w.Time(), Spec: l.target, Status: int32(len(l.replicas)), Ready: l.ready, Loading: l.loading, Pending: l.pending,
		Tick: w.config.Tick, l: l,
	})
	if m.Again < time.Millisecond {
		m.Again = w.config.Tick
	}
	if l.config.Policy == nil {
		if m.Idle == Serving {
			m.Idle = Cooldown
		}
		l.setCause(m.Asked, m.Idle)
	}
	l.scale(m.Replicas)
	w.queue.add(event{at: w.now + m.Again.Truncate(time.Microsecond), kind: act, a: l.index})
}

// Direct returns an actuator that writes the target of gpuscaler each tick, without delay.
func Direct() Actuator { return direct{} }

type direct struct{}

func (direct) Act(s *Scene) Move {
	m := Move{Replicas: s.Spec}
	if served, ok := s.Served(); ok {
		m.Replicas = served.Replicas
	}
	return m
}

// ManagedHPA returns the managed HPA of the workload for its engine.View. A workload with this actuator has no HPA, and its replicas
// always equal the target.
func (direct) ManagedHPA() engine.ManagedHPA {
	return engine.ManagedHPA{Kind: "Simulation", Name: "direct", Exact: true}
}
