// Package engine runs the loop of gpuscaler: read, decide, publish, apply. Tick does this once for every workload, team and capacity group.
// It reads memory only. The interfaces Policies, Telemetry, Cluster, Groups and Nodes provide the inputs, so that the controller and the
// simulator run the same Tick.
//
// # One tick
//
// First, package scaling decides the targets of the workloads that have neither a team limit nor a capacity group. The targets are
// published.
//
// Second, the targets of all workloads of teams with limits are decided. Package teams then divides the limits. A workload whose share is
// less than its target is decided again, with the share as a limit.
//
// Third, the targets of the workloads of each capacity group are decided, and then package capacity decides for the group. Actions that
// allow new nodes, for example the removal of a zero limit, are applied before the targets of the group are published. Other actions are
// applied after that. The advice of the group for its workloads (the cap of a target, replicas that replace pods at risk, and surge
// replicas) is used in the next tick.
//
// Last, changes are passed to Cluster.Apply.
//
// A panic affects one workload, team or group, and is returned in Outcome.Errors with its stack.
//
// # Reading the results
//
// DecisionStore contains the newest decision of every workload, group and team. Servers call Lookup, which returns a target or the reason
// why none is served. A target that is too old, or that was decided for another scale target, is not served. History contains the changes
// of the last 24 hours.
//
// The store keeps states, decisions and records in compact encodings. Ten thousand workloads take about 15 MB.
//
// # Files
//
//	engine.go, shutdown.go                    the tick of workloads, and the end of the process
//	ports.go                                  the interfaces that an adapter implements, and what they return
//	entry.go, origin.go, saved.go             one workload: its decision, the state that it starts from, saved models
//	teamtick.go, teamrecord.go                the tick of a team and its record
//	grouptick.go, groupobservation.go,
//	grouprecord.go                            the tick of a capacity group, what it reads, and its record
//	decisions.go, history.go                  what readers get, and the changes of a day
//	packedentry.go                            the compact encodings of the newest decision and of its view
package engine
