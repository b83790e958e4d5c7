// Package scaling decides how many replicas a workload should have. It is pure: a policy, an observation, a state and the time go
// in; a number, its reasons and the next state come out. No clock, no I/O, no Kubernetes type.
//
// # The rules, in order
//
// Each rule sees the number that the rules before it made, and leaves at most one Reason. Where two disagree the later one wins,
// so the order is the answer to every conflict:
//
//	propose            each signal asks: a Total value/target, a Mean ready*value/target; or its forecast, where that replaces the reading
//	combine            the greatest ask, or the formula
//	missing, fallback  what is not known never lowers; after failureThreshold KEDA's fallback may raise
//	veto               utilization does not lower while demand or latency grows
//	loading            no Mean lowers below ready + loading while replicas load
//	tolerance          small changes are not followed
//	panic              in a burst nothing falls, and the next two let rises through
//	stabilize          the least proposal of the up window, the greatest of the down window
//	idle               to zero after the cooldown; from zero on the first demand
//	rate               Pods and Percent per period
//	forecast           keeps what demand rose to lately; floors wait for no window, no tolerance and no rate
//	schedule floor
//	schedule ceiling   wins over floors and backlog; takes away only as fast as the down rates allow
//	at-risk, surge     successors and movers: they overlap with what they replace, and may pass the ceiling
//	capacity           stops rises that no node can serve
//	override, paused   a person wins over all of the above, at once
//	bounds             the platform wins over everybody
//	team limit         the share of the team's limit (package teams); it wins over the bounds, MinReplicas included
//
// # Conflicts, decided
//
//   - A ceiling of 0 at night with a backlog: the ceiling wins; the reasons show what was asked and until when it holds.
//   - A ceiling while signals are missing: it still lowers. Law 3 is about what is not known; the ceiling is written down. The same
//     holds for a person's override and for the bounds. Nothing else lowers a degraded tick below the current replicas.
//   - A ceiling and the rates: 12 to 0 at 23:00 would cut off every request, so a ceiling steps down through scaleDown's rates, and
//     with scaleDown Disabled it only stops rises. The bounds do not wait: a team over its share takes from the others.
//   - A floor above a ceiling: the ceiling wins (validation refuses what it can see of this).
//   - A ceiling below MinReplicas: the bounds come last, so MinReplicas wins.
//   - A floor, a forecast or an override above MaxReplicas: MaxReplicas wins.
//   - An override's min above a ceiling: the override wins, it is younger. Its min above its own max: min wins.
//   - Paused and an override: paused wins. Paused above MaxReplicas: MaxReplicas wins. Paused below MinReplicas: it stays; who
//     scales a broken model to 0 by hand and pauses it wants it at 0.
//   - MinReplicas above MaxReplicas: MaxReplicas wins.
//   - A follower's maxReplicas below the policy's: the follower's wins, as MaxReplicas would, below MinReplicas too. It is what comes to
//     be whatever we say, so saying it costs nobody a replica and tells the person who looks where to turn.
//   - The cooldown is over and the down window is not: the cooldown wins, it is the stronger evidence, and the rates step down.
//   - A floor keeps a workload active; when it ends the cooldown starts, as with KEDA's cron trigger.
//   - A panic and a ceiling, a panic and an override: the later one wins, as everywhere.
//   - Missing signals at zero replicas: pods that do not run report nothing, so a tick at zero is degraded only where no signal at
//     all is left to wake the workload; then a static fallback wakes it, as in KEDA.
//   - A cap below the current replicas takes nothing away: pods that wait are what makes a node come.
//   - A team limit and anything else: the limit wins, at once, also while signals are missing. It was written down, not measured.
//     It also cuts replicas that the nodes ask for (at-risk, surge). Package teams decides which workload of the team is cut.
//
// # The number in force
//
// Windows, rates and tolerance compare with the last target, not with the observed replicas, which lag by an HPA sync. What the
// nodes add or take (at-risk, surge, cap) is not part of it: with readings missing, the number in force is held, and a surge of 1
// that counted would add one replica per tick.
//
// # Arithmetic
//
// A policy compiled for amd64 must decide the same on arm64: products that meet a sum are wrapped in float64(), which forbids the
// compiler to fuse them, and nothing here calls math.Exp or its kind, which differ in the last bit between architectures.
package scaling
