package engine

import (
	"context"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// Policies returns the workloads to decide for, as defined in files and annotations. Callers must not change the slice.
type Policies interface {
	Current() []scaling.Workload
}

// Telemetry returns the newest samples with their times. It does not block, because the sources are polled in the background.
type Telemetry interface {
	// Read sets each element of out to the newest reading of the signal with the same index in w.Policy.Signals. A reading stays unknown if
	// its signal was not polled yet for this version of the policy.
	Read(w *scaling.Workload, out []scaling.Reading)
}

// IdlePods is a Telemetry that reports which pods are idle, so that a scale-down can remove these first.
type IdlePods interface {
	// Idle reports whether a pod is known to be idle. It does not block. It returns false for a pod without data.
	Idle(w *scaling.Workload, pod string, now time.Time) bool
}

// Cluster returns the observed state of the scale targets and applies the decisions.
type Cluster interface {
	// View returns the newest view of a workload's scale target from memory; ok is false if the target does not exist or the cache is not
	// synced.
	View(w *scaling.Workload) (v View, ok bool)
	// Apply records Events and scales workloads from and to zero. It returns at the latest when ctx ends.
	Apply(ctx context.Context, changes []Change) error
}

// Refusals is implemented by a Cluster that can return the reason why View does not return a scale target that exists.
type Refusals interface {
	// Refusal returns the reason, or "" if the scale target is not refused.
	Refusal(w *scaling.Workload) string
}

// View is the observed state of a workload's scale target.
type View struct {
	UID                               string `json:",omitempty"` // UID of the scale target; empty if the cluster has none
	Replicas, Ready, Loading, Pending int32
	// Crashing is the number of replicas that restart in a loop. They count neither as ready nor as loading. CrashingPod is the name of one
	// of their pods.
	Crashing    int32  `json:",omitempty"`
	CrashingPod string `json:",omitempty"`
	// Rejected is the number of replicas whose pods the API server rejects, at least 1 while it rejects any; Rejection is the reason.
	Rejected  int32     `json:",omitempty"`
	Rejection Rejection `json:",omitzero"`
	GPUs      int32     // GPUs per replica; 0 if its pods request none
	// Version is a hash of the properties that determine the capacity of a replica: the image, the command, the arguments and the GPUs of
	// the server, and the selected GPU type. If the ready pods have different hashes, Version is the most frequent one. 0: not known.
	Version uint64 `json:",omitempty"`
	// Started contains the newest completed starts of replicas. It is nil if there are none or their times are not known. It is not changed
	// after it is set.
	Started *planner.ReplicaStarts `json:",omitempty"`
	// MinReplicas and MaxReplicas are the bounds of the HPA or ScaledObject of the scale target, -1 if there is none.
	MinReplicas, MaxReplicas int32
	Operator                 scaling.Operator
	OperatorBy               string // the field manager that set the annotations in Operator, and when
	ManagedHPA               ManagedHPA
	Advice                   Advice `json:",omitzero"` // advice of the capacity group from the previous tick; set by the engine
	// Limit is the workload's share of its team's limits in this tick. The engine sets it.
	Limit scaling.TeamLimit `json:",omitzero"`
}

// ManagedHPA is the HPA or ScaledObject that reads the workload's target from gpuscaler and scales the workload.
type ManagedHPA struct {
	Kind, Name string // empty: no HPA reads the target of this workload
	Desired    int32  // the HPA's status.desiredReplicas
	Exact      bool   // the HPA applies every change of the target: neither its behavior nor its tolerance prevents a change
	Why        string // why Exact is false
}

// Requests is implemented by a Cluster that can return the resource requests of pods. Team limits need it. Without it the requests are
// unknown, and no workload of a team with limits is scaled up.
type Requests interface {
	// Request returns how much of a resource the pods of one replica of a workload request. known is false if that cannot be determined,
	// for example because the pod template cannot be read or a pod has a device claim whose devices cannot be counted. pods is the sum of
	// the known requests of the workload's existing pods.
	Request(w *scaling.Workload, resource string) (perReplica int64, known bool, pods int64)
	// Unmanaged returns how much of a resource the pods in the team's namespaces request, without the pods of the given workloads. The engine
	// passes the same slice of workloads until the workloads change.
	Unmanaged(team *scaling.Team, of []*scaling.Workload, resource string) int64
}

// Pod is one pod of a workload. Telemetry uses it to compute coverage, to scrape pods and to match series to workloads.
type Pod struct {
	Name, IP, Node string
	Ready          bool
	Started        time.Time
	// Leader is true for the pod that serves metrics, in a replica that consists of several pods (LeaderWorkerSet).
	Leader bool
	// SharedGPU is true for a pod that requests a share of a GPU (nvidia.com/gpu.shared): other pods may use the same GPU.
	SharedGPU bool
}

// Pods returns the pods of a workload from memory. Package cluster implements it; package telemetry reads it.
type Pods interface {
	Pods(w *scaling.Workload) []Pod
}
