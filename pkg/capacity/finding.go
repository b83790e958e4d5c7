package capacity

import "time"

// FindingKind is a problem that only a user can solve.
type FindingKind uint8

// The kinds of findings.
const (
	FindMissing           FindingKind = iota // the NodePool does not exist
	FindNotConsented                         // gpuscaler.io/nudge does not list the field
	FindUnsupported                          // the CRD does not have the field, or this Karpenter does not support the feature
	FindUnreadable                           // the value of the field cannot be compared: it is not overridden
	FindContested                            // the field was overwritten three times: it is not overridden for a while
	FindMixed                                // a NodePool of several capacity types is only observed
	FindWeights                              // spot does not come before on-demand by weight: nothing ever returns
	FindNever                                // consolidateAfter: Never keeps empty nodes
	FindZeroBudget                           // a disruption budget of 0 keeps empty nodes
	FindDoNotDisrupt                         // pods with karpenter.sh/do-not-disrupt keep an empty node
	FindBlockingPods                         // pods without the resource keep a node
	FindBuffered                             // a CapacityBuffer keeps nodes
	FindUnmovable                            // pods on demand that no surge can move; Blocker is the reason
	FindForeignAnnotation                    // a pod has a deletion cost of another manager: it is not changed
	FindPermanentLimit                       // a limit is overridden: it would stay if gpuscaler is killed and does not start again
	FindRecord                               // the record cannot be read: fields that gpuscaler owns are removed
	FindConsentWithdrawn                     // an overridden field is not listed any more: it cannot be restored; Name is the owner's value
	FindClaims                               // claims whose devices cannot be counted: demand is unknown. Name: the first of Count
	FindPendingClaims                        // claims of pods without a node, for which Karpenter launches none by default; as FindClaims
	numFindings
)

// MoveBlocker is the reason why a pod on an on-demand node cannot be moved to spot.
type MoveBlocker uint8

// The reasons why a pod cannot be moved.
const (
	BlockedByOwner        MoveBlocker = iota // a StatefulSet or LeaderWorkerSet creates no successor before the pod is deleted
	BlockedByNoOwner                         // a Job, or a pod without a controller
	BlockedByLabels                          // it is unknown whether it can be scheduled to spot
	BlockedByDoNotDisrupt                    // karpenter.sh/do-not-disrupt of another manager
	BlockedByUnmanagedPod                    // a pod without a policy on a node that would be free otherwise
	BlockedByClaims                          // by default Karpenter launches no node for a pod that claims devices
	numMoveBlockers
)

// Finding is one problem of a group that a user can solve, with its price per hour if the price is known.
type Finding struct {
	Kind     FindingKind
	Pool     int8 // index in Group.Pools; -1: none
	Field    Field
	Resource string      // of FieldLimit
	Name     string      // a workload or a pod
	Rule     Rule        // the rule that needs the field
	Count    int         // nodes or pods
	Blocker  MoveBlocker // of FindUnmovable
	Hourly   float64
	Until    time.Time
}
