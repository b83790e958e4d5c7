// Package simulator simulates a cluster: traffic, replicas, nodes, metrics, and the component that writes the replicas. It implements the
// ports of the engine, so that engine.Tick decides here as in a live cluster, on the same policies. Replays and the demo use it.
//
// # How it runs
//
// Events are in a queue (package events) ordered by virtual time, in whole microseconds. Each Step processes the events up to the next tick
// and then runs a tick of the engine. Events with equal times are processed in the order of their creation, and workloads are sorted by
// name first, so the result does not depend on the order of the config.
//
// Random numbers come from one stream for each purpose (package reproducible): another workload, or a policy that starts more
// replicas, does not change the numbers of the others. Arithmetic uses integers, or floating-point expressions that a compiler cannot
// fuse. Therefore a seed gives the same bytes on every machine.
//
// # What is modeled
//
//	traffic    requests of package trace; one FIFO queue per workload; the replica with the fewest requests serves next
//	service    fixed, or from token counts at the speed of a full batch; the requests of a lost replica return to the head of the queue
//	replicas   node launch, GPU ready, image pull (once per node), model load; termination with a grace period
//	nodes      several GPUs, packing, limits, weights, Karpenter, spot interruptions (package karpenter)
//	metrics    scrapes, lag and polls; a pod that ends reports no metrics; faults
//	actuators  an exact HPA (package hpa), KEDA's loop, gpuscaler's activator; baselines that decide themselves (package baseline)
//
// Not modeled: further phases of a pod's start, the network, and changing prices. The documentation of package karpenter lists what
// it does not model. Assumptions has all constants.
//
// # Waits
//
// The wait of a request is the time that it spends in the queue: until its service starts, and again if it lost its replica. A request
// is late if its wait exceeds the SLO of its workload.
//
// # The ledger
//
// Every paid GPU has one cause (package ledger) at every time, in integers, so that the parts add up to the total. A ready replica with r
// of s used slots serves with r/s of its GPUs. The other GPU time of the replica is idle. The cause of the idle time is headroom if the
// signals request the replica. Otherwise the cause is the rule that keeps the replica.
//
// # Terms
//
//   - load: the state of a simulated workload
//   - slot: a replica serves one request in each of its slots
//   - pool: a NodePool
//   - tick: one call of engine.Tick
//   - train part, report part: the parts of a run before and after Config.ReportFrom; the results cover only the report part
//
// # Files
//
//	simulator                       the loop: events, the ticks of the engine
//	config, assumptions             the input: workloads, services, faults, constants
//	load, request, replica, act     a workload: its queue, its replicas, the moves of its actuator
//	meter, ports                    what the engine reads: scrapes, polls, the observed state
//	groups                          capacity groups: what they observe and write
//	account, parts, result, series  the output: GPU time by cause, train and report part, totals, values over time
//	moment                          what an observer reads at one time
//
// Package karpenter has the NodePools and nodes, package events the virtual time, package autoscaler what writes the replicas, package
// baseline the autoscalers for comparison, and package ledger the causes. They do not import this package.
package simulator
