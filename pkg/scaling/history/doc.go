// Package history stores what decisions need to know about the past of a workload: the recommendations in a stabilization window, the
// changes of the target, and moving averages of signals. It does not depend on a policy: callers pass lengths, periods and targets as
// arguments. Each type has a fixed size, which does not depend on the length of the history, and copying a value copies the history.
//
//	Window    the greatest recommendation in a stabilization window
//	Steps     the target at the start of the period of a rate
//	Trend     whether a signal grows
//	Forecast  mean and deviation of a signal's proposals
//
// All times are in Unix milliseconds. Stamp converts a time.Time to this unit, and Time converts it back. Each type has a method Append,
// which encodes it as integers, and a method Read, which decodes them.
package history
