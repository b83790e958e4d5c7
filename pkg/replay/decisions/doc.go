// Package decisions measures how good the decisions of package objective are on traffic for which they were not tuned. It contains a fluid
// simulator that runs a day in a fraction of a second, families of traffic that are drawn at random, and policies for comparison: static
// fleets, a reactive autoscaler with default settings and with settings that are tuned in hindsight, and an oracle that knows the expected
// traffic and the present, but not the future.
//
// # Terms
//
//   - family: a kind of traffic, for example traffic with bursts
//   - law: the random distribution from which the traffic of one family and one seed is drawn
//   - cell: one row of the table, for one trace, cold start, allowed wait and percentile
//   - anchors: the results of the policies for comparison in one cell
//   - siblings: other traces, drawn from the same law with other seeds
//   - in hindsight: chosen with knowledge of the whole run
//   - dominate: a policy dominates another policy if it has less late work at less cost
//
// # The simulator
//
// Time is divided into slots of 5 s. Work arrives in units (requests). Ready replicas serve it first in, first out, and each serves the
// same amount of work in a slot. A replica that is started in a slot is ready one cold start later and is paid from its start. Replicas are
// removed at once, the youngest first, so the number of ready replicas is the smallest target of the last cold start. Work is late if it is
// not served at the end of the slot in which its allowed wait ends.
//
// The capacity of a replica is drawn at random from the seed. Only the anchors know it, because their settings are relative to it.
//
// A second simulator processes whole requests. It is used for traffic with so few requests that single requests have an effect on the
// result. In this simulator, each replica has 1, 4, 8 or 32 slots, which is the number of requests that it processes at once.
//
// By default, a policy reads the exact values of the last slot. With the flag -sampled, a policy with an objective reads what a usual
// installation measures: arrivals and throughput as means of a minute, and a sample every 15 s that is 10 to 20 s old. The baselines and
// the oracle still read exact values.
//
// # Scores
//
// The first 60% of a run only give the policies a history. The last 40% are scored: the share of late work, and the replica-seconds.
// Baselines that are tuned in hindsight are tuned on the scored part itself. The oracle is tuned on other draws of the same law.
//
// The oracle knows more than the other policies, so the benchmark prints a warning for each cell in which a policy dominates the oracle.
// The benchmark prints no warning in two cases:
//   - A baseline that is chosen in hindsight dominates the oracle. It knows the scored part, which can have less traffic than the law.
//   - A policy attains exactly as much as the oracle at less cost. For example, the oracle has replicas for flash crowds, but the scored
//     part has none.
//
// A mean cost has a 90% confidence interval over the seeds: cells of one seed have the same traffic and are not independent.
package decisions
