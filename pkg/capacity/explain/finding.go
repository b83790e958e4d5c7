package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// FindingKind is a problem that only a user can solve.
type FindingKind uint8

// The kinds of findings.
const (
	FindMissing           FindingKind = iota // the NodePool does not exist
	FindNotConsented                         // gpuscaler.io/nudge does not list the field
	FindUnsupported                          // the CRD does not have the field, or this Karpenter does not support the feature
	FindUnreadable                           // the value of the field is invalid or too long to be saved, so the field is not overridden
	FindContested                            // another manager edited the field three times, so the field is not overridden for six hours
	FindMixed                                // a NodePool of several capacity types is only observed
	FindWeights                              // the weights do not put spot before on-demand, so replicas never return to spot
	FindNever                                // consolidateAfter: Never keeps empty nodes
	FindZeroBudget                           // a disruption budget of 0 prevents the removal of empty nodes
	FindDoNotDisrupt                         // pods with karpenter.sh/do-not-disrupt prevent the removal of an empty node
	FindBlockingPods                         // pods without the group's resource prevent the removal of a node that is otherwise empty
	FindBuffered                             // a CapacityBuffer keeps nodes
	FindUnmovable                            // pods on on-demand nodes that cannot be moved to spot; Blocker is the reason
	FindForeignAnnotation                    // a pod has a deletion cost of another manager, which gpuscaler does not change
	// a limit is overridden, and would not be restored if gpuscaler were killed and never started again
	FindPermanentLimit
	FindRecord // the record annotation cannot be read; the fields that gpuscaler owns are removed from the NodePool
	// the owner withdrew the consent: gpuscaler.io/nudge no longer lists an overridden field, so gpuscaler may not restore the field; Name
	// is the value to restore
	FindConsentWithdrawn
	// the devices of some claims cannot be counted, so demand is unknown; Name is the first of Count workloads or pods
	FindClaims
	// pods without a node claim devices, for which Karpenter by default launches no node; Name is the first of Count workloads or pods
	FindPendingClaims
	// gpuscaler expects no new node from one of several NodePools of a capacity type; Problem is the reason
	FindNoRoom
	// a newer version of gpuscaler wrote the record annotation; Name is the field that this version cannot restore, and Count the version of
	// the record
	FindNewerRecord
	// findings about the nodes that a NodeSelector selects; Count is a number of nodes
	FindNoNodes   // no node has the labels
	FindElsewhere // nodes with the labels belong to a NodePool or to another group
	FindNoUnits   // nodes with the labels have none of the group's resource
	FindNotReady  // nodes with the resource are not ready or are cordoned
	FindKeepNodes // known demand needs nodes until Until, and gpuscaler cannot keep them
	// pods have no node and wait for something other than a node; Name is the first of these pods, and Count their number
	FindHeld
	// the annotation with the size of a gang cannot be used; Name is the first affected pod, and Count the number of affected pods
	FindGangSize
	// findings about a static NodePool; Count is the spec.replicas that the NodePool needs
	FindStaticShort // pods wait, and no other NodePool may launch a node for them
	FindStaticIdle  // nodes have no pods of the group
	NumFindings
)

// MoveBlocker is the reason why a pod on an on-demand node cannot be moved to spot.
type MoveBlocker uint8

// The reasons why a pod cannot be moved.
const (
	BlockedByOwner        MoveBlocker = iota // a StatefulSet or LeaderWorkerSet creates no successor before the pod is deleted
	BlockedByNoOwner                         // the pod belongs to a Job or has no controller, so no successor is created for it
	BlockedByLabels                          // it is unknown whether the pod can be scheduled to spot
	BlockedByDoNotDisrupt                    // the pod has karpenter.sh/do-not-disrupt of another manager
	BlockedByUnmanagedPod                    // a pod without a policy runs on the node, which would otherwise become empty
	BlockedByClaims                          // by default Karpenter launches no node for a pod that claims devices
	NumMoveBlockers
)

