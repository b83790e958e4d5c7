package capacity

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// Decision is the result of one tick for one group.
type Decision struct {
	// Actions are applied by the caller. The caller applies the actions that allow more nodes (Loosens) before it serves the targets of the
	// tick. In an advisory group, actions only restore fields.
	Actions []Action
	// Plan contains the changes that an advisory group would make. For every other group it is empty.
	Plan   []Action
	Advice []Advice // in the order of Observation.Workloads
	// Closed contains the cause for which each existing NodePool provides no node. It is empty unless targets are capped because no NodePool
	// provides a node. Until is the time at which the cap ends; zero: not known.
	Closed []Closed  `json:",omitempty"`
	Until  time.Time `json:",omitzero"`
	explain.Report
	Demand Demand
	Phase  statemachine.Phase

	returning []onDemandNode // the slice analysis.returning of the last tick, whose memory the next tick reuses
}

// Demand is how much of the group's resource, such as nvidia.com/gpu, policies and pods request.
type Demand struct {
	Policies      int64 // units that the targets of policies request, without target caps
	UnmanagedPods int64 // requests of all other pods that run or are pending
	Pending       int64 // requests of pods without a node, if no node is being launched for them
	Unknown       bool  // whether the demand may be greater than the other fields of Demand
}

// Total returns the demand of policies and unmanaged pods.
func (d Demand) Total() int64 { return d.Policies + d.UnmanagedPods }

// Advice is the adjustment of one workload's target that package scaling applies at the next tick. It has the fields of scaling.Advice.
type Advice struct {
	Cap     int32 // maximum of the target: the replicas that have nodes, or space on existing nodes, plus one; -1: no cap
	AtRisk  int32 // replicas to add for ready replicas on nodes that are about to be lost, and for expected losses
	Reserve int32 // the part of AtRisk that is for expected losses
	Surge   int32 // replicas to add for a move to spot, or as a successor before Karpenter evicts a replica
}

// NoAdvice is advice that changes no target.
var NoAdvice = Advice{Cap: -1}

// Closed is why a NodePool provides no node while the targets of its group are capped. Units and Unmanaged are set for every Cause. The
// other numbers are 0 if they do not apply to the Cause.
type Closed struct {
	Pool  int8 // index in Group.Pools
	Cause explain.Cause
	// Limited depends on Cause. For CauseLimit it is the resource whose limit allows the fewest nodes. For CauseFleet it is maxNodes or
	// maxCapacity, or "" if neither is set.
	Limited     string
	Limit, Used float64 // the limit that Limited names, and the current amount that counts against it
	Scheduled   bool    // whether an open schedule of the group set the limit, instead of the NodePool's owner
	Left        bool    // whether the limit is an override that gpuscaler may no longer change
	// Waiting is the number of units that the smallest waiting pod requests, if the limit allows only nodes that are too small for it.
	Waiting   int64
	Units     int64 // units of the group's resource on the nodes of the NodePool
	Unmanaged int64 // units that pods without a policy of the group use on these nodes
	Refused   int   // for CauseRefused: launches that were refused for lack of capacity
}

// Action is one of NodePoolPatch, PodAnnotation and Buffer. No action can change the template or the requirements of a NodePool, because
// such a change would replace running nodes.
type Action interface {
	Text() string
	action()
}

// NodePoolPatch changes fields of one NodePool's spec, and the annotation that records the overrides. The documentation of override.Patch
// says how the caller must apply the patch.
type NodePoolPatch struct {
	Pool string
	override.Patch
}

// AnnotationKind is the annotation that a PodAnnotation sets.
type AnnotationKind uint8

// Values of AnnotationKind.
const (
	DoNotDisrupt AnnotationKind = iota // karpenter.sh/do-not-disrupt, a duration
	DeletionCost                       // controller.kubernetes.io/pod-deletion-cost
)

// PodAnnotation sets or removes an annotation of one pod.
type PodAnnotation struct {
	UID, Namespace, Name string
	Kind                 AnnotationKind
	Value                string // "": remove the annotation
	Rule                 explain.Rule
}

// Buffer sets the number of replicas for which a workload's CapacityBuffer keeps nodes. 0 removes the buffer.
type Buffer struct {
	Workload string
	Replicas int32
}

func (NodePoolPatch) action() {}
func (PodAnnotation) action() {}
func (Buffer) action()        {}

// Text returns one line for each changed field, with the old value, the new value and the rule. If a patch changes only the record
// annotation, Text returns one line that says so.
func (p NodePoolPatch) Text() string {
	var b strings.Builder
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "%s %s: %s -> %s  (%s)\n", p.Pool, c.Path(), c.From, c.To, c.Why())
	}
	if len(p.Changes) == 0 {
		fmt.Fprintf(&b, "%s: no field changes, only the annotation with the owner's values\n", p.Pool)
	}
	return b.String()
}

// String returns the key of the annotation.
func (k AnnotationKind) String() string {
	return [...]string{"karpenter.sh/do-not-disrupt", "controller.kubernetes.io/pod-deletion-cost"}[min(k, DeletionCost)]
}

// Text returns one line with the pod, the annotation, its new value or that it is removed, and the rule.
func (m PodAnnotation) Text() string {
	change := "removed"
	if m.Value != "" {
		change = "set to " + m.Value
	}
	return fmt.Sprintf("%s/%s: annotation %s %s  (%s)\n", m.Namespace, m.Name, m.Kind, change, m.Rule)
}

// Text returns one line with the workload and the number of replicas of its CapacityBuffer.
func (b Buffer) Text() string {
	unit := "replicas"
	if b.Replicas == 1 {
		unit = "replica"
	}
	return fmt.Sprintf("%s CapacityBuffer: %d %s\n", b.Workload, b.Replicas, unit)
}
