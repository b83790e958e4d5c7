// Package objective computes how many replicas a workload needs to meet a service level objective (SLO), for example "99% of requests start
// within 10s". The user sets the objective and the bounds. The model learns everything else from the data that telemetry already reads: the
// capacity of a replica, the cold start, and the pattern of arrivals.
//
// A [Model] contains what was learned about one workload. [Model.Observe] adds the evidence of a tick. [Model.Plan] computes the replicas
// and the terms that add up to them. Both methods are deterministic, read no clock and do no I/O.
//
// # Terms
//
// Terms of the SLO:
//
//   - Work is an amount of requests or tokens. Load is work per second. Arrivals are the load that the clients send.
//   - The allowed wait is how long work may wait for a replica so that the limit of the objective is met.
//   - Late work is work that is not served within the limit. The late budget is how much of the observed work may be late: with an SLO of
//     99%, it is 1% of this work.
//
// Terms of replicas:
//
//   - The capacity of a replica is the work per second that it can serve. A replica is saturated while work waits for it. Work in flight is
//     work that replicas process.
//   - A serving slot is the place for one unit of work in a replica. A replica that processes 8 requests at the same time has 8 serving
//     slots; its concurrency is 8. The service time is how long a unit of work occupies its serving slot.
//   - The cold start is the time from the decision to a ready replica. The lead time is the 95th percentile of the observed cold starts.
//   - The age of the load is the time from the arrival of work until a tick reads the load that contains it. A rate over a minute is half
//     a minute old on average, plus the time until the next scrape and poll. The dead time is the age of the load plus the cold start: the
//     time from a change of the load until the replicas for it are ready.
//
// Terms of the decision:
//
//   - A plan is the number of replicas for one tick. The terms of a plan are the parts of this number, for example for the expected load.
//   - The price of a plan is the cost, in replica-seconds, that it accepts to avoid one unit of late work. The quantile of a plan is the
//     share of the observed work that would have been served within the limit if the rule of the plan had always been used.
//   - A rule computes a number of replicas from the past load. It expects a load, the level: a moving average, a rising trend, or the usual
//     load at this time of the day. It adds a margin, a multiple of the standard deviation of the load.
//   - The need is the smallest capacity, in work per second, that would have served the work of the last time slots within the allowed
//     wait.
//   - The hold of a rule is the past time of which it uses the greatest need: four cold starts, 1, 6 or 24 hours, or 7 days. A rule with a
//     hold proposes replicas for at least a share of this peak.
//   - A ladder is a sequence of rules with the same level and hold, in which each rule has a greater margin or a greater share than the
//     rule before it, so it proposes at least as many replicas and is more cautious.
//   - An expert is the simulated fleet of one rule: the replicas, queue, cost and late work that the workload would have with this rule.
//   - The safe policy replaces the rules while too little is known or while they do not meet the objective.
//   - A surge is a rise of the load within a cold start to at least twice the load before it.
//   - A time slot, or slot, is one step of the simulations. All time slots of a workload have the same length, which is 5 seconds or a
//     twelfth of the allowed wait, the longer of both.
//   - A block is the shortest number of consecutive time slots that lasts at least half an hour. The cost and the late work of a rule are
//     added up by block, and the late work of two blocks is treated as independent.
//
// Terms of the measurements in comments at constants (make bench-decisions):
//
//   - A cell is the simulation of one trace of requests with one duration of the cold start. It meets the SLO or not, and it has a cost.
//   - A family is a group of generated traces that are similar, for example bursty (with bursts) or lonely (with rare single requests).
//   - The oracle is a plan that is computed with knowledge of the future load.
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
// fleet includes the work that is late in this queue. If the number of serving slots is not known, the late work is approximated from the
// measured variance of the arrivals (index of dispersion).
//
// The measured load is old, so the simulated replicas are ready a dead time after their rule needs them. A mean over a minute also hides
// bursts that are shorter than a minute. If they cause a queue, the queue shows how much work arrived, so this work is counted when the
// queue grows. A throughput counts as the capacity only if work waited during the whole time of which the throughput is the mean.
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
