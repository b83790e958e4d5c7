// Package autoscaler defines Actuator, the interface of the components that write the replicas of a simulated workload. It also contains
// the actuators that follow the target of gpuscaler: an HPA, a ScaledObject of KEDA, and [Direct]. Other autoscalers are in package
// baseline.
package autoscaler

import (
	"iter"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Actuator writes spec.replicas of a workload. It follows the target of gpuscaler, or it is another autoscaler (a baseline) and computes
// the replicas itself. The simulator calls Act at virtual time 0, and then at the times that each Move requests.
type Actuator interface {
	Act(s *Scene) Move
}

// Factory returns a new actuator without state, so that one Config can be used for several simulators.
type Factory func() Actuator

// Move is the result of one call of Act.
type Move struct {
	Replicas int32         // new spec.replicas; if it is the current value, nothing is written
	Again    time.Duration // time until the next call; below one millisecond means the next tick
	// Asked and Idle are set by baselines, for the ledger (the GPU time by cause). Asked is the number of replicas that the metrics request.
	// Idle is the cause that the ledger records for the idle replicas above that number (0: ledger.Cooldown).
	Asked int32
	Idle  ledger.Cause
}

// Scene is the input of an actuator: the state of its workload. It is valid only during Act.
type Scene struct {
	Now     time.Time
	Spec    int32 // spec.replicas
	Status  int32 // status.replicas: pods that are not terminating
	Ready   int32
	Loading int32 // pods that have a node and are not ready
	Pending int32 // pods without a node
	Tick    time.Duration

	Elapsed     time.Duration // virtual time since the start
	Queued      int           // requests that wait
	Concurrency int           // requests that wait or run
	Arrived     int64         // requests that have arrived since the start
	CacheTokens int           // size of a replica's KV cache in tokens
	Asked       int32         // replicas that the metrics requested at the last move
	Idle        ledger.Cause  // cause of the idle replicas above Asked at the last move

	Workload
}

// Workload provides data of the workload for which Scene has no field. An actuator calls only the methods that it needs.
type Workload interface {
	// Served returns the target that the external metrics API serves for the workload; ok is false if that API returns an error.
	Served() (served engine.Served, ok bool)
	// Sample returns the sample of a measure that a query returns now: the newest one that is at least as old as the scrape lag. ok is false
	// if there is no such sample, or if a fault hides it.
	Sample(m measure.Measure) (sample Sample, ok bool)
	// Faulty reports whether a fault hides all metrics.
	Faulty() bool
	// Uniform returns a random number in 0..1. Each workload has its own number, which does not change. Actuators start their loops with a
	// delay that depends on this number, so that the loops of different workloads do not all run at the same time.
	Uniform() float64
	// Policy returns the workload's policy, or nil for a baseline.
	Policy() *scaling.Policy
	// Starting returns the number of replicas that load their model.
	Starting() int32
	// ReadyReplicas returns the ready replicas, oldest first.
	ReadyReplicas() iter.Seq[Replica]
	// ReadyOf returns the number of ready replicas of another workload in the same namespace; ok is false if there is no such workload.
	ReadyOf(name string) (ready int32, ok bool)
}

// Replica is a ready replica. A new replica can have the ID of a replica that ended; their Generation then differs.
type Replica struct {
	ID           int32
	Generation   uint32
	CachedTokens int64 // tokens of the replica's requests in its KV cache
}

// Sample is the value of a measure in one scrape.
type Sample struct {
	Value float64
	At    time.Time
	Pods  int32 // number of replicas that reported a value
}

// PhaseOf returns the time of the first run of a loop with the given period. This time is a part of the period that is random for each
// workload, so that the loops of different workloads do not all run at the same time.
func PhaseOf(s *Scene, period time.Duration) time.Duration {
	return time.Duration(s.Uniform() * float64(period)).Truncate(time.Microsecond)
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

// ManagedHPA returns the field ManagedHPA of the workload's engine.View. It is a placeholder: the workload has no HPA, because the actuator
// sets the replicas to exactly the target.
func (direct) ManagedHPA() engine.ManagedHPA {
	return engine.ManagedHPA{Kind: "Simulation", Name: "direct", Exact: true}
}
