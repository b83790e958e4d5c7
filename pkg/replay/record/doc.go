// Package record records the inputs and outcomes of the engine, tick by tick, and recomputes the decisions from a recording. Verify returns
// an error at the first recomputed decision that differs from the recorded decision by a byte. A decision of a cluster can therefore be
// reproduced and debugged later.
//
// A recording consists of JSON lines:
//
//	{"kind":"start"}    a file starts or the leader changes; all earlier state is dropped
//	{"kind":"policy"}   a version of a policy; entries refer to it by its number
//	{"kind":"group"}    a version of a capacity group; entries refer to it by its number
//	{"kind":"tick"}     a tick: its time, and each workload and group whose inputs or outcome changed since the tick before
//
// Unchanged data is not repeated, so a tick without changes is a line of 60 bytes.
//
// # Capacity groups
//
// In a tick, "g" lists the groups with changes. "seen" has the changed parts of the observation (capacity.Observation): "whole" (the
// number of nodes of each NodePool, the number of workloads, scheduled demand), "others" (pods without a policy), "pool.N" (a NodePool
// with its launch failures and losses), "node.N.M" (its M-th node) and "workload.N" (with its pods). "d" is the outcome: actions, plan,
// advice, reasons, findings, demand and phase. "orphaned" marks the NodePool of a removed group, whose overrides are restored. A known
// group that is not listed in "ggone" was decided in the tick. "state" is the decision state, only at the start of a file.
//
// # Rotation
//
// FILE is written until it has Segment bytes and is then renamed to FILE.1, FILE.1 to FILE.2, and so on; the oldest file is deleted. A
// decision depends on earlier readings, so each file starts with the decision state and can be verified without the others. The recorder
// computes that state itself, from the observations in the engine's decision store.
//
// # Limits
//
// A recording does not contain formulas, which are compiled programs. Verify gets them as an argument, and skips workloads whose formula
// is unknown.
package record
