package capacity

// Decision is the result of one tick for one group.
type Decision struct {
	// Actions are applied by the caller, those that Loosen before the targets of the tick are served. In an advisory group they only
	// restore.
	Actions []Action
	// Plan has the changes that an advisory group would make; empty for every other group.
	Plan     []Action
	Advice   []Advice // parallel to Observation.Workloads
	Findings []Finding
	Reasons  []Reason
	Demand   Demand
	Phase    Phase

	movable []int64 // reused between ticks, see analysis
}

// Demand is what is requested of a group's nodes, in units of its resource.
type Demand struct {
	Policies      int64 // uncapped targets
	UnmanagedPods int64 // every other pod, running or pending
	Pending       int64 // of pods without a node that no node on its way will take
	Unknown       bool  // the demand is at least this much, and may be more
}

// Total returns the demand of policies and unmanaged pods.
func (d Demand) Total() int64 { return d.Policies + d.UnmanagedPods }

// Advice is what scaling reads at the next tick for one workload. It mirrors scaling.Advice.
type Advice struct {
	Cap    int32 // greatest target for which nodes exist, and one more; -1: no cap
	AtRisk int32 // replicas to add for ready replicas on nodes that are about to be lost
	Surge  int32 // replicas to add for a move
}

// NoAdvice changes no target.
var NoAdvice = Advice{Cap: -1}

// Action is a closed set: NodePoolPatch, PodAnnotation, Buffer. None of them can change the template or the requirements of a NodePool,
// which would replace running nodes.
type Action interface {
	Text() string
	action()
}

// NodePoolPatch changes fields of one NodePool's spec and the annotation with the record. Overrides and Record together are one
// server-side apply with force: an apply gives up every field that it does not contain. A Change that restores is written for its
// recorded owner first, and is not part of Overrides.
type NodePoolPatch struct {
	Pool      string
	Changes   []Change // what differs; empty if only the record does
	Overrides []Change // every override after the patch, including those that do not change
	Record    string   // the annotation after the patch; "": remove it
	Loosens   bool     // it allows more nodes: applied before the targets are served
}

// Change is one field of a NodePoolPatch. Its path and its texts come from the field table.
type Change struct {
	Field    Field
	Resource string // of FieldLimit
	From, To Value
	Original Value  // the owner's value, which is restored later
	Owner    string // field manager before the override; "": none
	Restore  bool   // To is the owner's value: the override ends
	Rule     Rule   // that requests the value
}

// AnnotationKind is the annotation that a PodAnnotation sets.
type AnnotationKind uint8

// Values of AnnotationKind.
const (
	DoNotDisrupt AnnotationKind = iota // karpenter.sh/do-not-disrupt, a duration
	DeletionCost                       // controller.kubernetes.io/pod-deletion-cost
)

// PodAnnotation sets or clears an annotation of one pod.
type PodAnnotation struct {
	UID, Namespace, Name string
	Kind                 AnnotationKind
	Value                string // "": clear it
	Rule                 Rule
}

// Buffer sets the replicas of the CapacityBuffer for a workload's next replicas; 0 removes it.
type Buffer struct {
	Workload string
	Replicas int32
}

func (NodePoolPatch) action() {}
func (PodAnnotation) action() {}
func (Buffer) action()        {}
