// Package simulator is a simulated cluster behind the engine's three ports: traffic, replicas, nodes, metrics, and whoever moves the
// replicas. The same engine.Tick that decides in a live cluster decides here, on the same policies; it is the replay's world and
// the demo's.
//
// # How it runs
//
// Events lie in a heap by virtual time, in whole microseconds; between them nothing happens. Each Tick of virtual time the events
// up to it happen, and then the engine ticks. Events of one instant happen in the order in which they were made, and workloads
// are put in order by name first, so that a config gives one world in whatever order it lists them.
//
// Random numbers come from one stream per purpose (package trace's Draws): another workload, or a policy that starts more
// replicas, moves no number of the others. Arithmetic is in integers, or in floats that no compiler may fuse. So a seed gives the
// same bytes on every machine.
//
// # What is modelled
//
//	traffic    package trace's requests; one FIFO queue per workload; the idlest replica serves next
//	service    fixed, or from token counts at the speed of a full batch; a request whose replica is lost waits again, at the head
//	replicas   node launch, GPU ready, image pull (once per node), model load; drain on the way out, within a grace
//	nodes      several GPUs, packing, limits, weights; Karpenter's provisioning, emptiness, consolidation of one node, budgets
//	spot       a market per pool from a trace; two minutes' notice; refusals that are remembered for three minutes
//	metrics    scrapes, lag and polls; they vanish with the pods that serve them; faults
//	actuators  a faithful HPA (package hpa), KEDA's loop, gpuscaler's activator; rivals that decide for themselves
//
// What is not: pods' start beyond these phases, PodDisruptionBudgets, several nodes consolidated into one, instance types to choose
// from within a pool, the network, and prices that move. All numbers taken for granted stand in Assumptions.
//
// # Waits
//
// A request's wait is the time that it spends in the queue: until its service starts, and again where it lost its replica. It is
// late when that is more than its workload's SLO.
//
// # The ledger
//
// Every GPU that is paid for has one Cause at every instant, kept in integers, so that the parts sum to the whole. A ready replica
// with r of s slots taken serves r/s of its GPUs. The idle rest is headroom up to what the signals ask for; above that it is
// charged to the rule that keeps it.
package simulator
