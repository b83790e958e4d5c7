// Package trace reads, draws and generates the traffic that a policy is tried on.
//
// Three kinds of input become one: a stream of [Request] in order of time, that
// every call of [Trace.Stream] starts anew and that is the same on every machine.
//
//	request log    CSV or JSON lines, one row a request   kept in memory, 32 bytes a request
//	windowed rate  start, requests/s, CV, family          arrivals drawn, seeded, lazily
//	Prometheus     saved JSON of /api/v1/query_range      each sample is a window of its rate
//
// All may be gzipped; windowed rates may also be a tar of one CSV per client,
// as in ServeGen (arXiv:2505.09999). [Generate] makes a trace from a [Profile],
// [NewGenerator] the same without an end. [OpenSpot] reads how much spot
// capacity there was, and when it was taken away.
//
// What a file does not say stays unknown: a request without token counts has
// [UnknownTokens], and a hole in a rate is refused rather than read as silence.
// Whatever cannot be understood is refused with an [*Error] that names the file,
// the line, what stood there and what may stand there.
//
// Reproducibility. Random numbers come from PCG-DXSM of math/rand/v2, whose
// sequence is part of Go's compatibility promise. The logarithm and the
// exponential are our own (floats.go): those of package math are assembly on
// some architectures and may use fused multiply-add on others, so their last bit
// differs from machine to machine.
package trace
