// Package engine runs the loop of gpuscaler: read, decide, publish, apply. Tick does this once for every workload, team and capacity
// group. It reads memory only: the interfaces Policies, Telemetry, Cluster, Groups and Nodes hide where values come from, so that the
// controller and the simulator run the same Tick.
//
// # One tick
//
//  1. Workloads without a team limit or a capacity group are decided by package scaling and published.
//  2. Members of a team with limits are decided, the limits are divided by package teams, and members whose share is less than their target
//     are decided again within it.
//  3. Workloads of a capacity group are decided, then the group by package capacity. Actions that allow nodes are applied before the
//     group's targets are published, the others after them. The group's advice (cap, replacements, surge) is read in the next tick.
//  4. Changes are passed to Cluster.Apply.
//
// A panic affects one workload, team or group, and is returned in Outcome.Errors with its stack.
//
// # Reading the results
//
// DecisionStore holds the newest decision of every workload, group and team. Servers call Lookup, which returns a target or the reason
// why none is served; a target that is too old, or belongs to another scale target, is not served. History holds the changes of the last
// 24 hours.
//
// Ten thousand workloads take about 15 MB: the store keeps states, decisions and records in compact encodings.
package engine
