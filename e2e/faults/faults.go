// Package faults simulates failures of data sources that an autoscaler meets in production.
package faults

import "sync/atomic"

// Fault is a kind of failure of a metrics page or of Prometheus' response to a query.
type Fault int32

// These are the kinds of failures. Each applies to a metrics page or to Prometheus' response to a query.
const (
	None      Fault = iota
	Empty           // a page without series, or a result without series
	NaN             // every value is NaN
	Inf             // every value is +Inf
	Truncated       // the first half of the body, and then the end of the connection
	Huge            // a body of HugeBytes, filled with plausible lines
	HalfPods        // every second pod is missing
	Error           // status 500
	Hang            // no response to an accepted request
)

// HugeBytes is the size of the response with the fault Huge. It exceeds the maximum response size of every client under test.
const HugeBytes = 64 << 20

var names = []string{"none", "empty", "NaN", "Inf", "truncated", "huge", "half of the pods", "error", "hang"}

func (f Fault) String() string { return names[f] }

// All lists every fault but None.
func All() []Fault { return []Fault{Empty, NaN, Inf, Truncated, Huge, HalfPods, Error, Hang} }

// Switch contains the current fault, initially None. It may be changed while requests are served.
type Switch struct{ on atomic.Int32 }

// Set replaces the current fault by f.
func (s *Switch) Set(f Fault) { s.on.Store(int32(f)) }

// Get returns the current fault.
func (s *Switch) Get() Fault { return Fault(s.on.Load()) }
