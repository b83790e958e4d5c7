// Package evaluate tries a policy on recorded traffic and says how it did, beside its rivals and the least that anybody could have paid.
//
// All runs of a Case share the traffic, the replicas that stand at the start, the service times, the cold starts and the seed; they
// differ only in who moves the replicas. Judgement is at equal service: a run that misses the SLO is "misses SLO" and has no place
// among the cheap ones, whatever it cost.
//
// # Who runs
//
//	gpuscaler     the policy, decided by the engine that runs in a cluster
//	rivals        with their documented defaults, and tuned: a search over their documented knobs on the very traffic
//	              that they are then judged on. That flatters them; gpuscaler is granted as much only where Case.TuneOurs says so,
//	              in a row of its own.
//	clairvoyant   the schedule behind the fluid bound, carried out by replicas that start and serve like everybody else's. Where nodes
//	              may stand already, the bound takes the shortest cold start, and the schedule that is carried out the usual one.
//	careful       a stricter schedule that real waits keep; given a replica more, and another, where spot or the end of a
//	              replica cuts work off
//
// # Two bounds
//
// The fluid bound is the tight one of a slotted model, and a run may in odd cases cost less. The request-level bound holds against
// every first-in-first-out run of real servers; runs are judged against it. Package bound has the proofs; the relaxations stand in
// the report.
package evaluate
