// Package trace represents and generates the traffic with which a policy is simulated: a stream of [Request] in the order of time. Every
// call of [Trace.Stream] starts at the beginning and returns the same requests on every machine.
//
// A [Trace] has one of three kinds:
//
//	log        recorded requests, one by one                in memory, 40 bytes per request
//	rates      requests/s, CV and family of each window     arrivals are drawn from a seed as they are read
//	generated  the requests of a [Profile]                  drawn from a seed as they are read
//
// CV is the coefficient of variation of the time between arrivals, and family its distribution. Package tracefile reads logs and rates from
// files. [Generate] returns a trace of a Profile. [Summarize] describes a trace for a user.
//
// Unknown values are not guessed: a request without token counts has [UnknownTokens], and one without a service time has 0.
//
// Random numbers and arithmetic are from package reproducible, so that a seed gives the same requests on every machine.
package trace
