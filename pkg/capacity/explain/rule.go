package explain

import "strconv"

// Rule identifies the rule of Decide that caused a Reason, a Finding or an override.
type Rule uint8

// Values of Rule. The comment of each value explains the fields A, B, Name and Until of its Reason.
const (
	RuleNone        Rule = iota
	RuleDemand           // A: units of policies; B: units of unmanaged pods
	RuleForeignEdit      // an edit of another manager is kept. Name: the field; A: number of edits; Until: earliest next override
	RuleSchedule         // a window of the group is open. Name: the window; Until: its end
	RuleBase             // the first units of the group run on on-demand nodes. A: the base; B: units that run on on-demand nodes
	// RuleFallback: on-demand is used before spot. A: refused launches or lost nodes; B: all launches or nodes; Until: the next probe. If a
	// hard fallback cannot limit spot, a second Reason contains the cause in the field Cause, and its Until is zero.
	RuleFallback
	RuleProbe // spot may have one more node. A: the limit; Until: end of the probe, or zero if spot is not limited
	// replicas move back to spot. A: units still on on-demand nodes; B: nodes per hour; Until: when the next node may be emptied
	RuleReturn
	RuleMove            // one batch moves. Name: the workload; A: ready replicas; B: replicas that the workload needs
	RuleSpotWaitTimeout // on-demand is not allowed to grow. A: its limit; Until: end of the timeout, zero while no pod waits
	RuleZeroLimit       // the limit is 0 because no demand exists
	RuleNoZeroLimit     // A: the LiftReason; Until: when the limit becomes 0
	// RuleConsolidationFreeze: consolidation of one NodePool is frozen. A: the time in Unix seconds until which empty nodes are also kept, 0
	// if they are not kept; B: 1 if only a probe or a return to spot needs the freeze, 2 if no rule needs it any more, otherwise 0; Until: the
	// end of the freeze, which also applies if gpuscaler crashes.
	RuleConsolidationFreeze
	RuleShield  // loading pods are protected from disruption. A: number of pods
	RulePacking // some pods are deleted first in a scale-in. A: number of pods
	// replicas are added for replicas at risk. A: replicas on nodes with an interruption notice; B: expected further losses
	RuleAtRisk
	// no NodePool provides a node. Pool and Cause: the first NodePool and its cause; A: replicas without a node; Until: next try
	RuleConstrained
	RuleBuffer  // a CapacityBuffer keeps nodes. A: number of replicas; Until: when they are needed
	RuleRelease // every overridden field is restored
	// RuleSurge adds a successor before Karpenter evicts a replica. Name: the workload; Node: the node of the replica; Cause: why Karpenter
	// disrupts the node; A: 0 while the successor starts, 1 if the successor is ready and the replica is deleted, 2 if the successor was not
	// ready in time and is removed; Until: the end of the time limit, or, if A is 2, the time of the next attempt.
	RuleSurge
	NumRules
)

var ruleNames = [NumRules]string{
	RuleNone: "none", RuleDemand: "demand", RuleForeignEdit: "foreign edit", RuleSchedule: "schedule", RuleBase: "on-demand base",
	RuleFallback: "spot fallback", RuleProbe: "spot probe", RuleReturn: "return to spot", RuleMove: "move",
	RuleSpotWaitTimeout: "spot wait timeout", RuleZeroLimit: "zero limit", RuleNoZeroLimit: "no zero limit",
	RuleConsolidationFreeze: "consolidation freeze", RuleShield: "startup shield", RulePacking: "scale-in packing",
	RuleAtRisk: "nodes at risk", RuleConstrained: "CapacityConstrained", RuleBuffer: "buffer", RuleRelease: "restore",
	RuleSurge: "surge before eviction",
}

// String returns the name of the rule for messages and metric labels.
func (r Rule) String() string {
	if r < NumRules {
		return ruleNames[r]
	}
	return "rule " + strconv.Itoa(int(r))
}
