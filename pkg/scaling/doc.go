// Package scaling computes how many replicas a workload should have. It is a pure package: Decide computes a target, its reasons and the
// next state from a policy, an observation, a state and the time. The package does no I/O, reads no clock and uses no Kubernetes type.
//
// # Rules
//
// Decide runs these rules in this order. Each rule starts with the target that the previous rules computed, and adds at most one Reason,
// which is the effect of the rule. If two rules disagree, the later one applies. The order therefore resolves every conflict.
//
//	signal                computes a proposal for each signal: value / target (Total), ready * value / target (Mean), or the forecast
//	combine               the greatest proposal, or the result of the formula
//	objective             the replicas that the objective (SLO) needs; proposals of signals with a target only increase this number
//	missing signal        a required signal that cannot be used prevents a scale-down
//	fallback              after failureThreshold failed polls, KEDA's fallback raises the target
//	growing demand        utilization does not lower the target while demand or latency grows
//	loading               a Mean (a value per replica) does not lower the target below the ready and the loading replicas
//	tolerance             small changes of the target are ignored
//	panic window          after a burst nothing lowers the target, and the windows and rates do not limit an increase
//	stabilization window  the smallest recommendation of the scale-up window, the greatest of the scale-down window
//	cooldown period       scales to zero after the cooldown, and from zero on the first demand
//	rate limit            Pods and Percent per period
//	forecast              keeps replicas for recent increases of demand; like every minimum it ignores windows, tolerance and rates
//	schedule floor        the greatest minimum of the open schedules
//	schedule ceiling      the smallest maximum of the open schedules; it lowers the target at the scale-down rate
//	nodes at risk         adds replacements for replicas on nodes that are about to be interrupted, and a reserve; may exceed the ceiling
//	surge                 adds replicas for a move to other nodes; may exceed the ceiling
//	capacity              stops an increase for which no node can be launched or no pod can be created
//	override              the bounds in the annotation of an operator; they apply immediately
//	paused                the current replicas of a paused workload
//	bounds                minReplicas and maxReplicas
//	team limit            the workload's share of its team's limit (package teams); below minReplicas if necessary
//
// # Conflicts
//
//   - A ceiling of 0 at night and a backlog: the ceiling applies. The reasons show what the signals need and when the ceiling ends.
//   - A ceiling while signals are missing: the ceiling lowers the target. A ceiling, an override, the bounds and a team limit are
//     configured and not measured; nothing else lowers the target below the current replicas while signals are missing.
//   - A ceiling and the rates: the ceiling lowers the target at the rates of scaleDown, because a step from 12 to 0 at 23:00 would end
//     every request. With scaleDown Disabled it only stops increases. The bounds apply immediately, because a team above its share takes
//     replicas from other teams.
//   - A floor above a ceiling: the ceiling applies (validation refuses the combinations that it can detect).
//   - A ceiling below minReplicas: the bounds run later, so minReplicas applies.
//   - A floor, a forecast or an override above maxReplicas: maxReplicas applies.
//   - The minimum of an override above a ceiling: the override applies, because it is newer. A minimum above its own maximum: the minimum
//     applies.
//   - A pause and an override: the pause applies. A pause with more current replicas than maxReplicas: maxReplicas applies. A pause with
//     fewer current replicas than minReplicas: the current replicas stay, because an operator who scales a broken model to 0 and pauses it
//     needs 0.
//   - minReplicas above maxReplicas: maxReplicas applies.
//   - A managed HPA with a lower maxReplicas than the policy: the maximum of the HPA applies, even below minReplicas. The HPA never exceeds
//     its own maxReplicas, so a greater target would differ from the replicas that the HPA sets.
//   - A cooldown that ends before the scale-down window: the cooldown applies, because it shows that the workload is inactive. The rates
//     still limit the decrease.
//   - A floor keeps a workload active. Its cooldown starts when the floor ends, as with KEDA's cron trigger.
//   - A panic window and a ceiling or an override: the later rule applies.
//   - Missing signals at zero replicas: pods that do not run report nothing, so the tick is degraded only if no signal is left that could
//     scale up the workload. In this case a static fallback scales it up, as in KEDA.
//   - A capacity cap below the current replicas: the current replicas stay, because Karpenter launches nodes for pending pods.
//   - A team limit and any other rule: the limit applies immediately, without rates. It also applies while signals are missing, and it
//     includes the replicas that the rules about nodes add.
//
// # Last target
//
// Windows, rates and tolerances compare a new target with the last target. They do not use the observed replicas, because these change only
// after the next sync of the HPA. The last target does not include the replicas that the rules about nodes (nodes at risk, surge, capacity)
// add or remove. Otherwise a surge would add further replicas in each tick while signals are missing, because the last target is then kept.
//
// # Reasons
//
// Decision.Reasons has the effect of each rule. Package explain returns texts for them. The texts are only for people. Code that needs a
// number reads a field of Decision.
//
// # Files
//
// The types that callers use are in workload.go, policy.go, observation.go, decision.go and state.go. decide.go runs the rules:
//
//	propose.go     signal, combine, missing signal, fallback
//	objective.go   objective
//	stabilize.go   growing demand, loading, tolerance, panic window, stabilization window, cooldown period
//	rate.go        rate limit
//	forecast.go    forecast
//	schedule.go    schedule floor, schedule ceiling
//	bounds.go      nodes at risk, surge, capacity, override, paused, bounds, team limit
//
// earliest.go computes the earliest scale-down, and encode.go encodes states. Package explain has the texts of decisions. The packages
// history (windows, steps, averages), objective (the model of an SLO) and planner (what is learned in each tick) do not depend on a Policy.
//
// # Arithmetic
//
// A policy must give the same targets on amd64 and arm64. Products in a sum are converted with float64(), which prevents the compiler from
// fusing them, and the package does not call functions such as math.Exp, whose last bit differs between architectures.
package scaling
