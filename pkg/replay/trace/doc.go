// Package trace reads and generates the traffic with which a policy is simulated.
//
// Three kinds of input become a stream of [Request] in the order of time. Every call of [Trace.Stream] starts at the beginning and returns
// the same requests on every machine.
//
//	request log    CSV or JSON lines, one row per request   in memory, 40 bytes per request
//	windowed rate  start, requests/s, CV, family            arrivals are drawn from a seed as they are read
//	Prometheus     saved JSON of /api/v1/query_range        each sample is the rate of a window
//
// CV is the coefficient of variation of the time between arrivals, and family its distribution. Each input can be compressed with gzip.
// Windowed rates can also be a tar archive with one CSV per client, as in ServeGen (arXiv:2505.09999). [Generate] returns a trace of a
// [Profile], and [NewGenerator] returns traffic of a Profile that does not end. [OpenSpot] reads a trace of the available spot capacity.
//
// Unknown values are not guessed: a request without token counts has [UnknownTokens], one without a service time has 0, and a gap in a
// rate of more than five minutes is an error unless [Gaps] sets the rate to use. A file that cannot be read is an [*Error] with
// the file, the line, the found text and the allowed forms.
//
// Random numbers and arithmetic are from package reproducible, so that a seed gives the same requests on every machine.
package trace
