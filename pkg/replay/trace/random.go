package trace

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// source is a seeded stream of random numbers, identical on every machine.
type source struct {
	pcg   rand.PCG
	spare float64 // the polar method returns two numbers
	has   bool
}

// newSource returns the random numbers for one combination of seed, name and number, for example of one client and one window. Reading only
// a part of the trace, or adding a client, does not change the numbers of the other clients and windows.
func newSource(seed uint64, name string, number int64) source {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	hi := mix(seed ^ mix(h.Sum64()))
	lo := mix(hi ^ uint64(number))
	return source{pcg: *rand.NewPCG(hi, lo)}
}

// mix returns a hash of z (the finalizer of SplitMix64). Without it, similar seeds would give similar streams.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// uniform returns a number greater than 0 and less than 1. It is never 0, so its logarithm is finite.
func (s *source) uniform() float64 {
	return mul(float64(s.pcg.Uint64()>>12)+0.5, 1.0/(1<<52))
}

// exponential returns a number with mean 1.
func (s *source) exponential() float64 { return -ln(s.uniform()) }

// normal returns a number from the normal distribution with mean 0 and standard deviation 1. It uses the polar method of Marsaglia.
func (s *source) normal() float64 {
	if s.has {
		s.has = false
		return s.spare
	}
	for {
		u, v := 2*s.uniform()-1, 2*s.uniform()-1
		r := mul(u, u) + mul(v, v)
		if r >= 1 || r == 0 {
			continue
		}
		f := math.Sqrt(-2 * ln(r) / r)
		s.spare, s.has = mul(v, f), true
		return mul(u, f)
	}
}

// gamma returns a number from the gamma distribution with scale 1 (method of Marsaglia and Tsang, 2000). For a shape below 1 it uses their
// transformation from shape+1, whose result may underflow to 0: several arrivals then have the same time.
func (s *source) gamma(shape float64) float64 {
	if shape == 1 {
		return s.exponential()
	}
	if shape < 1 {
		return mul(s.gamma(shape+1), exp(ln(s.uniform())/shape))
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := s.normal()
		v := 1 + mul(c, x)
		if v <= 0 {
			continue
		}
		v = mul(v, mul(v, v))
		if ln(s.uniform()) < mul(0.5, mul(x, x))+d-mul(d, v)+mul(d, ln(v)) {
			return mul(d, v)
		}
	}
}

// Family is a distribution of the time between two arrivals.
type Family string

// Values of Family.
const (
	Gamma   Family = "Gamma"
	Weibull Family = "Weibull"
)

// minCV and maxCV limit the CV of a trace. Traffic beyond them is not realistic: with 0.001, arrivals are evenly spaced; with 1000, almost
// all arrive at the same time.
const (
	minCV = 0.001
	maxCV = 1000
)

// intervals draws times between arrivals. Their mean is 1. Their coefficient of variation (standard deviation / mean) is 0 for constant
// intervals, 1 for a Poisson process, and above 1 for bursty traffic.
type intervals struct {
	family Family
	shape  float64 // +Inf for constant intervals
	scale  float64
}

func newIntervals(family Family, cv float64) intervals {
	switch {
	case cv < minCV:
		return intervals{family: Gamma, shape: math.Inf(1)}
	case family == Weibull:
		k := weibullShape(cv)
		return intervals{family: Weibull, shape: k, scale: exp(-lnGamma(1 + 1/k))}
	default:
		shape := 1 / mul(cv, cv)
		return intervals{family: Gamma, shape: shape, scale: 1 / shape}
	}
}

// weibullShape solves CV^2 + 1 = G(1+2/k) / G(1+1/k)^2 for k by bisection. The right side decreases with k.
func weibullShape(cv float64) float64 {
	want := ln(mul(cv, cv) + 1)
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

// next returns one interval.
func (iv intervals) next(s *source) float64 {
	switch {
	case math.IsInf(iv.shape, 1):
		return 1
	case iv.family == Weibull:
		return mul(iv.scale, exp(ln(s.exponential())/iv.shape))
	default:
		return mul(iv.scale, s.gamma(iv.shape))
	}
}

// spanning returns the length of the interval that contains a random time. A long interval contains it more often than a short one, in
// proportion to the length. For Gamma, that is a Gamma distribution with shape+1; for Weibull, (x/scale)^shape is Gamma with shape 1+1/k. A
// window that begins within such an interval has the correct rate from its start. A process that starts with an arrival would have
// (CV^2-1)/2 arrivals too many.
func (iv intervals) spanning(s *source) float64 {
	switch {
	case math.IsInf(iv.shape, 1):
		return 1
	case iv.family == Weibull:
		return mul(iv.scale, exp(ln(s.gamma(1+1/iv.shape))/iv.shape))
	default:
		return mul(iv.scale, s.gamma(iv.shape+1))
	}
}
