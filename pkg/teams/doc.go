// Package teams divides a team's limits among its workloads. It does no I/O: the input is the limits and the members with the amounts that
// they request; the output is the maximum number of replicas of each member.
//
// # What a limit guarantees
//
// For each limited resource, the sum over the team's workloads of target x requested amount per replica never exceeds the limit. A limit is
// a decision of the platform team and not a measurement. If a new or lowered limit is less than what the running replicas request, the
// targets are reduced immediately, below minReplicas if necessary.
//
// # The order in which members receive replicas
//
// If a limit is large enough for all targets, no target is reduced. Otherwise the members receive replicas in four steps. Each step divides
// the amounts that the previous steps have not used:
//
//   - Step 1, minimum: minReplicas, the minimum of an override, or all replicas of a paused workload.
//   - Step 2, running: up to the replicas that exist. Therefore a running replica is removed only for the minimum of another workload, and
//     never for an increase.
//   - Step 3, granted: up to the last target, because an HPA may be about to apply it.
//   - Step 4, raises: up to the target. Only in this step, other use of the resources is subtracted too: replicas that are being removed,
//     pods of the team without a policy, and workloads whose target is not served (modes advisory and hold). Other use never reduces the
//     replicas of the first three steps.
//
// Within a step, the next replica is given to the member with the smallest dominant share, which is the largest of its shares of the
// limited resources (dominant resource fairness, Ghodsi et al., NSDI 2011). Members with equal shares are ordered by namespace/name. A
// member whose next replica does not fit receives no more in that step. The result depends only on the input, and not on its order.
//
// # What is not known
//
// If the amount per replica of a member is unknown, it is never treated as 0. The member keeps min(target, replicas that exist or were
// granted) and is not raised. For the limit, the member is assumed to use the largest of three amounts: the sum of what its pods request;
// its replicas times the last known amount per replica; its replicas times one.
//
// The amount of some kinds can be read only from their pods. Therefore a member without replicas receives a first replica (a trial), if the
// assumed amount is free. The actual amount can exceed the limit until it is known. After that, the trial is kept only if the limits are
// sufficient for it, for all other replicas of the first three steps, and for the other use in step 4. No other replica is removed for a
// trial, except for the member's minimum.
package teams
