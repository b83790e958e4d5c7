// Package history keeps the part of a workload's past that decisions need: recommendations of a stabilization window, steps of the target,
// and moving averages of signals. It does not depend on a policy: lengths, periods and targets are arguments. Each type has a fixed size,
// which does not depend on the length of the history, and copying a value copies the history.
//
//	Window    the greatest recommendation of a time
//	Steps     the target at the start of a period
//	Trend     whether a signal grows
//	Forecast  mean and deviation of a signal's proposals
//
// All times are in Unix milliseconds. Stamp and Time convert them. Each type has a method Append, which encodes it as integers, and a
// method Read, which decodes them.
package history
