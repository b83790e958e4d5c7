// Package faults breaks what a data source says, in the ways that data sources
// break: each fault is one that an autoscaler meets in its first year.
package faults

import "sync/atomic"

// Fault is one way to be wrong.
type Fault int32

// The faults. What they mean is told for a metrics page and for Prometheus's
// answer to a query.
const (
	None      Fault = iota
	Empty           // a page without a series; a result without one
	NaN             // every value is NaN
	Inf             // every value is +Inf
	Truncated       // half of the body, then the connection ends
	Huge            // a body of HugeBytes that goes on with plausible lines
	HalfPods        // every second pod is missing
	Error           // status 500
	Hang            // the request is accepted and never answered
)

// HugeBytes is how much a Huge body holds: more than any reader should take.
const HugeBytes = 64 << 20

var names = []string{"none", "empty", "NaN", "Inf", "truncated", "huge", "half of the pods", "error", "hang"}

func (f Fault) String() string { return names[f] }

// All lists every fault but None.
func All() []Fault { return []Fault{Empty, NaN, Inf, Truncated, Huge, HalfPods, Error, Hang} }

// Switch holds the fault that is on. The zero value is None. It may be turned
// while requests are served.
type Switch struct{ on atomic.Int32 }

// Set turns f on in place of what was on.
func (s *Switch) Set(f Fault) { s.on.Store(int32(f)) }

// Get returns the fault that is on.
func (s *Switch) Get() Fault { return Fault(s.on.Load()) }
