package capacity

import "time"

// Decision is the outcome of one tick for one group.
type Decision struct {
	// Actions are to be carried out, those that Loosen before the tick's outcome is published. In advisory mode they only put back.
	Actions []Action
	// Plan is what would be done were the group not advisory; empty otherwise.
	Plan     []Action
	Advice   []Advice // parallel to Observation.Workloads
	Findings []Finding
	Reasons  []Reason
	Demand   Demand
	Phase    Phase

	movable []int64 // scratch: units of movable pods on each on-demand node
}

// Demand is what is asked of a group's nodes, in units of its resource.
type Demand struct {
	Policies      int64 // uncapped decisions
	UnmanagedPods int64 // every other pod, running or pending
	Pending       int64 // of pods without a node that no node on its way will take
	Unknown       bool  // some of it cannot be known: it is at least this much
}

// Total is all of it.
func (d Demand) Total() int64 { return d.Policies + d.UnmanagedPods }

// Advice is what the nodes say to one workload's replicas. It mirrors scaling.Advice.
type Advice struct {
	Cap    int32 // replicas beyond which no node can come at present; -1: no cap
	AtRisk int32 // ready replicas on nodes about to be lost
	Surge  int32 // extra replicas for a paced move
}

// NoAdvice says nothing.
var NoAdvice = Advice{Cap: -1}

// Action is a closed set: NodePoolPatch, PodAnnotation, Buffer. Nothing in it can reach a NodePool's template or requirements, whose
// narrowing replaces every running node.
type Action interface {
	Text() string
	action()
}

// NodePoolPatch changes fields of one NodePool's spec and the annotation that remembers it. Overrides is all that is ours afterwards, what
// stood before included: together with the record it is one server-side apply, by force; a field that an apply leaves out is a field
// that its manager gives up. A Change that restores is put back under its recorded owner first, and is not part of Overrides.
type NodePoolPatch struct {
	Pool      string
	Changes   []Change // what differs; empty where only the record does
	Overrides []Change
	Record    string // the annotation afterwards; "": remove it
	Loosens   bool   // it lets more nodes come: carried out before the outcome is published
}

// Change is one field of a NodePoolPatch.
type Change struct {
	Field    Field
	Resource string // of FieldLimit
	From, To Value
	Original Value  // what it goes back to one day
	Owner    string // field manager that had it before us; "": nobody
	Restore  bool   // To is the original: our ownership ends
	Rule     Rule   // who wants it
}

// AnnotationKind is an annotation that a PodAnnotation sets.
type AnnotationKind uint8

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

// Buffer sets the replicas of the CapacityBuffer that stands for a workload's next replicas; 0 removes it.
type Buffer struct {
	Workload string
	Replicas int32
}

func (NodePoolPatch) action() {}
func (PodAnnotation) action() {}
func (Buffer) action()        {}

// Rule names one step of Decide, in the order in which they stand there.
type Rule uint8

// A, B and Until are the numbers of the rule's Reason.
const (
	RuleNone                Rule = iota
	RuleDemand                   // A: policies, B: others
	RuleForeignEdit              // an edit by somebody else wins. Name: the field; A: times overwritten; Until: left alone until then
	RuleSchedule                 // a window of the group is open. Name: the window; Until: its end
	RuleBase                     // on-demand first, up to its base. A: base; B: what runs there
	RuleFallback                 // on-demand before spot. A: refused launches or losses, B: attempts or nodes; Until: next probe, zero where a hard one opens spot
	RuleProbe                    // spot again, one node at most. A: the limit; Until: when it is given up, zero where spot is open
	RuleReturn                   // the way back to spot. A: units left on demand; B: nodes an hour; Until: next move
	RuleMove                     // one replica moves. Name: the workload; A: its ready replicas, B: those it needs
	RuleSpotWaitTimeout          // on-demand may not grow yet. A: its limit; Until: when patience ends, zero while nobody waits
	RuleZeroLimit                // limit 0 while nobody wants anything; Until: when it comes, zero while it stands
	RuleNoZeroLimit              // A: what lifted it, a LiftReason
	RuleConsolidationFreeze      // no consolidation. A: until when empty nodes stay too, in Unix seconds, 0: they go; Until: its end, also if we die
	RuleShield                   // A: pods that load
	RulePacking                  // A: pods that go first
	RuleAtRisk                   // A: replicas on nodes with notice; B: more, expected after a burst of losses
	RuleConstrained              // CapacityConstrained. A: replicas that cannot come; Until: next try
	RuleBuffer                   // A: replicas held ready; Until: when they are wanted
	RuleRelease                  // everything goes back
	numRules
)

