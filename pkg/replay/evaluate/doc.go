// Package evaluate replays recorded traffic and compares a policy with baselines and with a lower bound on cost.
//
// All runs of a Case share the traffic, the initial replicas, the service times, the cold starts and the seed. They differ only in what
// scales the replicas. Runs are compared at equal service: a run that misses the SLO is marked "misses SLO" and is never reported as the
// cheapest, at any cost.
//
// # Runs
//
//	gpuscaler     the policy, decided by the engine of the controller
//	baselines     other autoscalers, once with their documented defaults and once tuned: a search selects the best values of
//	              their documented knobs on the train part. Without a train part, it uses the traffic that they are evaluated on,
//	              which favors the baselines. With Case.TuneOurs the policy is tuned in the same way, in a separate row.
//	clairvoyant   the schedule behind the fluid bound. In this run, replicas start and serve as in all other runs. If a
//	              replica can start on an existing node, the bound uses the shortest cold start, and this run uses a schedule for
//	              the typical cold start.
//	careful       a stricter schedule, so that the simulated waits meet the SLO. It has additional replicas if the SLO is missed
//	              otherwise, because spot losses or ending replicas stop requests.
//
// # Lower bounds
//
// The fluid bound is exact for a model with time slots; in rare cases a run costs less than this bound. The request-level bound holds for
// every run of real servers with first-in-first-out queues, and runs are compared with it. Package lowerbound has the proofs; the report
// lists the relaxations.
//
// # Terms
//
//   - case: one policy with its traffic, its service and its SLO
//   - trial: the cases that run together in one simulated cluster
//   - run: one simulation of a trial, with one way to scale the replicas; it is a row of the report
//   - knob, setting: a parameter of a policy or of a baseline, and its value
//   - report part: the end of the traffic, which the results cover; the train part before it is for learning and tuning
//   - bound: a lower bound of the cost at which the SLO can be met
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
