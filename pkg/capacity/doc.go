// Package capacity decides how the NodePools of a capacity group are overridden: how many nodes each may have, which one Karpenter uses
// first, when it may consolidate, and which pods a scale-in deletes first. It is pure: Decide maps a group, an observation, a state and a
// time to actions, advice, reasons and the next state. It launches and removes no node; Karpenter does.
//
// # The rules, in order
//
//	adoptRecords         reads the records that a previous leader left on the NodePools
//	settleOverrides      compares each override with the cluster; an edit of another manager is kept
//	countDemand          uncapped targets, and every other pod that requests the resource, running or pending
//	schedule             limits, weight and disruption settings of open windows
//	updatePhase          the phase between spot and on-demand
//	base                 the first GPUs of the group run on on-demand nodes
//	fallback             on-demand is used first; a hard fallback limits spot
//	probe                spot may have one more node, to test whether it has capacity
//	returnToSpot         replicas move back in batches; ready replicas never drop below demand
//	capOnDemand          on-demand does not grow while pods wait for spot
//	limitToZero          limit 0 while no demand exists
//	freezeConsolidation  no consolidation while known demand arrives
//	addAtRisk            successors for replicas on nodes that are about to be lost, and for expected losses
//	surgeBeforeEviction  a successor for the only replica of a workload, before Karpenter evicts it
//	capTargets           limits targets to the replicas that have nodes, and one more
//	buffer               nodes for known demand, where the cluster serves CapacityBuffers
//	check                reports what keeps empty nodes, with their price
//	annotatePods         protects loading pods, and orders the pods of a scale-in
//	write                creates the patches
//
// A rule requests values for fields of NodePools. If several rules request a value for a field, the last one is used. Only write creates
// patches.
//
// # Packages
//
// A package of this list imports only packages below it. No package below capacity imports capacity.
//
//	capacity      the group, the observation, the decision, and the rules, which read an analysis of the observation
//	weights       the weights with which Karpenter uses on-demand before spot
//	evidence      refused launches and lost nodes: how many, and the losses that are expected
//	override      the overrides of NodePools: their state, their records, the patches
//	statemachine  one state machine for each concern: its state, events and transitions, without an observation
//	explain       reasons and findings, and their texts
//	nodepool      the fields of a NodePool that may be overridden: paths, values, consent
//
// A rule of this package computes the input of a state machine, applies its event, and requests values for fields of NodePools.
//
// # Where the rules are
//
//	adoptRecords, settleOverrides, write     package override, for each NodePool; the loops are in decide.go
//	countDemand                              demand.go
//	schedule, base, capOnDemand              limits.go
//	limitToZero                              limits.go
//	updatePhase, fallback, probe             spot.go
//	returnToSpot                             returntospot.go, with one batch in batch.go
//	freezeConsolidation, buffer              knowndemand.go
//	addAtRisk, capTargets                    advice.go
//	surgeBeforeEviction                      surge.go
//	check                                    check.go
//	annotatePods                             annotations.go
//
// The rules read analysis.go, demand.go and room.go. room.go computes how much each NodePool may still grow, and why one provides no node.
//
// If the nodes of a group are found by their labels, Cluster Autoscaler, GKE or AKS adds them, or they are a static fleet. gpuscaler writes
// no object of such a provisioner: it caps targets, and reports what a user can do. The names of the functions for these groups contain
// the word fleet.
//
// # Overrides
//
//   - A field is overridden only if the NodePool's owner lists it in gpuscaler.io/nudge, the CRD has it, and its value can be saved.
//   - The owner's value, its field manager and the state are stored in an annotation on the NodePool, which is called the record. It is
//     written in the same apply, so a crash loses nothing.
//   - An edit of another manager is kept and becomes the owner's value. The field is not overridden for ten minutes, and after the third
//     edit for six hours. If an edit of the budgets keeps the entries of a freeze, the freeze continues.
//   - A write of the same value is not an edit: Argo CD with RespectIgnoreDifferences applies the value that the field has in the cluster.
//   - A change of an override that does not allow more nodes is written at most every two minutes. Every other change is written at once.
//   - When no rule requests a field any more, its owner's value is restored.
//
// # Several NodePools of one capacity type
//
// A group may have several NodePools of a capacity type, such as one for each zone or instance family. They form a side, see the type side:
//
//   - Demand, units, room and replicas at risk are sums over the NodePools. Overrides, records, refused launches, losses and freezes belong
//     to one NodePool each, and each NodePool is restored from its own record.
//   - Spot fails only if each spot NodePool has failed or cannot launch a node. A NodePool that refuses launches does not affect the use of
//     the others.
//   - In a fallback, every on-demand NodePool is above every spot NodePool by weight. The order within a side does not change.
//   - NodePools of only reserved capacity belong to neither side. If Karpenter uses them before on-demand, this stays so in a
//     fallback. If the successor of a replica starts on one of them during a return, the replica counts as moved, as with a
//     start on spot.
//   - A probe lets each spot NodePool launch one node, and succeeds as soon as one of them keeps a new node.
//   - On-demand is limited only if the limits of all on-demand NodePools may be overridden.
//   - A NodePool that does not exist, is not ready, or whose owner does not allow overrides provides no room, and a finding names it.
//
// # Contract of the caller
//
//   - A patch carries the resourceVersion of the observation that it is based on, so that it cannot overwrite a newer edit.
//   - The overrides of a patch are one server-side apply with force, with the record in the same request. A restored field is first written
//     for its recorded owner, and is not part of the apply.
//   - On a NodePool with spec.replicas, weight and limits are Unsupported: the API server would reject the complete patch.
//   - A record is removed only by a patch without a record: it stays until the restored value was observed.
//   - Values are the output of encoding/json for what the API server returned: compact, with sorted keys.
//   - The failures and losses of an Observation cover an hour and contain each NodeClaim once. Terminating pods are not listed.
//   - Actions that allow more nodes (Loosens) are applied before the targets of the tick are served.
//   - If a NodePool has a record but belongs to no group, the caller restores it with the group that Orphan returns.
//   - At SIGTERM the caller applies Shutdown. When a group's policy is removed, it calls Release until that returns no action.
//
// # After a crash
//
// A consolidation freeze ends by itself, because its budget entries contain their end. If a weight is not restored, nodes can cost more,
// but pods still get nodes. If a limit is not restored, pods can remain without nodes. Therefore limits are removed at shutdown and while
// demand is unknown, and a leader that starts without a record removes the limits that its field manager owns. After kill -9 without a new
// leader, the limit is not removed. For this reason, limits are opt-in and always reported. If a CapacityBuffer is not removed, it keeps
// nodes. It is removed when it is no longer needed, at shutdown, and together with the workload that owns it.
//
// # Conflicts and their resolution
//
//   - A limit of the owner on the spot NodePool (of the resource, cpu, memory, nodes) and the return, the probe or the spot wait timeout:
//     the limit is no failure of spot. No surge or probe starts, and no pod waits, for a node that the limit does not allow; replicas on
//     on-demand nodes stay there, their consolidation continues, and explain names the limit.
//   - A NodePool of reserved and on-demand capacity (In [reserved, on-demand], as documented for capacity reservations) is the on-demand
//     side, even if the group lists it as reserved together with NodePools of only reserved capacity. Its reserved nodes are part of the
//     base, and no replica moves away from them: the reservation is paid for in any case. If the successor of a replica starts on such a
//     node during a return, the replica counts as moved.
//   - A capacity reservation without a limit of its NodePool: Karpenter does not report that it is full. While pods wait and the NodePool
//     launches no node, it counts as full, and targets are capped if no other NodePool of the group is open.
//   - A scheduled limit and a limit cap: the smaller one applies. A scheduled limit below what runs is written as configured; Karpenter
//     removes no node because of it.
//   - A zero limit and a Job without a policy: the Job takes precedence. A zero limit requires that no pod runs or is pending and that
//     demand is known.
//   - The spot wait timeout and the evidence of refusals: while pods wait below a limit cap, refusals do not shorten the timeout.
//   - A consolidation freeze and a probe: while known demand arrives, no probe and no move starts.
//   - Weights and a consolidation freeze: in a fallback, the weights keep Karpenter from replacing on-demand nodes by spot nodes, and in a
//     probe and a return the freeze does. The freeze begins before the weights are restored and ends a minute after it was last needed,
//     because within a second without protection, Karpenter could choose every on-demand node for consolidation.
//   - An on-demand base and Karpenter's consolidation: on-demand is first by weight and its limit ends at the base, so a simulation of
//     Karpenter leaves the pods of the base where they are and puts all others on spot.
//   - A surge and growing demand: all replicas are needed, so no pod is deleted and the move ends.
//   - A target cap and pending pods: one replica beyond those with a node stays pending. Karpenter retries for it, and its failures are the
//     evidence for a fallback.
package capacity
