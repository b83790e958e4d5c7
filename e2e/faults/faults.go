// Package faults simulates failures of data sources and of network connections.
package faults

import (
	"sync/atomic"
	"time"
)

// Fault is a kind of failure of a metrics page or of Prometheus' response to a query.
type Fault int32

// Failures of a metrics page, and of Prometheus' response to a query.
const (
	None      Fault = iota
	Empty           // a page without series, or a result without series
	NaN             // every value is NaN
	Inf             // every value is +Inf
	Truncated       // the connection ends after the first half of the body
	Huge            // a body of HugeBytes, filled with plausible lines
	HalfPods        // every second pod is missing
	Error           // status 500
	Hang            // no response to an accepted request
)

// Failures of Prometheus' response to a query only.
const (
	HTML         Fault = iota + Hang + 1
	Unauthorized       // status 401, as after the expiry of a token
	TooMany            // status 429 with Retry-After
	Unavailable        // status 503 with a page in HTML, as from a load balancer without a server
	Redirect           // status 302 to a page in HTML
	Failure            // status 200 with a body that reports an error
	Scalar             // a scalar instead of a vector
	Stale              // every sample is ten minutes old
	Future             // every sample is ten minutes ahead
	ClockBehind        // the Date header and every sample are ten minutes behind
	ClockAhead         // the Date header and every sample are ten minutes ahead
	Duplicate          // every series is returned twice
	Relabeled          // every label of every series has another value
	Flapping           // every second query has the status 500
	Slow               // each response takes SlowBy longer
)

// SlowBy is the additional duration of each response with the fault Slow. It exceeds KEDA's default timeout of 3 s.
const SlowBy = 8 * time.Second

// HugeBytes is the size of the response with the fault Huge. It exceeds the maximum response size of every client under test.
const HugeBytes = 64 << 20

var names = []string{"none", "empty", "NaN", "Inf", "truncated", "huge", "half of the pods", "error", "hang",
	"HTML", "unauthorized", "too many requests", "unavailable", "redirect", "failure", "scalar", "stale", "future",
	"clock behind", "clock ahead", "duplicate", "relabeled", "flapping", "slow"}

func (f Fault) String() string { return names[f] }

// All returns every fault that applies both to a metrics page and to Prometheus' response to a query. It does not contain None.
func All() []Fault { return []Fault{Empty, NaN, Inf, Truncated, Huge, HalfPods, Error, Hang} }

// Switch contains the current fault, initially None. The fault may be changed while requests are served.
type Switch struct{ on atomic.Int32 }

// Set replaces the current fault by f.
func (s *Switch) Set(f Fault) { s.on.Store(int32(f)) }

// Get returns the current fault.
func (s *Switch) Get() Fault { return Fault(s.on.Load()) }
