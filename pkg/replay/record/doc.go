// Package record writes down what the engine saw and decided, tick by tick, and decides it again with the same brain: the first
// outcome that differs, byte for byte, is a failure. What a cluster decided at 3 a.m. can so be decided again on a desk.
//
// A recording is JSON lines:
//
//	{"kind":"start"}    a segment or a leader's term begins; all that was said before is forgotten
//	{"kind":"policy"}   a version of a policy; workloads name it by its number
//	{"kind":"group"}    a version of a capacity group; entries name it by its number
//	{"kind":"tick"}     a tick: its time, and each workload and group whose inputs or outcome differ from those of the tick before
//
// What stays the same is not repeated, so a quiet second is a line of 60 bytes.
//
// # Capacity groups
//
// In a tick, "g" lists the groups with news. Of what was seen (capacity.Observation) "seen" holds the parts that differ from the tick
// before: "whole" (how many nodes in each NodePool, how many workloads, demand that is known ahead), "others" (pods without a policy),
// "pool.N" (a NodePool with its refusals and losses), "node.N.M" (its M-th node) and "workload.N" (with its pods). "d" is the outcome: actions, plan, advice, reasons, findings,
// demand and phase. "stray" is the NodePool of a group that is gone, which is let go. A group that is in no tick's "ggone" was decided
// in it, with or without news. What the brain remembers is "state", at the start of a segment only.
//
// # Rotation
//
// FILE is written until it holds Segment bytes, then renamed to FILE.1, FILE.1 to FILE.2, and so on; the oldest goes. A decision
// leans on windows that reach into the past, so each segment begins with the brain's state, and can be verified without the others.
// That state is the recorder's own: it decides in the engine's shadow, on what the engine's board says was seen.
//
// # Limits
//
// A formula is a compiled program and is not in the recording: Verify must be handed it, and leaves the workload out otherwise.
package record
