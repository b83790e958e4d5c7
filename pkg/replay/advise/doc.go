// Package advise determines which objective a workload can attain at which cost. It replays recorded traffic with policies that have an
// objective, a minReplicas and a maxReplicas, and selects the cheapest of them that attains the SLO.
//
// # Candidates
//
// A candidate is a policy with one minReplicas and one percentile. The values of minReplicas are 0 to maxReplicas. If maxReplicas is above
// exhaustiveMax, some values are left out. There are two percentiles: the percentile of the SLO, and a stricter percentile that permits
// half as many late requests. If a policy with the first percentile barely misses the SLO, the stricter percentile can attain the SLO and
// costs less than another warm replica. Each candidate is replayed once, by the simulator and the engine that `gpuscaler replay` uses. Each
// replay begins without learned values.
//
// The search ends as soon as no further candidate can be cheaper: a candidate costs at least the price of its minReplicas for the whole
// time. This bound does not apply if the workload can have fewer replicas than minReplicas, for example with spot nodes, NodePools,
// schedules or a mode other than auto. Then all candidates are replayed.
//
// A fixed number of replicas (minReplicas equal to maxReplicas) is reported if it attains the SLO for less than every candidate. It is not
// recommended, because it cannot follow traffic that differs from the recorded one.
//
// # Certificate
//
// Each answer has the request-level lower bound of package lowerbound for its SLO. No policy with first-in-first-out queues can attain the
// SLO for less. The difference between the cost of the answer and this bound is therefore the most that another policy can save.
package advise
