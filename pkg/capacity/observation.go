package capacity

import (
	"slices"
	"strings"
	"time"
)

// Observation is what is seen of one group in a tick.
type Observation struct {
	Pools         []PoolView // parallel to Group.Pools
	Workloads     []Workload // of the group's policies, in a stable order
	UnmanagedPods []Pod      // every other pod that asks for the resource and can land in the group's pools, DaemonSets excluded
	Ahead         []Span     // demand that is known beforehand: schedule floors, forecasts; those that are open now included
	// Lost says that demand cannot be trusted to be complete: a cache is not synced, nothing was decided lately.
	Lost bool
	// Shields says that this Karpenter reads a duration in karpenter.sh/do-not-disrupt; Buffers that it serves CapacityBuffers.
	Shields, Buffers bool
}

// Fields is the set of words in the annotation gpuscaler.io/nudge, by which a NodePool's owner lets gpuscaler write fields.
type Fields uint8

const (
	ConsentLimits Fields = 1 << iota
	ConsentWeight
	ConsentDisruption
	// ConsentRestore ends the overrides: the listed fields go back to the owner's values, and none is overridden again. The fields
	// must stay listed until then, because the chart's admission policy refuses every other write.
	ConsentRestore
)

const consentAny = ConsentLimits | ConsentWeight | ConsentDisruption

var fieldWords = []string{"limits", "weight", "disruption", "restore"}

// ConsentOf reads the annotation gpuscaler.io/nudge, such as "limits,weight,disruption"; unknown is the first word that it does not know.
func ConsentOf(text string) (c Fields, unknown string) {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		switch i := slices.Index(fieldWords, word); {
		case i >= 0:
			c |= 1 << i
		case word != "" && unknown == "":
			unknown = word
		}
	}
	return c, unknown
}

// PoolView is one NodePool as the cluster shows it.
type PoolView struct {
	Exists  bool
	Ready   bool   // condition Ready is not False; Karpenter skips a pool where it is
	Mixed   bool   // its requirements allow spot and another capacity type; reserved and on-demand together are not mixed
	Record  string // our annotation, as Decide returned it last or a dead controller left it; "": none
	Consent Fields

	Limits              []LimitView // every entry of spec.limits; one that is missing here is absent there
	Weight              FieldView
	ConsolidateAfter    FieldView
	ConsolidationPolicy FieldView
	Budgets             FieldView

	Template string // karpenter.sh/nodepool-hash, for people
	Usage    int64  // status.resources of the group's resource
	NodeGPUs int64  // units on the greatest node that the pool may launch; 0: not known, the greatest that was seen counts
	// Nodes are the NodeClaims of the pool that exist, those on their way and on their way out included.
	Nodes []Node
	// Failures and Losses are those of the last hour at least, each NodeClaim once.
	Failures []Failure
	Losses   []Loss
}

// FieldView is one field of a NodePool's spec.
type FieldView struct {
	Value       Value
	Owner       string // field manager that owns it, other than ours; "": nobody
	Ours        bool   // our field manager owns it
	Unsupported bool   // the CRD's schema does not have it
}

// LimitView is one entry of spec.limits.
//
// Karpenter launches no instance type whose capacity, added to Used, exceeds the limit. The limit of "nodes" counts nodes.
type LimitView struct {
	Resource string
	FieldView
	Used float64 // what the pool's nodes have of the resource, as Karpenter counts it: cpu in cores, memory in bytes
	Node float64 // the least that one of them has; 0: not known
}

// Stage is how far a node has come.
type Stage uint8

const (
	Requested Stage = iota // a NodeClaim that no provider has answered yet: proves nothing
	Launched               // an instance exists
	Usable                 // initialised: pods can run
)

// Node is one NodeClaim with its Node.
type Node struct {
	Name, UID    string // of the Node, and of the claim
	Type         CapacityType
	Stage        Stage
	Ready        bool
	GPUs, Used   int64 // of the resource: capacity, and what pods on it ask for
	Created      time.Time
	InstanceType string
	Hourly       float64 // price, 0 where unknown

	Deleting  bool
	Voluntary bool // Karpenter set a DisruptionReason: its own work, not a loss
	Notice    bool // the provider gave notice that it takes the node

	// What keeps an empty node from going, counted in pods.
	BlockingPods     int32 // pods that ask for none of the resource and belong to no DaemonSet
	DoNotDisruptPods int32 // pods with do-not-disrupt, DaemonSets included
	Buffered         bool  // held by a CapacityBuffer
}

// Failure is a NodeClaim that ended before an instance existed.
type Failure struct {
	UID      string
	At       time.Time
	Capacity bool // for lack of capacity, as its InsufficientCapacityError event says; otherwise for another reason
}

// Loss is a node that went without being asked to: interruption, reclaim, hardware.
type Loss struct {
	UID string
	At  time.Time
}

// Owner is the kind of controller that owns a pod.
type Owner uint8

const (
	OwnerOther      Owner = iota // a Job, a notebook, a pod of its own
	OwnerReplicaSet              // reads pod-deletion-cost
	OwnerStatefulSet
	OwnerLeaderWorkerSet
)

// Workload is one policy's workload.
type Workload struct {
	Key string // namespace/name
	// Uncapped is scaling's number before the capacity cap, Extra what at-risk and surge added to it.
	Uncapped, Extra int32
	// Room is how many replicas a surge can add to Uncapped, if Bounded: maxReplicas, an override or a team limit stops the others.
	Bounded bool
	Room    int32
	Current int32 // spec.replicas of the target
	GPUs    int64 // per replica, all of its pods together
	PodGPUs int64 // of its greatest pod, where a replica is several; 0: GPUs
	Size    int32 // pods of one replica; 0: one
	Known   bool  // decided lately, on readings that are not missing
	Paused  bool  // a person froze it: its demand is what it has
	Quota   bool  // a ResourceQuota refuses its pods
	Claims  bool  // its pods claim devices that may be GPUs by dynamic resource allocation, which GPUs does not count
	Buffer  int32 // replicas of our CapacityBuffer for it
	Pods    []Pod // those of one replica are adjacent
}

// Pod is one pod that asks for the resource. One that terminates is not listed.
type Pod struct {
	UID, Namespace, Name string
	Replica              string // which replica it is a part of, where a replica is several pods; "": it is one by itself
	Owner                Owner
	GPUs                 int64
	// Pool and Node are indexes in Observation.Pools and its Nodes; Pool is -1 while the pod has no node, or one of another pool.
	Pool             int
	Node             int
	Pending          bool      // has no node at all
	Since            time.Time // when it was created
	Ready            bool
	Loading          bool // on a node, not ready yet, and not crashing in a loop
	Idle             bool // known to do nothing at present
	Pinned           bool // cannot land in the group's spot pool, for all that is known
	UnknownLabels    bool // and that is for want of knowledge: labels that a NodePool may or may not give its nodes
	Claims           bool // claims devices that may be GPUs by dynamic resource allocation, which GPUs does not count
	UnknownPlacement bool // nobody can tell whether it can land in the group's pools: it counts as no demand, and lifts a fence

	DeletionCost Annotation
	DoNotDisrupt Annotation
}

// Annotation is an annotation of a pod.
type Annotation struct {
	Value string // "": absent
	Ours  bool   // our field manager owns it
}

// Span is demand that is known beforehand.
type Span struct {
	From, Until time.Time
	GPUs        int64  // at least so many of the resource are wanted meanwhile
	Workload    string // whose; "" where it is nobody's in particular
	Replicas    int32
}
