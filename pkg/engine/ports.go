package engine

import (
	"context"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// Policies returns the current workloads, as defined in files and annotations. Callers must not change the slice.
type Policies interface {
	Current() []scaling.Workload
}

// Telemetry returns the newest samples with their times. It does not block, because sources are polled in the background.
type Telemetry interface {
	// Read sets out[i] to the newest reading of w.Policy.Signals[i]. If the signal has not been polled since the policy changed, the reading
	// is unknown.
	Read(w *scaling.Workload, out []scaling.Reading)
}

// IdlePods is implemented by a Telemetry that reports which pods are idle, so that a scale-down can remove the idle pods first.
type IdlePods interface {
	// Idle reports whether a pod is known to be idle. It returns false for a pod without data. It must not block.
	Idle(w *scaling.Workload, pod string, now time.Time) bool
}

// Cluster returns the observed state of the scale targets and applies the decisions.
type Cluster interface {
	// View returns the newest observed state of a workload's scale target from memory. ok is false if the target does not exist or the cache
	// is not synced.
	View(w *scaling.Workload) (v View, ok bool)
	// Apply records Events for the changes, and scales workloads from zero and to zero replicas. It returns when ctx ends, at the latest.
	Apply(ctx context.Context, changes []Change) error
}

// Refusals is implemented by a Cluster that can explain why View does not return an existing scale target.
type Refusals interface {
	// Refusal returns the reason, or "" if the scale target does not exist or View returns it.
	Refusal(w *scaling.Workload) string
}

// View is the observed state of a workload's scale target.
type View struct {
	UID                               string `json:",omitempty"` // UID of the scale target; empty if the cluster reports none
	Replicas, Ready, Loading, Pending int32
	// Crashing is the number of replicas that restart in a loop. These replicas are neither in Ready nor in Loading. CrashingPod is the name
	// of a pod of one of these replicas.
	Crashing    int32  `json:",omitempty"`
	CrashingPod string `json:",omitempty"`
	// Rejected is the number of replicas whose pods the API server rejects. It is at least 1 while the API server rejects any pod. Rejection
	// is the reason.
	Rejected  int32     `json:",omitempty"`
	Rejection Rejection `json:",omitzero"`
	GPUs      int32     // GPUs per replica; 0 if the pods request none
	// Version is a hash of the properties that determine the capacity of a replica: the image, the command, the arguments and the GPUs of the
	// server, and the selected GPU type. If the ready pods have different hashes, the most frequent hash is used. 0 means that the hash is
	// unknown.
	Version uint64 `json:",omitempty"`
	// Started contains the newest replicas that became ready, with their cold starts. It is nil if no replica became ready or if the times are
	// unknown. The value that it refers to never changes.
	Started *planner.ReplicaStarts `json:",omitempty"`
	// MinReplicas and MaxReplicas are the bounds of the HPA or ScaledObject of the scale target; -1 if it has neither.
	MinReplicas, MaxReplicas int32
	Operator                 scaling.Operator
	OperatorBy               string // the field manager that set the annotations from which Operator was read, and when
	ManagedHPA               ManagedHPA
	Advice                   Advice `json:",omitzero"` // advice of the capacity group from the previous tick; set by the engine
	// Limit is the workload's share of its team's limits in the current tick. The engine sets it.
	Limit scaling.TeamLimit `json:",omitzero"`
}

// Rejection is the reason why the API server creates no more pods of a scale target. The zero value means that it rejects no pods.
type Rejection struct {
	Kind string `json:"kind"`           // "ResourceQuota", "LimitRange", or "admission" for every other admission check
	Name string `json:"name,omitempty"` // name of the ResourceQuota; the API server does not return the name of a LimitRange
	Text string `json:"text"`           // error text of the API server
}

// By returns the object that rejects the pods, such as "ResourceQuota gpus".
func (r Rejection) By() string {
	if r.Kind == "LimitRange" {
		return "a LimitRange"
	}
	if r.Name == "" {
		return r.Kind
	}
	return r.Kind + " " + r.Name
}

// NextStep returns what the user should do to resolve the rejection, with the command that shows the object that rejects the pods.
func (r Rejection) NextStep(namespace string) string {
	kubectl := "kubectl -n " + namespace
	switch {
	case r.Kind == "ResourceQuota" && r.Name != "":
		return "raise the quota or lower maxReplicas: " + kubectl + " describe resourcequota " + r.Name
	case r.Kind == "ResourceQuota":
		return "raise the quota or lower maxReplicas: " + kubectl + " describe resourcequota"
	case r.Kind == "LimitRange":
		return "change the pod template or the LimitRange: " + kubectl + " describe limitrange"
	}
	return "change the pod template or the admission policy: " + kubectl + " get events --field-selector reason=FailedCreate"
}

// ManagedHPA is the HPA or ScaledObject that reads the workload's target from gpuscaler and scales the workload.
type ManagedHPA struct {
	Kind, Name string // kind and name of the object; empty: no HPA reads the target of this workload
	Desired    int32  // the HPA's status.desiredReplicas
	Exact      bool   // neither behavior nor tolerance of the HPA delays or prevents a change of the replicas to the target
	Why        string // why Exact is false; empty if Exact is true
}

// Requests is implemented by a Cluster that can return the resource requests of pods, for team limits. If the Cluster does not implement
// it, no workload of a team with limits is scaled up.
type Requests interface {
	// Request returns how much of a resource the pods of one replica of a workload request. known is false if the request cannot be
	// determined, for example because the pod template cannot be read, or because the devices of a pod's claim cannot be counted. pods is the
	// sum of the known requests of the workload's existing pods.
	Request(w *scaling.Workload, resource string) (perReplica int64, known bool, pods int64)
	// Unmanaged returns how much of a resource is requested by the pods in the team's namespaces that belong to none of the given
	// workloads. The engine passes the same slice until the workloads change.
	Unmanaged(team *scaling.Team, of []*scaling.Workload, resource string) int64
}

// Pod is one pod of a workload. Telemetry uses it to compute how many pods report a metric, to scrape pods, and to match series to
// workloads.
type Pod struct {
	Name, IP, Node string
	Ready          bool
	Started        time.Time
	// Leader is true for the pod that serves metrics if a replica consists of several pods (LeaderWorkerSet).
	Leader bool
	// SharedGPU is true for a pod that requests a share of a GPU (nvidia.com/gpu.shared): other pods may use the same GPU.
	SharedGPU bool
}

// Pods returns the pods of a workload from memory. Package cluster implements it; package telemetry reads it.
type Pods interface {
	Pods(w *scaling.Workload) []Pod
}
