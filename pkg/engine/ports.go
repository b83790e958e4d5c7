// Package engine is the loop: read, decide, publish, apply. It touches memory only; the ports hide how readings and
// objects come to be there, so that the live cluster and the replay run the same Tick. What it remembers of a workload is kept small
// (a packed state, a decision with the reasons that it has, records as bytes): ten thousand of them are fifteen megabytes.
package engine

import (
	"context"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Policies is the set of workloads to decide for: files and annotations, merged. The slice is shared and never written.
type Policies interface {
	Current() []scaling.Workload
}

// Telemetry hands out the newest samples with their times. It never blocks: polling happens elsewhere, at each source's own pace.
type Telemetry interface {
	// Read fills out, which stands parallel to w.Policy.Signals, with the newest reading of each signal. A signal that was never
	// polled, or belongs to another version of the policy, is left unknown.
	Read(w *scaling.Workload, out []scaling.Reading)
}

// Idlers is a Telemetry that knows single pods: which of them do nothing at present. A scale-in may then take these first.
type Idlers interface {
	// Idle tells whether a pod is known to do nothing. It never blocks, and what is not known is not idle.
	Idle(w *scaling.Workload, pod string, now time.Time) bool
}

// Cluster is what is seen of the workloads' objects, and where outcomes are carried out.
type Cluster interface {
	// View returns the newest view of a workload's target from memory; ok is false while the target was not found or its
	// cache is not synced.
	View(w *scaling.Workload) (v View, ok bool)
	// Apply carries out what the tick decided (Events, activation from zero). It is bounded by ctx and never blocks a tick for longer.
	Apply(ctx context.Context, changes []Change) error
}

// Refusals is a Cluster that can say why View shows nothing of a scale target that exists.
type Refusals interface {
	// Refusal returns the reason; empty where there is none.
	Refusal(w *scaling.Workload) string
}

// View is a workload's target as the cluster shows it.
type View struct {
	UID                               string `json:",omitempty"` // of the target; empty where the cluster has none
	Replicas, Ready, Loading, Pending int32
	// Crashing replicas restart in a loop: they are neither ready nor loading. CrashingPod names one of their pods.
	Crashing    int32  `json:",omitempty"`
	CrashingPod string `json:",omitempty"`
	GPUs        int32  // GPUs per replica, from the pod template; 0 when it asks for none
	// MinReplicas and MaxReplicas are the bounds of the HPA or ScaledObject that stands on the target, -1 where none does.
	MinReplicas, MaxReplicas int32
	Operator                 scaling.Operator
	OperatorBy               string // who set it: field manager and time, for people
	ManagedHPA               ManagedHPA
	Advice                   Advice `json:",omitzero"` // of the nodes, from the tick before; the engine adds it
	// Limit is what the team's limits leave to the workload in this tick; the engine adds it.
	Limit scaling.TeamLimit `json:",omitzero"`
}

// ManagedHPA is the object that reads our number and moves the replicas: an HPA, a ScaledObject's HPA, or nobody.
type ManagedHPA struct {
	Kind, Name string // empty: nobody reads this workload's number
	Desired    int32  // the HPA's status.desiredReplicas
	Exact      bool   // its configuration follows every step
	Why        string // why it is not exact, for people
}

// Requests is a Cluster that knows what pods request. Limits of teams need it: without it no amount is known, and no workload of a team
// with limits is raised.
type Requests interface {
	// Request returns how much of a resource one replica of a workload requests, all of its pods together. known is false while the pod
	// template cannot be read. pods is what the workload's existing pods request together, whether known or not.
	Request(w *scaling.Workload, resource string) (perReplica int64, known bool, pods int64)
	// Unmanaged returns how much of a resource is requested by those pods of the team's namespaces that belong to none of the
	// workloads. The slice is the same until the workloads change.
	Unmanaged(team *scaling.Team, of []*scaling.Workload, resource string) int64
}

// Pod is one pod of a workload, for telemetry: coverage, direct scrape and matching series to workloads.
type Pod struct {
	Name, IP, Node string
	Ready          bool
	Started        time.Time
	// Leader marks the pod of a group that serves metrics where a replica is several pods (LeaderWorkerSet).
	Leader bool
	// SharedGPU marks a pod that requests a share of a GPU (nvidia.com/gpu.shared): its GPU may serve other pods too.
	SharedGPU bool
}

// Pods lists the pods of a workload from memory. Package cluster implements it, package telemetry reads it.
type Pods interface {
	Pods(w *scaling.Workload) []Pod
}
