package reproducible

import "math"

// Family is a distribution of the time between two arrivals.
type Family string

// Values of Family.
const (
	Gamma   Family = "Gamma"
	Weibull Family = "Weibull"
)

// Known reports whether f is one of the values of Family.
func (f Family) Known() bool { return f == Gamma || f == Weibull }

// MinCV and MaxCV limit the coefficient of variation (CV) of a trace. Traffic beyond them is not realistic: with 0.001, arrivals are
// evenly spaced; with 1000, almost all arrive at the same time.
const (
	MinCV = 0.001
	MaxCV = 1000
)

// Intervals draws times between arrivals. Their mean is 1. Their coefficient of variation (standard deviation / mean) is 0 for constant
// intervals, 1 for a Poisson process, and above 1 for bursty traffic.
type Intervals struct {
	family Family
	shape  float64 // shape of the distribution; +Inf for constant intervals
	scale  float64
}

// NewIntervals returns the intervals of a family with a coefficient of variation. A cv below MinCV means constant intervals.
func NewIntervals(family Family, cv float64) Intervals {
	switch {
	case cv < MinCV:
		return Intervals{family: Gamma, shape: math.Inf(1)}
	case family == Weibull:
		k := weibullShape(cv)
		return Intervals{family: Weibull, shape: k, scale: exp(-lnGamma(1 + 1/k))}
	default:
		shape := 1 / Mul(cv, cv)
		return Intervals{family: Gamma, shape: shape, scale: 1 / shape}
	}
}

// weibullShape returns the shape k for which CV^2 + 1 = G(1+2/k) / G(1+1/k)^2, where G is the gamma function. It uses bisection, because
// the right side decreases with k.
func weibullShape(cv float64) float64 {
	want := ln(Mul(cv, cv) + 1)
	lo, hi := 0.05, 2000.0
	for range 60 {
		k := (lo + hi) / 2
		if lnGamma(1+2/k)-2*lnGamma(1+1/k) > want {
			lo = k
		} else {
			hi = k
		}
	}
	return (lo + hi) / 2
}

// Next draws the next interval with random numbers from s.
func (iv Intervals) Next(s *Draws) float64 {
	switch {
	case math.IsInf(iv.shape, 1):
		return 1
	case iv.family == Weibull:
		return Mul(iv.scale, exp(ln(s.Exponential())/iv.shape))
	default:
		return Mul(iv.scale, s.Gamma(iv.shape))
	}
}

// Spanning returns the length of the interval that contains a randomly chosen time. The probability that an interval contains this time is
// proportional to the length of the interval. For Gamma, the result has a Gamma distribution with shape+1; for Weibull, (x/scale)^shape has
// a Gamma distribution with shape 1+1/k.
//
// If the start of a window is a random time within such an interval, the window has the correct rate from its start. If a window starts
// with an arrival instead, it has on average (CV^2-1)/2 arrivals too many.
func (iv Intervals) Spanning(s *Draws) float64 {
	switch {
	case math.IsInf(iv.shape, 1):
		return 1
	case iv.family == Weibull:
		return Mul(iv.scale, exp(ln(s.Gamma(1+1/iv.shape))/iv.shape))
	default:
		return Mul(iv.scale, s.Gamma(iv.shape+1))
	}
}
