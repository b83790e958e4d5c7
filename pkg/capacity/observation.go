package capacity

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// Observation is the state of one group at a tick, as the caches contain it.
type Observation struct {
	Pools     []PoolView // in the order of Group.Pools
	Workloads []Workload // workloads of the group's policies, always in the same order
	// all other pods that request the resource and can be scheduled to the group's NodePools, except pods of DaemonSets
	UnmanagedPods []Pod
	Ahead         []Span // time spans of demand that is known in advance from schedules and forecasts, including spans that have begun
	// Lost is true if demand may be incomplete: a cache is not synced, or a workload has no recent decision.
	Lost bool
	// Shields is true if the cluster's Karpenter supports durations in karpenter.sh/do-not-disrupt. Buffers is true if Karpenter supports
	// CapacityBuffers.
	Shields, Buffers bool
}

// PoolView is the observed state of one NodePool.
type PoolView struct {
	Exists bool
	Ready  bool // the condition Ready is not False; Karpenter launches nothing in a NodePool that is not ready
	Mixed  bool // its requirements allow spot and another capacity type; false if they allow only reserved and on-demand
	nodepool.View
	// LaunchesOnDemand is true if the requirements allow on-demand nodes besides reserved nodes. If the group lists such a NodePool as
	// reserved, gpuscaler treats it as an on-demand NodePool whose reserved nodes are used first.
	LaunchesOnDemand bool `json:",omitempty"`

	// Replicas is spec.replicas of a static NodePool, for which Karpenter keeps this number of nodes even without pods. It is nil for every
	// other NodePool.
	Replicas *int64 `json:",omitempty"`

	// Quiet contains the times at which Karpenter must not replace drifted nodes, because a disruption budget with a schedule forbids it.
	Quiet []QuietTime `json:",omitempty"`

	// Elsewhere is the number of nodes that have the labels of the group's NodeSelector but belong to a NodePool of Karpenter or to another
	// group. Nodes does not contain them.
	Elsewhere int `json:",omitempty"`

	Template string // karpenter.sh/nodepool-hash; only shown to users
	Usage    int64  // units of the group's resource in status.resources of the NodePool
	NodeGPUs int64  // units of the largest node that the NodePool can launch; 0: unknown, so the largest observed node is used
	// Nodes contains the existing NodeClaims of the NodePool, including NodeClaims whose node boots or is being deleted.
	Nodes []Node
	// Failures and Losses cover at least the last hour and contain each NodeClaim once.
	Failures []evidence.Failure
	Losses   []evidence.Loss
}

// QuietTime is the schedule of a disruption budget of 0 nodes. The budget applies for Duration from each time, in UTC, that matches Start.
type QuietTime struct {
	Start    calendar.Cron
	Duration time.Duration
}

// isQuiet reports whether one of the quiet times of the NodePool has begun and not ended.
func (v *PoolView) isQuiet(now time.Time) bool {
	return slices.ContainsFunc(v.Quiet, func(q QuietTime) bool {
		start, ok := q.Start.AtOrBefore(now)
		return ok && now.Before(start.Add(q.Duration))
	})
}

// Stage is how far the start of a node has progressed.
type Stage uint8

// Values of Stage.
const (
	Requested Stage = iota // a NodeClaim without an instance, whose launch may still fail
	Launched               // an instance exists
	Usable                 // initialized: pods can run
)

// Node is one NodeClaim together with its Node object.
type Node struct {
	Name, UID    string // Name of the Node object, UID of the NodeClaim
	Type         CapacityType
	Stage        Stage
	Ready        bool
	GPUs, Used   int64 // units of the group's resource: the node's capacity, and the requests of its pods
	Created      time.Time
	InstanceType string
	Hourly       float64 // price per hour; 0: unknown

	Deleting  bool
	Voluntary bool // Karpenter set a DisruptionReason: Karpenter removes the node, so it is not a loss
	Notice    bool // the provider announced that it takes the node
	Drifted   bool `json:",omitempty"` // Karpenter replaces the node as soon as it may disrupt the pods on the node
	// the node has the taint karpenter.sh/disrupted: Karpenter has chosen it for disruption, or is removing it
	Disrupted bool `json:",omitempty"`
	// DoNotDisrupt is true if the Node has the annotation karpenter.sh/do-not-disrupt. Karpenter does not replace such a node when it
	// drifts.
	DoNotDisrupt bool `json:",omitempty"`

	// The following fields describe what prevents the removal of the node while no pod on it requests the group's resource.
	BlockingPods     int32 // number of pods that request none of the resource and belong to no DaemonSet
	DoNotDisruptPods int32 // number of pods with karpenter.sh/do-not-disrupt, including pods of DaemonSets
	Buffered         bool  // a CapacityBuffer keeps the node
}

// Owner is the kind of controller that owns a pod.
type Owner uint8

// Values of Owner.
const (
	OwnerOther      Owner = iota // a Job, another controller (for example of notebooks), or no controller
	OwnerReplicaSet              // a ReplicaSet, which reads pod-deletion-cost
	OwnerStatefulSet
	OwnerLeaderWorkerSet
)

