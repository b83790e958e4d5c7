// Package objective computes how many replicas a workload needs to meet a service level objective (SLO), for example "99% of requests start
// within 10s". The user sets the objective and the bounds. The model learns everything else from the data that telemetry already reads: the
// capacity of a replica, the cold start, and the pattern of arrivals.
//
// A [Model] contains what was learned about one workload. [Model.Observe] adds the evidence of a tick. [Model.Plan] computes the replicas
// and the terms that add up to them. Both methods are deterministic, read no clock and do no I/O.
//
// # Terms
//
//   - Work is an amount of requests or tokens. Load is work per second.
//   - A slot is a time slot: one step of the simulations. All slots of a workload have the same length, which is 5 seconds or a twelfth of
//     the allowed wait, the longer of both.
//   - A serving slot is the place for one unit of work in a replica. A replica that processes 8 requests at once has 8 serving slots.
//   - A block is the shortest number of consecutive time slots that lasts at least half an hour. The cost and the late work of a rule are
//     added up by block, and the late work of two blocks is treated as independent.
//   - The level of a rule is the load that it expects: a moving average, a rising trend, or the usual load at this time of the day.
//   - The need is the smallest capacity, in work per second, that would have served the work of the last slots within the allowed wait.
//   - The hold of a rule is the past time over which it uses the greatest need: four cold starts, 1, 6 or 24 hours, or 7 days. A rule that
//     uses a hold proposes at least a share of this peak.
//   - A surge is a rise of the mean load of a cold start to at least twice the load before it.
//   - A ladder is a sequence of rules with the same level and hold, in which each rule has a greater margin or a greater share than the
//     one before it, so it proposes at least as many replicas.
//   - An expert is the simulated fleet of one rule. There is one expert for each rule.
//
// # Method
//
// A fixed set of rules proposes replicas: the expected load (means of half a minute to an hour, a rising trend, the time of the day) plus a
// number of deviations, and at least a share of the greatest need of a past span of time. For each rule, the model simulates the fleet that
// would have followed it, with the observed work, the learned capacity and the learned cold start: which work would have been late, and how
// many replica-seconds would have been paid. It uses the cheapest rule whose late work, with a margin for the uncertainty of what was
// observed, is within the SLO. The margin is at least the work that would be late if the greatest past surge occurred once more. If the
// workload itself had more late work than allowed, the margin increases. The late budget, which is the late work that the SLO permits, is
// therefore used where it saves most replicas, and the user does not have to select a rule.
//
// Work also waits if the replicas have enough capacity, because requests arrive at random and take a random time. If the requests in flight
// are measured and replicas were saturated before, the number of serving slots of a replica and the service time are known. Each rule then
// adds the free serving slots with which the queue M/M/c (Erlang C) of all serving slots meets the SLO, and the late work of each simulated
// fleet includes the work that is late in this queue.
//
// If work waits, replicas are added to the proposal of each rule. They serve the part of the waiting work that the ready replicas cannot
// serve within a cold start, and they are kept until they have become ready.
//
// # Rules
//
//   - Missing evidence never lowers the plan. A value that is missing is not zero.
//   - While too little is known, or while the result of the plans is worse than the objective, the safe policy decides and the plan has the
//     reason.
//   - No measured value, correct or not, changes what was learned by more than a bounded factor in a tick.
//
// # Arithmetic
//
// The same evidence gives the same plan on amd64 and arm64. Products in a sum are converted with float64(), which prevents the compiler
// from fusing them, and the package does not call functions such as math.Exp, whose last bit differs between architectures.
package objective
