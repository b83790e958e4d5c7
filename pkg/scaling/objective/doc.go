// Package objective computes how many replicas a workload needs to meet a service level objective (SLO), for example "99% of requests start
// within 10s". The user states the objective and the bounds. Everything else is learned from what telemetry already reads: the capacity of
// a replica, the cold start, and the pattern of arrivals.
//
// A [Model] holds what was learned about one workload. [Model.Observe] adds the evidence of a tick. [Model.Plan] computes the replicas and
// the terms that add up to them. Both are deterministic, read no clock and do no I/O.
//
// # Rules
//
//   - Missing evidence never lowers the plan. A value that is missing is not zero.
//   - While too little is known, or while the result of the plans is worse than the objective, the safe policy decides and the plan says
//     why.
//   - No measured value, correct or not, changes what was learned by more than a bounded factor in a tick.
//
// # Arithmetic
//
// The same evidence gives the same plan on amd64 and arm64. Products in a sum are converted with float64(), which prevents the compiler
// from fusing them, and the package does not call functions such as math.Exp, whose last bit differs between architectures.
package objective
