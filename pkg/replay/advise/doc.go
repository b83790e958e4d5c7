// Package advise determines which objective a workload can attain at which cost. It replays recorded traffic with policies that have an
// objective, a minReplicas and a maxReplicas, and selects the cheapest of them that attains the SLO.
//
// # Candidates
//
// A candidate is a policy with one minReplicas and one percentile. The values of minReplicas are 0 to maxReplicas; above exhaustiveMax
// some are left out. The percentiles are that of the SLO and a stricter one with half of its late requests: a replay that misses the SLO by
// little with the first can attain it with the second, for less than another warm replica. Each candidate is replayed once, by the
// simulator and the engine that `gpuscaler replay` uses. It begins without learned values.
//
// The search ends as soon as no further candidate can be cheaper: a candidate costs at least the price of its minReplicas for the whole
// time. This bound does not apply if replicas can be fewer than minReplicas (spot, NodePools, schedules, modes other than auto). Then all
// candidates are replayed.
//
// A fixed number of replicas (minReplicas equal to maxReplicas) is reported if it attains the SLO for less than every candidate. It is not
// recommended, because it cannot follow traffic that differs from the recorded one.
//
// # Certificate
//
// Each answer has the request-level lower bound of package lowerbound for its SLO. No first-in-first-out policy can attain the SLO for
// less, so the difference is the most that another policy can save.
package advise