// Finding is one problem of a group that a user can solve, with the price per hour of its effect if the price is known.
type Finding struct {
	Kind     FindingKind
	Pool     int8 // index in Group.Pools; -1: none
	Field    nodepool.Field
	Resource string      // resource of a FieldLimit
	Name     string      // name of a workload or a pod
	Rule     Rule        // the rule that needs the field
	Count    int         // number of nodes or pods
	Blocker  MoveBlocker // reason of a FindUnmovable
	Problem  PoolProblem // reason of a FindNoRoom
	Hourly   float64
	Until    time.Time
}

// Text returns the message for users: the problem, its price if known, and what to do about it.
func (f Finding) Text(names Names) string {
	pool := "NodePool " + names.pool(f.Pool)
	if f.Pool < 0 {
		pool = "group " + names.Group
	}
	if f.Kind >= FindNoNodes && f.Kind <= FindKeepNodes || names.Selector != "" && f.Kind == FindMissing {
		return f.fleetText(names)
	}
	switch f.Kind {
	case FindMissing:
		return fmt.Sprintf("%s of group %s does not exist: create it, or remove it from nodePools of group %s", pool, names.Group, names.Group)
	case FindMixed:
		return fmt.Sprintf("%s allows several capacity types: gpuscaler does not change it (%d on-demand %s%s); use a NodePool for each type",
			pool, f.Count, plural(float64(f.Count), "node"), f.price())
	case FindWeights:
		return fmt.Sprintf("%s has precedence over spot NodePool %s by weight: no replica returns to spot; give the spot NodePool more weight",
			pool, cmp.Or(f.Name, enumerate(names.Spot), names.Group))
	case FindNoRoom:
		return fmt.Sprintf("%s %s: gpuscaler counts no room in it and uses the other NodePools of group %s; %s", pool, f.Problem.text(),
			names.Group,
			f.Problem.remedy())
	case FindUnmovable:
		return pool + ": " + f.unmovable()
	case FindForeignAnnotation:
		return fmt.Sprintf("pod %s: another field manager set controller.kubernetes.io/pod-deletion-cost: gpuscaler does not move the pod "+
			"to spot; remove the annotation to have it moved", f.Name)
	case FindClaims, FindPendingClaims:
		return f.claims(names)
	case FindHeld, FindGangSize:
		return f.gang(names)
	case FindStaticShort:
		return fmt.Sprintf("%s has a fixed number of nodes, and pods wait for %s: to add the nodes that they need, run "+
			"kubectl scale nodepool %s --replicas=%d", pool, names.Resource, names.pool(f.Pool), f.Count)
	case FindStaticIdle:
		return fmt.Sprintf("%s has a fixed number of nodes, and some of them have no pods that request %s%s: to remove these nodes, run "+
			"kubectl scale nodepool %s --replicas=%d", pool, names.Resource, f.price(), names.pool(f.Pool), f.Count)
	case FindNewerRecord:
		return pool + ": " + f.newer()
	case FindRecord:
		return pool + ": the annotation gpuscaler.io/record with the owner's values cannot be read: gpuscaler removes the fields that it set, " +
			"and Karpenter's defaults apply; set your values again"
	case FindNever, FindZeroBudget, FindDoNotDisrupt, FindBlockingPods, FindBuffered:
		return fmt.Sprintf("%s: %s", pool, f.keeper(names))
	}
	return pool + ": " + f.fieldText()
}