// Workload is the workload of one policy.
type Workload struct {
	Key string // namespace/name
	// Uncapped is the target before the target cap. Extra is the number of replicas in Uncapped that replace replicas at risk or that are
	// added for a move to spot or before an eviction (surge).
	Uncapped, Extra int32
	// Bounded is true if the target may not grow freely for a surge, because of maxReplicas, an override of the target or a team limit. The
	// target may then exceed Uncapped by at most Room replicas.
	Bounded bool
	Room    int32
	Current int32 // spec.replicas of the scale target
	GPUs    int64 // GPUs of all pods of one replica together
	PodGPUs int64 // GPUs of the largest pod, if a replica has several pods; 0: the same as GPUs
	Size    int32 // number of pods of one replica; during a rollout, of the largest replica; 0 means 1
	Known   bool  // the workload has a recent decision, and none of its readings is missing
	Paused  bool  // a user paused the workload: its demand is its current size
	Quota   bool  // the API server rejects the workload's pods, for example because of a ResourceQuota or a LimitRange
	Claims  bool  // the pods claim devices by dynamic resource allocation that may be GPUs and are not counted in the field GPUs
	Claimed bool  `json:",omitempty"` // the field GPUs includes devices that the pods claim, except for claims that the replicas share
	Buffer  int32 // replicas of the CapacityBuffer that gpuscaler wrote for the workload
	// Infeasible is true if the autoscaler reports, in the status of the CapacityBuffer, that it can add no node with space for a replica.
	Infeasible bool `json:",omitempty"`
	// ColdStart is the learned time from a decision to a ready replica, rounded up to minutes; 0: unknown
	ColdStart time.Duration `json:",omitempty"`
	// LeadTime is the 95th percentile of the observed cold starts, or the cold start that the policy states, rounded up to minutes; 0: unknown
	LeadTime time.Duration `json:",omitempty"`
	Pods     []Pod         // the pods of one replica are adjacent
}

// Pod is one pod that requests the resource. A terminating pod is not listed.
type Pod struct {
	UID, Namespace, Name string
	Replica              string // name of the replica, if a replica has several pods; "": the pod is a replica
	// Size is the number of pods of its replica; 0: Workload.Size. It differs from Workload.Size for some replicas while a rollout changes
	// the number of pods.
	Size  int32 `json:",omitempty"`
	Owner Owner
	GPUs  int64
	// Pool is the index of the pod's NodePool in Observation.Pools, and Node is the index in the Nodes of that NodePool. Pool is -1 for a
	// pod that is not on a node of the group.
	Pool          int
	Node          int
	Pending       bool      // the pod has no node
	Since         time.Time // creation time
	Ready         bool
	Loading       bool // the pod is on a node, not ready yet, and not in a crash loop
	Idle          bool // the pod is known to process no request now
	Pinned        bool // the pod cannot be scheduled to the group's spot NodePool, or this is unknown
	UnknownLabels bool // Pinned is true because it is unknown whether the nodes of the NodePool have the labels that the pod requests
	Claims        bool // the pod claims devices by dynamic resource allocation that may be GPUs and are not included in the field GPUs
	// The field GPUs includes devices that the pod claims. A claim that several pods share is included for only one of them.
	Claimed bool `json:",omitempty"`
	// UnknownPlacement is true if it is unknown whether the pod can be scheduled to the group's NodePools. The pod does not count as demand,
	// but while it exists, no NodePool of the group gets a zero limit.
	UnknownPlacement bool
	// Held is true if the pod has no node and waits for something other than a node: it has a scheduling gate, or its gang does not start.
	// The pod counts as demand, but not as waiting, because no provisioner launches a node for it.
	Held bool `json:",omitempty"`
	// InvalidAnnotation is an annotation with the size of the pod's gang whose value cannot be used.
	InvalidAnnotation string `json:",omitempty"`

	DeletionCost Annotation
	DoNotDisrupt Annotation
}

// Annotation is an annotation of a pod.
type Annotation struct {
	Value string // "": absent
	Ours  bool   // the field manager of gpuscaler owns it
}

// Span is a time span with demand that is known in advance, from a schedule or a forecast.
type Span struct {
	From, Until time.Time
	GPUs        int64  // minimum number of units that are needed in this time
	Workload    string // the workload that needs them; "": several workloads or none
	Replicas    int32
}

// eachReplica calls visit with the pods of each replica of a workload.
func (w *Workload) eachReplica(visit func(pods []Pod)) {
	for i := 0; i < len(w.Pods); {
		n := 1
		for i+n < len(w.Pods) && w.Pods[i].Replica != "" && w.Pods[i+n].Replica == w.Pods[i].Replica {
			n++
		}
		visit(w.Pods[i : i+n])
		i += n
	}
}

// size returns the number of pods of one replica.
func (w *Workload) size() int32 { return max(w.Size, 1) }

// complete reports whether pods, the existing pods of one replica, are as many as a replica must have. A replica with several pods serves
// requests only if all of them exist.
func (w *Workload) complete(pods []Pod) bool {
	size := int32(0)
	for i := range pods {
		size = max(size, pods[i].Size)
	}
	if size == 0 {
		size = w.size()
	}
	return len(pods) >= int(size)
}

// podGPUs returns how many GPUs the largest pod of a replica requests. The pod needs a node with at least this number.
func (w *Workload) podGPUs() int64 {
	if w.PodGPUs > 0 {
		return nodepool.Units(w.PodGPUs)
	}
	return nodepool.Units(w.GPUs)
}

// needs returns the number of replicas that the scaling decision requests. It excludes the replicas that this package added for replicas
// at risk and for a move.
func (w *Workload) needs() int32 { return max(w.Uncapped-max(w.Extra, 0), 0) }
