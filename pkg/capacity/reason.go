package capacity

import "time"

// Rule names one step of Decide.
type Rule uint8

// The comment of each rule gives the meaning of the fields of its Reason.
const (
	RuleNone        Rule = iota
	RuleDemand           // A: units of policies; B: units of unmanaged pods
	RuleForeignEdit      // an edit of another manager stays. Name: the field; A: number of edits; Until: not overridden before
	RuleSchedule         // a window of the group is open. Name: the window; Until: its end
	RuleBase             // the first units run on demand. A: base; B: units that run on demand
	// RuleFallback uses on-demand before spot. A: refused launches or losses; B: launches or nodes; Until: next probe, zero where a hard
	// fallback does not limit spot.
	RuleFallback
	RuleProbe           // spot may have one more node. A: the limit; Until: end of the probe, zero where spot is not limited
	RuleReturn          // replicas move back to spot. A: units left on demand; B: nodes per hour; Until: next node
	RuleMove            // one batch moves. Name: the workload; A: its ready replicas; B: those it needs
	RuleSpotWaitTimeout // on-demand may not grow. A: its limit; Until: end of the timeout, zero while no pod waits
	RuleZeroLimit       // the limit is 0 because no demand exists
	RuleNoZeroLimit     // A: the LiftReason; Until: when the limit becomes 0
	// RuleConsolidationFreeze is the freeze of one NodePool. A: until when empty nodes are kept too, in Unix seconds, 0: they are removed;
	// B: 1 if the freeze is for a return to spot only; Until: its end, also after a crash.
	RuleConsolidationFreeze
	RuleShield      // A: pods that load
	RulePacking     // A: pods that a scale-in deletes first
	RuleAtRisk      // A: replicas on nodes with a notice; B: expected further losses
	RuleConstrained // no NodePool provides a node. A: replicas without a node; Until: next try
	RuleBuffer      // A: replicas whose nodes are kept; Until: when they are needed
	RuleRelease     // every field is restored
	numRules
)

// LiftReason is why the limit of a group is not 0.
type LiftReason uint8

const (
	LiftedByDemand        LiftReason = iota // a policy requests units
	LiftedByPendingPod                      // a pod is pending that may need these NodePools
	LiftedByUnknownDemand                   // demand is unknown
	LiftedByKnownDemand                     // known demand starts soon
	LiftedByPods                            // pods still run
	NotLifted                               // no demand, but not for long enough
)

// Cause is why spot was left, or why a NodePool provides no node.
type Cause uint8

const (
	CauseNone            Cause = iota
	CauseRefused               // launches failed for lack of capacity
	CauseLost                  // the provider took nodes
	CauseSpotWaitTimeout       // pods waited longer than the spot wait timeout
	CauseLimit                 // the NodePool is at its limit
	CauseNotReady              // the NodePool is not ready or does not exist
	CauseQuota                 // a ResourceQuota refuses the pods
	CauseProbe                 // a probe failed
)

// Reason is the effect of one rule. Its Text is rendered on demand.
type Reason struct {
	Rule  Rule
	Pool  int8   // index in Group.Pools; -1: the group
	Name  string // a workload, a window, or a field
	Cause Cause
	A, B  float64   // see the rule
	Until time.Time // zero: no end is known
}
