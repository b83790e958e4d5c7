// Package capacity decides how the NodePools of a capacity group are overridden: how many nodes each may have, which one Karpenter uses
// first, when it may consolidate, and which pods a scale-in deletes first. It is pure: Decide maps a group, an observation, a state and a
// time to actions, advice, reasons and the next state. It launches and removes no node; Karpenter does.
//
// # Terms
//
//   - unit: one of the group's resource, for example one GPU.
//   - base: the units that run on on-demand nodes before any spot is used (Group.OnDemandBase).
//   - side: all NodePools of a capacity type, spot or on-demand, of one group.
//   - room: the units by which a NodePool can still grow within its limits.
//   - known demand: demand that a schedule or a forecast announces before it exists.
//   - unmanaged pod: a pod that requests the group's resource and has no policy.
//   - record: the annotation of a NodePool in which gpuscaler stores its overrides, the owner's values and the phase of the group.
//   - replica at risk: a ready replica on a node that the provider is about to take.
//   - reserve: additional replicas for losses of nodes that are expected but not announced.
//   - move: the replacement of replicas on on-demand nodes by new replicas on spot. A batch is the replicas that move at the same time.
//   - surge: the temporary increase of a target for a move, or before Karpenter evicts a replica.
//   - successor and victim: the pod that a move or a surge creates, and the pod that it replaces and then deletes.
//   - probe: the launch of one spot node during a fallback, to test whether spot has capacity.
//
// # The rules, in order
//
//	adoptRecords         reads the records that a previous leader wrote on the NodePools
//	settleOverrides      compares each override with the cluster; an edit of another field manager is kept
//	countDemand          adds up uncapped targets, and every other pod that requests the resource, running or pending
//	schedule             limits, weight and disruption settings of open windows
//	updatePhase          decides whether spot or on-demand is used first, and whether replicas return to spot (the phase)
//	base                 the first GPUs of the group run on on-demand nodes
//	fallback             on-demand is used first; a hard fallback limits spot
//	probe                spot may have one more node, to test whether it has capacity
//	returnToSpot         replicas move back in batches; ready replicas never drop below demand
//	capOnDemand          on-demand does not grow while pods wait for spot
//	limitToZero          limit 0 while no demand exists
//	freezeConsolidation  no consolidation while known demand arrives
//	addAtRisk            successors for replicas on nodes that are about to be lost, and for expected losses
//	surgeBeforeEviction  a successor for the only replica of a workload, before Karpenter evicts it
//	capTargets           limits targets to the replicas that have nodes, plus one
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
// A package of this list imports only packages that are listed after it. No other package of the list imports capacity.
//
//	capacity      the group, the observation, the decision, and the rules, which read an analysis of the observation
//	weights       the weights with which Karpenter uses on-demand before spot
//	evidence      the numbers of refused launches and lost nodes, and the losses that are expected
//	override      the overrides of NodePools: their state, their records, the patches
//	statemachine  one state machine for each concern: its state, events and transitions, with plain values as input
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
//   - The owner's value, its field manager and the state are stored in the record annotation of the NodePool. The record is written in the
//     same apply as the override, so a crash loses nothing.
//   - An edit of another field manager is kept and becomes the owner's value. The field is not overridden for ten minutes, and after the
//     third edit for six hours. If an edit of the budgets keeps the entries of a freeze, the freeze continues.
//   - A write of the same value is not an edit: Argo CD with RespectIgnoreDifferences applies the value that the field has in the cluster.
//   - A change of an override that does not allow more nodes is written at most every two minutes. Every other change is written at once.
//   - When no rule requests a field any more, its owner's value is restored.
//
// # Several NodePools of one capacity type
//
// A group may have several NodePools of a capacity type (a side), such as one for each zone or instance family:
//
//   - Demand, units, room and replicas at risk are sums over the NodePools. Overrides, records, refused launches, losses and freezes belong
//     to one NodePool each, and each NodePool is restored from its own record.
//   - Spot fails only if each spot NodePool has failed or cannot launch a node. If launches in one NodePool are refused, the other
//     NodePools are still used.
//   - In a fallback, every on-demand NodePool is above every spot NodePool by weight. The order within a side does not change.
//   - NodePools of only reserved capacity belong to neither side. If Karpenter uses them before on-demand, it also does so in a fallback.
//     If the successor of a replica starts on such a NodePool during a return, the replica counts as moved, as with a start on spot.
//   - A probe lets each spot NodePool launch one node, and succeeds as soon as one NodePool keeps its new node.
//   - On-demand is limited only if the limits of all on-demand NodePools may be overridden.
//   - A NodePool that does not exist, is not ready, or whose owner does not allow overrides provides no room, and a finding names it.
//
// # Contract of the caller
//
//   - A patch carries the resourceVersion of the observation that it is based on, so that it cannot overwrite a newer edit.
//   - The overrides of a patch are one server-side apply with force, with the record in the same request. A restored field is first written
//     for its recorded owner, and is not part of the apply.
//   - On a NodePool with spec.replicas, weight and limits are Unsupported: the API server would reject the complete patch.
//   - Only a patch without a record removes the record. The record stays until the restored value was observed.
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
//     the limit is not a failure of spot. No surge or probe starts, and no pod waits, for a node that the limit does not allow. Replicas
//     on on-demand nodes stay on these nodes, whose consolidation continues, and `gpuscaler explain` names the limit.
//   - A NodePool of reserved and on-demand capacity (In [reserved, on-demand], as documented for capacity reservations) is the on-demand
//     side, even if the group lists it as reserved together with NodePools of only reserved capacity. Its reserved nodes are part of the
//     base, and no replica moves away from them: the reservation is paid for in any case. If the successor of a replica starts on such a
//     node during a return, the replica counts as moved.
//   - A capacity reservation without a limit of its NodePool: Karpenter does not report that it is full. While pods wait and the NodePool
//     launches no node, the reservation counts as full, and targets are capped if no other NodePool of the group is open.
//   - A scheduled limit and a limit cap: the smaller limit applies. A scheduled limit below the running units is written as configured,
//     because Karpenter removes no node to meet a limit.
//   - A zero limit and a Job without a policy: the Job takes precedence. A zero limit requires that no pod runs or is pending and that
//     demand is known.
//   - The spot wait timeout and the evidence of refusals: while pods wait below a limit cap, refusals do not shorten the timeout.
//   - A consolidation freeze and a probe: while known demand arrives, no probe and no move starts.
//   - Weights and a consolidation freeze: in a fallback, the weights prevent Karpenter from replacing on-demand nodes by spot nodes. In a
//     probe and a return, the freeze prevents this. The freeze begins before the weights are restored and ends a minute after a rule last
//     needed it. Within a second without protection, Karpenter could choose every on-demand node for consolidation.
//   - An on-demand base and Karpenter's consolidation: on-demand has the higher weight and a limit equal to the base. Karpenter's
//     simulation therefore leaves the pods of the base on their nodes and puts all other pods on spot.
//   - A move and growing demand: if demand needs all replicas, no pod is deleted and the move ends.
//   - A target cap and pending pods: one replica more than the replicas with a node stays pending. Karpenter retries for this replica, and
//     the failures of these launches are the evidence for a fallback.
package capacity
