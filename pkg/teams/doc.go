// Package teams divides a team's limits among its workloads. It is pure: limits, members and their requests are the input; the most
// replicas of each member is the output.
//
// # What a limit guarantees
//
// For each limited resource, the sum over the team's workloads of target x requested amount per replica never exceeds the limit. A
// limit is a decision of the platform team, not a measurement: where it is introduced or lowered below what runs, the targets are cut
// at once, below minReplicas if necessary.
//
// # The order in which members receive replicas
//
// A limit that is large enough for every target cuts nothing. Otherwise the members receive replicas in four steps, and each step
// gets what the steps before it left:
//
//  1. Minimum: minReplicas, a person's override minimum, or all replicas of a paused workload.
//  2. Running: up to the replicas that exist. A running replica is therefore never removed for the benefit of another workload's raise,
//     only for another workload's minimum.
//  3. Granted: up to the last target, which an HPA may be about to follow.
//  4. Raises: up to the target. A raise must fit beside what exists: replicas that are still being removed, pods of the team that no
//     policy manages, and workloads that are not served (advisory, hold) count here. They never cut a kept replica.
//
// Within a step, the next replica is given to the member with the smallest dominant share: the largest of its shares of the limited
// resources (dominant resource fairness, Ghodsi et al., NSDI 2011). Equal shares are ordered by namespace/name. A member whose next
// replica does not fit receives no more in that step. The result depends only on the inputs, not on their order.
//
// # What is not known
//
// An amount per replica that cannot be read is never treated as 0. The member keeps min(target, replicas that exist or were granted),
// is not raised, and is charged with the largest of: what its pods request, the last known amount for each of its replicas, one unit
// for each of its replicas.
package teams
