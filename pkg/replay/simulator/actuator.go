package simulator

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Actuator stands between a wish and a workload's replicas: it reads gpuscaler's number, or decides for itself (a rival), and
// writes spec.replicas. It is asked at the instants that it names, the first time at virtual time 0.
type Actuator interface {
	Act(s *Scene) Move
}

// Maker makes an actuator without any memory, so that one Config serves several worlds.
type ActuatorFactory func() Actuator

// Move is what an actuator answers.
type Move struct {
	Replicas int32         // to write; the same as Spec to write nothing
	Again    time.Duration // when to ask again; below a millisecond means the next tick
	// Of an actuator that decides for itself, for the ledger: what its metrics ask for, and why there may be more (0: Cooldown).
	Asked int32
	Idle  Cause
}

// Scene is what an actuator sees of its workload. It is valid during Act only.
type Scene struct {
	Now     time.Time
	Spec    int32 // spec.replicas
	Status  int32 // status.replicas: pods that exist and do not end
	Ready   int32
	Loading int32 // pods on a node, not ready
	Pending int32 // pods without a node
	Tick    time.Duration

	l *load
}

// Served is gpuscaler's number for the workload, as an entrance would hand it out; ok is false where the entrance answers an error.
func (s *Scene) Served() (engine.Served, bool) {
	served, err := s.l.w.engine.Board().Lookup(s.l.key, s.Now)
	return served, err == nil
}

// Sample is the newest sample of a measure that a query returns now; ok is false while there is none, or a fault silences it.
func (s *Scene) Sample(m Measure) (Sample, bool) { return s.l.newest(m, "") }

// Uniform is a number between 0 and 1 that is the workload's own: the phase of its actuator.
func (s *Scene) Uniform() float64 { return s.l.meter.phase }

// Policy is the workload's policy, nil for a rival.
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
		l.blame(m.Asked, m.Idle)
	}
	l.scale(m.Replicas)
	w.queue.add(event{at: w.now + m.Again.Truncate(time.Microsecond), kind: act, a: l.index})
}

// Direct writes gpuscaler's number as it is, each tick: what a follower without any delay would do.
func Direct() Actuator { return direct{} }

type direct struct{}

func (direct) Act(s *Scene) Move {
	m := Move{Replicas: s.Spec}
	if served, ok := s.Served(); ok {
		m.Replicas = served.Replicas
	}
	return m
}

// Follower implements the part of a View that tells who follows.
func (direct) Follower() engine.Follower {
	return engine.Follower{Kind: "Simulation", Name: "direct", Exact: true}
}