// fieldText returns the message of a finding about one field of a NodePool, without the name of the NodePool.
func (f Finding) fieldText() string {
	field := f.Field.Name(f.Resource)
	switch f.Kind {
	case FindNotConsented:
		return fmt.Sprintf("the annotation gpuscaler.io/nudge does not list %s: the rule %s cannot set %s; add %s to the annotation to allow it",
			f.Field.Consent(), f.Rule, field, f.Field.Consent())
	case FindUnsupported:
		switch f.Rule {
		case RuleBuffer:
			return "the cluster serves no CapacityBuffers, or the chart's karpenter.capacityBuffers is false: gpuscaler writes none, " +
				"so nodes start only when pods are pending"
		case RuleShield:
			return "this version of Karpenter does not accept a duration in karpenter.sh/do-not-disrupt: loading pods are not protected; " +
				"upgrade Karpenter, or set startupShield to false"
		}
		return fmt.Sprintf("%s is not supported here: the rule %s has no effect; upgrade Karpenter, or remove spec.replicas from the NodePool",
			field, f.Rule)
	case FindUnreadable:
		return fmt.Sprintf("the value of %s is invalid or too long to be saved: the rule %s does not change it; correct or shorten it",
			field, f.Rule)
	case FindContested:
		return fmt.Sprintf("another field manager changed %s %d times: gpuscaler does not change it before %s; "+
			"metadata.managedFields names the manager", field, f.Count, clock(f.Until))
	case FindPermanentLimit:
		return fmt.Sprintf("the rule %s has lowered %s: if gpuscaler is killed and does not start again, pods stay pending; "+
			"run gpuscaler restore then", f.Rule, field)
	}
	return fmt.Sprintf("the annotation gpuscaler.io/nudge no longer lists %s: gpuscaler cannot restore %s, which the rule %s set; "+
		"the owner's value is %s; list %s and restore in the annotation, or set the value yourself",
		f.Field.Consent(), field, f.Rule, f.Name, f.Field.Consent())
}

// newer returns the message of a FindNewerRecord, without the name of the NodePool.
func (f Finding) newer() string {
	text := "a newer version of gpuscaler wrote the annotation gpuscaler.io/record: this version overrides no field of the NodePool and " +
		"restores the owner's values that it can read"
	if f.Name == "" {
		return text + "; then it removes the annotation"
	}
	return text + "; it cannot restore " + strings.TrimPrefix(f.Name, "/spec/") + ": install the newer version again, or set the owner's " +
		"values from the annotation and remove the annotations gpuscaler.io/record and gpuscaler.io/holder"
}

// unmovable returns why pods do not move to spot and what a user can do, without the name of the NodePool.
func (f Finding) unmovable() string {
	n := float64(f.Count)
	pods := fmt.Sprintf("%d %s of %s %s on demand", f.Count, plural(n, "pod"), f.Name, plural(n, "stays", "stay"))
	switch f.Blocker {
	case BlockedByNoOwner:
		return fmt.Sprintf("no Deployment controls %s: %s until %s; use a Deployment to have %s moved to spot",
			f.Name, pods, plural(n, "it ends", "they end"), plural(n, "it", "them"))
	case BlockedByLabels:
		return fmt.Sprintf("gpuscaler does not know whether spot nodes have the labels that %s requests: %s; "+
			"add the labels to the template or requirements of the spot NodePool", f.Name, pods)
	case BlockedByDoNotDisrupt:
		return fmt.Sprintf("%s has the annotation karpenter.sh/do-not-disrupt: %s; remove it, or restart the %s when spot has capacity",
			f.Name, pods, plural(n, "pod"))
	case BlockedByUnmanagedPod:
		return fmt.Sprintf("%d %s no policy: gpuscaler does not move %s to spot; write a policy for %s, or use a separate NodePool",
			f.Count, plural(n, "pod has", "pods have"), plural(n, "it", "them"), plural(n, "it", "them"))
	case BlockedByClaims:
		return fmt.Sprintf("%s has resourceClaims, and by default Karpenter launches no node for the successor of such a pod: %s",
			f.Name, pods)
	}
	return fmt.Sprintf("a StatefulSet or LeaderWorkerSet starts no new pod before it deletes one: %s; restart %s when spot has capacity",
		pods, plural(n, "it", "them"))
}

// first returns the name of the first affected workload or pod, and how many more of the Count there are.
func (f Finding) first() string {
	if f.Count > 1 {
		return fmt.Sprintf("%s and %d more", f.Name, f.Count-1)
	}
	return f.Name
}

