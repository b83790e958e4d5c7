// Package record writes down what the engine saw and decided, tick by tick, and decides it again with the same brain: the first
// outcome that differs, byte for byte, is a failure. What a cluster decided at 3 a.m. can so be decided again on a desk.
//
// A recording is JSON lines:
//
//	{"kind":"start"}    a segment or a leader's term begins; all that was said before is forgotten
//	{"kind":"policy"}   a version of a policy; workloads name it by its number
//	{"kind":"tick"}     a tick: its time, and each workload whose inputs or outcome differ from those of the tick before
//
// What stays the same is not repeated, so a quiet second is a line of 60 bytes.
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
