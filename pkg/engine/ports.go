package engine

import (
	"context"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Policies returns the workloads to decide for, from files and annotations. The slice is shared and immutable.
type Policies interface {
	Current() []scaling.Workload
}

// Telemetry returns the newest samples with their times. It does not block: each source is polled at its own interval elsewhere.
type Telemetry interface {
	// Read sets out, which is parallel to w.Policy.Signals, to the newest readings. A signal that was never polled, or belongs to another
	// version of the policy, stays unknown.
	Read(w *scaling.Workload, out []scaling.Reading)
}

// IdlePods is a Telemetry that reports which pods are idle, so that a scale-down can remove these first.
type IdlePods interface {
	// Idle reports whether a pod is known to be idle. It does not block. A pod without data is not idle.
	Idle(w *scaling.Workload, pod string, now time.Time) bool
}

// Cluster observes the scale targets and applies the decisions.
type Cluster interface {
	// View returns the newest view of a workload's scale target from memory; ok is false if the target does not exist or the cache is not
	// synced.
	View(w *scaling.Workload) (v View, ok bool)
	// Apply records Events and scales from and to zero. It returns when ctx ends.
	Apply(ctx context.Context, changes []Change) error
}

// Refusals is a Cluster that reports why View does not return a scale target that exists.
type Refusals interface {
	// Refusal returns the cause; empty if there is none.
	Refusal(w *scaling.Workload) string
}

// View is the observed state of a workload's scale target.
type View struct {
	UID                               string `json:",omitempty"` // of the scale target; empty if the cluster has none
	Replicas, Ready, Loading, Pending int32
	// Crashing replicas restart in a loop: they are neither ready nor loading. CrashingPod is the name of one of their pods.
	Crashing    int32  `json:",omitempty"`
	CrashingPod string `json:",omitempty"`
	GPUs        int32  // GPUs per replica in the pod template; 0 if it requests none
	// MinReplicas and MaxReplicas are the bounds of the HPA or ScaledObject of the scale target, -1 if there is none.
	MinReplicas, MaxReplicas int32
	Operator                 scaling.Operator
	OperatorBy               string // who set it: field manager and time, for explanations
	ManagedHPA               ManagedHPA
	Advice                   Advice `json:",omitzero"` // of the capacity group, from the tick before; the engine adds it
	// Limit is the workload's share of its team's limits in this tick; the engine adds it.
	Limit scaling.TeamLimit `json:",omitzero"`
}

// ManagedHPA is the HPA or ScaledObject that reads our metric and scales the workload.
type ManagedHPA struct {
	Kind, Name string // empty: no HPA reads the target of this workload
	Desired    int32  // the HPA's status.desiredReplicas
	Exact      bool   // its configuration follows every change of the target
	Why        string // why it is not exact
}

// Requests is a Cluster that returns what pods request. Team limits need it: without it no amount is known, and no workload of a team
// with limits is scaled up.
type Requests interface {
	// Request returns how much of a resource one replica of a workload requests, the sum of its pods. known is false if that cannot be
	// determined, for example because the pod template cannot be read or a pod claims GPUs by dynamic resource allocation. pods is what the
	// workload's existing pods request together, as far as known.
	Request(w *scaling.Workload, resource string) (perReplica int64, known bool, pods int64)
	// Unmanaged returns how much of a resource the pods of the team's namespaces request that belong to none of the workloads. The slice is
	// the same until the workloads change.
	Unmanaged(team *scaling.Team, of []*scaling.Workload, resource string) int64
}

// Pod is one pod of a workload. Telemetry uses it to compute coverage, to scrape pods and to match series to workloads.
type Pod struct {
	Name, IP, Node string
	Ready          bool
	Started        time.Time
	// Leader is true for the pod that serves metrics in a replica of several pods (LeaderWorkerSet).
	Leader bool
	// SharedGPU is true for a pod that requests a share of a GPU (nvidia.com/gpu.shared): other pods may use the same GPU.
	SharedGPU bool
}

// Pods returns the pods of a workload from memory. Package cluster implements it; package telemetry reads it.
type Pods interface {
	Pods(w *scaling.Workload) []Pod
}