// LiftReason says why a fence does not stand.
type LiftReason uint8

const (
	LiftedByDemand        LiftReason = iota // somebody wants something
	LiftedByPendingPod                      // a pod has been pending that may be ours
	LiftedByUnknownDemand                   // demand cannot be known
	LiftedByKnownDemand                     // demand is known to come
	LiftedByPods                            // pods still run
	NotLifted                               // nobody wants anything, not for long enough
)

// Reason is one rule's effect. Text is rendered when somebody reads it.
type Reason struct {
	Rule  Rule
	Pool  int8   // index in Group.Pools, -1: the group
	Name  string // a workload, a window, a field
	Cause Cause
	A, B  float64
	Until time.Time // zero: no end is known
}

// Cause says why spot was left, or a pool brings no node.
type Cause uint8

const (
	CauseNone            Cause = iota
	CauseRefused               // launches failed for lack of capacity
	CauseLost                  // nodes were lost
	CauseSpotWaitTimeout       // pods waited for longer than the group's patience
	CauseLimit                 // at its limit
	CauseNotReady              // not Ready, or not there
	CauseQuota                 // a ResourceQuota refuses the pods
	CauseProbe                 // a probe failed
)

// FindingKind says what is wrong, or in the way, that only a person can change.
type FindingKind uint8

const (
	FindMissing           FindingKind = iota // the NodePool does not exist
	FindNotConsented                         // the field is not handed over in gpuscaler.io/nudge
	FindUnsupported                          // the CRD does not have the field, or Karpenter does not do it
	FindUnreadable                           // the field holds what we cannot compare: left alone
	FindContested                            // overwritten three times: backed off
	FindMixed                                // one pool for several capacity types: observed only
	FindWeights                              // spot does not come before on-demand by weight: nothing ever returns
	FindNever                                // consolidateAfter: Never keeps empty nodes
	FindZeroBudget                           // a budget of 0 keeps empty nodes
	FindDoNotDisrupt                         // pods with do-not-disrupt keep an empty node
	FindBlockingPods                         // pods without the resource keep a node
	FindBuffered                             // a CapacityBuffer keeps nodes
	FindUnmovable                            // pods on demand that no surge can move; Why says what to do about it
	FindForeignAnnotation                    // a pod carries somebody else's annotation: left alone
	FindPermanentLimit                       // a limit of ours stands: the nudge that stops pods should nobody lift it
	FindRecord                               // the annotation cannot be read: what is ours by field manager goes back to absent
	FindConsentWithdrawn                     // the field is overridden, and gpuscaler.io/nudge no longer lists it: it cannot be restored; Name is the original
	FindClaims                               // pods claim devices by dynamic resource allocation: demand is unknown. Name is the first of Count
	numFindings
)

// MoveBlocker says why a pod on demand does not move to spot.
type MoveBlocker uint8

const (
	BlockedByOwner        MoveBlocker = iota // a StatefulSet, a LeaderWorkerSet: no successor comes before the pod goes
	BlockedByNoOwner                         // a Job, a pod of its own
	BlockedByLabels                          // nobody can tell whether it may land on spot
	BlockedByDoNotDisrupt                    // do-not-disrupt: neither we nor Karpenter
	BlockedByUnmanagedPod                    // of no policy, on a node that would be free otherwise
	numMoveBlockers
)

// Finding is one of them, with what it costs.
type Finding struct {
	Kind     FindingKind
	Pool     int8 // -1: none
	Field    Field
	Resource string      // of FieldLimit
	Name     string      // a workload or a pod
	Rule     Rule        // the rule that wanted it
	Count    int         // nodes or pods
	Blocker  MoveBlocker // of FindUnmovable
	Hourly   float64
	Until    time.Time
}
