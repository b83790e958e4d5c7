package explaintest

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// NewWithColdStarts returns a service with an objective, for which the given starts of replicas were observed. The times in a start are in
// seconds after the creation of the pod; 0: not known. Each pod is created at the time of the decision that caused its start.
func NewWithColdStarts(starts ...planner.ReplicaStart) *Service {
	s := New(nil)
	s.Workload.Policy = &scaling.Policy{MinReplicas: 1, MaxReplicas: 12,
		Objective: &objective.Objective{Limit: 10 * time.Second, Percentile: 99},
		Signals: []scaling.Signal{{Name: "waiting", Type: "vllm", Measures: scaling.MeasureQueued, MaxAge: time.Minute},
			{Name: "requests", Type: "prometheus", Measures: scaling.MeasureArrivals, MaxAge: time.Minute},
			{Name: "gpu", Type: "dcgm", Kind: scaling.Mean, Measures: scaling.MeasureBusy, MaxAge: time.Minute}}}
	s.Replicas.ManagedHPA = engine.ManagedHPA{}
	second := func() {
		s.Measure(0, 3, 0.4)
		s.Tick(time.Second)
	}
	second()
	all := planner.ReplicaStarts{}
	for _, start := range starts {
		s.Replicas.Replicas, s.Replicas.Pending = s.Replicas.Replicas+1, 1
		second()
		created := history.Stamp(s.Now)
		for range start.Ready {
			second()
		}
		for _, at := range []*int64{&start.Launched, &start.Registered, &start.Allocatable, &start.Scheduled, &start.Running, &start.Ready} {
			if *at != 0 {
				*at = created + 1000**at
			}
		}
		start.Created = created
		all.Add(start)
		completed := all
		s.Replicas.Ready, s.Replicas.Pending, s.Replicas.Started = s.Replicas.Replicas, 0, &completed
		second()
	}
	for range 15 { // every 15 seconds, a tick computes the summary of the learned model
		second()
	}
	return s
}

// Karpenter returns the times of a replica for which Karpenter launches a node, for NewWithColdStarts.
func Karpenter() planner.ReplicaStart {
	return planner.ReplicaStart{Launched: 3, Registered: 34, Allocatable: 47, Scheduled: 48, Running: 70, Ready: 101}
}

// WithoutKarpenter returns the times of a replica that waits for a node in a cluster without Karpenter, for NewWithColdStarts.
func WithoutKarpenter() planner.ReplicaStart {
	return planner.ReplicaStart{Scheduled: 95, Running: 120, Ready: 180}
}
