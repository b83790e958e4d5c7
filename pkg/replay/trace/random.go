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

// newSource returns a separate stream for each (seed, name, number), so that a slice of a trace or a new client does not change the other
// random numbers.
func newSource(seed uint64, name string, number int64) source {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	hi := mix(seed ^ mix(h.Sum64()))
	lo := mix(hi ^ uint64(number))
	return source{pcg: *rand.NewPCG(hi, lo)}
}

// mix is the finalizer of SplitMix64, which makes streams of similar seeds independent.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// uniform returns a number between 0 and 1 without both limits, so that its logarithm is finite.
func (s *source) uniform() float64 {
	return mul(float64(s.pcg.Uint64()>>12)+0.5, 1.0/(1<<52))
}

// exponential returns a number with mean 1.
func (s *source) exponential() float64 { return -ln(s.uniform()) }

// normal returns a number with mean 0 and standard deviation 1 (polar method of Marsaglia).
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

// gamma returns a number of the gamma distribution with scale 1 (Marsaglia and Tsang 2000; below shape 1 with their boost, which may
// underflow to 0: several arrivals then have the same time).
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

// A CV outside these limits is not realistic traffic: with 0.001 arrivals are evenly spaced, with 1000 almost all are at the same time.
const (
	minCV = 0.001
	maxCV = 1000
)

// intervals draws times between arrivals with mean 1 and a coefficient of variation (standard deviation / mean): 0 is constant, 1 is
// Poisson, above 1 has bursts.
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

// spanning returns the interval at a random time. Long intervals are more likely than short ones, in proportion to their length: for Gamma
// that is shape+1; for Weibull, (x/scale)^shape is Gamma with shape 1+1/k. A window that starts with it has the correct rate from its
// start; a process that starts with an arrival would have (CV^2-1)/2 arrivals too many.
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