// gang returns the message of a finding about pods of gangs, and what a user can do.
func (f Finding) gang(names Names) string {
	who, n := f.first(), float64(f.Count)
	if f.Kind == FindGangSize {
		return fmt.Sprintf("%s: the annotation kueue.x-k8s.io/pod-group-total-count is not a number from 1 to 65536: gpuscaler counts the pods "+
			"of the gang that exist; correct the annotation", who)
	}
	return fmt.Sprintf("%s %s no node and %s for something other than a node, such as admission by Kueue or other pods of the gang: no node "+
		"is launched, and group %s does not count the time as waiting for nodes; see the condition PodScheduled of the pod",
		who, plural(n, "has", "have"), plural(n, "waits", "wait"), names.Group)
}

// claims returns why pods with ResourceClaims make the demand of a group unknown, and what a user can do.
func (f Finding) claims(names Names) string {
	who, n := f.first(), float64(f.Count)
	if f.Kind == FindPendingClaims {
		return fmt.Sprintf("%s %s pods with resourceClaims and without a node: gpuscaler lowers no limit of group %s; by default Karpenter "+
			"launches no node for such pods: set its --ignore-dra-requests to false, or add a node with free devices",
			who, plural(n, "has", "have"), names.Group)
	}
	text := fmt.Sprintf("%s %s resourceClaims, whose devices gpuscaler cannot count as %s: the demand of group %s is unknown, and gpuscaler "+
		"lowers no limit", who, plural(n, "uses", "use"), names.Resource, names.Group)
	if names.Devices {
		return text
	}
	return text + "; they count if extendedResourceName of their DeviceClass is " + names.Resource
}

// text returns the problem without a subject, such as "is not ready". The caller adds the name of the NodePool.
func (p PoolProblem) text() string {
	return [...]string{"may be used", "is not ready", "does not allow gpuscaler to change it",
		"has a limit that another field manager changed", "has spec.replicas"}[min(p, PoolStatic)]
}

// remedy returns what a user can do about the problem.
func (p PoolProblem) remedy() string {
	return [...]string{"no change is necessary", "see the conditions of the NodePool",
		"set its annotation gpuscaler.io/nudge to limits,weight,disruption",
		"metadata.managedFields names the manager", "remove spec.replicas, or the NodePool from the group"}[min(p, PoolStatic)]
}

// keeper returns a message with the cause that keeps empty nodes, their price and what a user can do, without the name of the NodePool.
func (f Finding) keeper(names Names) string {
	n := float64(f.Count)
	nodes := fmt.Sprintf("Karpenter keeps %d %s without %s pods%s", f.Count, plural(n, "node"), names.Resource, f.price())
	switch f.Kind {
	case FindNever:
		return "consolidateAfter is Never: " + nodes + "; set a duration to have them removed"
	case FindZeroBudget:
		return "a disruption budget is 0 at all times: " + nodes + "; raise it or give it a schedule"
	case FindDoNotDisrupt:
		return "pods have the annotation karpenter.sh/do-not-disrupt: " + nodes + "; remove the annotation or move the pods"
	case FindBlockingPods:
		return fmt.Sprintf("pods that do not request %s run there: %s; add a taint to the NodePool, or move the pods", names.Resource, nodes)
	}
	return "a CapacityBuffer reserves nodes: " + nodes + "; delete the CapacityBuffer if they are not needed"
}

func (f Finding) price() string {
	if !(f.Hourly > 0) { // also true if the price is NaN
		return ""
	}
	return fmt.Sprintf(", $%.2f/h", f.Hourly)
}

// PoolProblem is the reason why gpuscaler expects no new node from a NodePool. It is used in groups with several NodePools of a capacity
// type.
type PoolProblem uint8

// The values of PoolProblem.
const (
	PoolReliable     PoolProblem = iota
	PoolNotReady                 // its condition Ready is False
	PoolNotConsented             // gpuscaler.io/nudge lists no field, or contains the word restore
	PoolContested                // another field manager edited the limit of the group's resource
	PoolStatic                   // it has spec.replicas
)
