// Package evaluate replays recorded traffic and compares a policy with baselines and with a lower bound on cost.
//
// All runs of a Case share the traffic, the initial replicas, the service times, the cold starts and the seed. They differ only in what
// scales the replicas. Runs are compared at equal service: a run that misses the SLO is marked "misses SLO" and is never reported as the
// cheapest, at any cost.
//
// # Runs
//
//	gpuscaler     the policy, decided by the engine of the controller
//	baselines     other autoscalers with their documented defaults, and tuned: a search over their documented knobs on the same
//	              traffic that they are evaluated on. This favors the baselines; with Case.TuneOurs the policy is tuned in the
//	              same way, in a separate row.
//	clairvoyant   the schedule behind the fluid bound, run with replicas that start and serve like those of all other runs. If nodes
//	              can exist already, the bound uses the shortest cold start and the schedule that runs uses the typical one.
//	careful       a stricter schedule, so that real waits meet the SLO, with more replicas if spot losses or ending replicas stop
//	              requests
//
// # Lower bounds
//
// The fluid bound is exact for a model with time slots; in rare cases a run costs less. The request-level bound holds for every
// first-in-first-out run of real servers, and runs are compared with it. Package lowerbound has the proofs; the report lists the
// relaxations.
//
// # Files
//
//	evaluate, trial, run            the order of the runs; one run of all cases; its row in the report
//	case, parts                     the input of one workload, with its train part and its report part
//	report, header, gates           the result, what it states about the input, and conditions that it must meet
//	baseline, knobs                 the parameters of the baselines and of a policy
//	clairvoyant, oracle             lower bounds, and the runs that know the traffic
//	admission, advice, targets      warnings about what a policy cannot attain
package evaluate
