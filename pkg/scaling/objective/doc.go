// Package objective computes how many replicas a workload needs to meet a service level objective (SLO), for example "99% of requests start
// within 10s". The user sets the objective and the bounds. The model learns everything else from the data that telemetry already reads: the
// capacity of a replica, the cold start, and the pattern of arrivals.
//
// A [Model] contains what was learned about one workload. [Model.Observe] adds the evidence of a tick. [Model.Plan] computes the replicas
// and the terms that add up to them. Both methods are deterministic, read no clock and do no I/O.
//
// # Method
//
// A fixed set of rules proposes replicas: the expected load (means of half a minute to an hour, a rising trend, the time of the day) plus a
// number of deviations, and at least a share of the greatest need of a past span of time. For each rule, the model simulates the fleet that
// would have followed it, with the observed work, the learned capacity and the learned cold start: which work would have been late, and how
// many replica-seconds would have been paid. It uses the cheapest rule whose late work, with a margin for the uncertainty of what was
// observed, is within the SLO. If the workload itself had more late work than allowed, the margin increases. The late budget, which is the
// late work that the SLO permits, is therefore used where it saves most replicas, and the user does not have to select a rule.
//
// Work also waits if the replicas have enough capacity, because requests arrive at random and take a random time. If the requests in flight
// are measured and replicas were saturated before, the number of slots of a replica and the service time are known. Each rule then adds the
// free slots with which the queue M/M/c (Erlang C) of all slots meets the SLO, and the late work of each simulated fleet includes the work
// that is late in this queue.
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
