package trace

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// source is a seeded stream of random numbers, identical on every machine.
type source struct {
	pcg   rand.PCG
	spare float64 // the polar method makes normals in pairs
	has   bool
}

// newSource seeds a stream of its own for each (seed, name, number), so that
// cutting a slice out of a trace, or adding a client, leaves every other draw
// where it was.
func newSource(seed uint64, name string, number int64) source {
	h := fnv.New64a()
	h.Write([]byte(name)) // a hash never fails
	hi := mix(seed ^ mix(h.Sum64()))
	lo := mix(hi ^ uint64(number))
	return source{pcg: *rand.NewPCG(hi, lo)}
}

// mix is the finalizer of SplitMix64: neighbouring seeds become unrelated.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// uniform lies strictly between 0 and 1, so its logarithm is finite.
func (s *source) uniform() float64 {
	return mul(float64(s.pcg.Uint64()>>12)+0.5, 1.0/(1<<52))
}

// exponential has mean 1.
func (s *source) exponential() float64 { return -ln(s.uniform()) }

// normal has mean 0 and deviation 1 (Marsaglia's polar method).
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

// gamma has the given shape and scale 1 (Marsaglia and Tsang 2000; below shape 1
// by their boost, which may underflow to 0: arrivals then tie, as bursts do).
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

const (
	Gamma   Family = "Gamma"
	Weibull Family = "Weibull"
)

// A CV outside these bounds is no traffic: 0.001 is a metronome, and 1000 means
// that a thousand requests out of a thousand and one come in the same instant.
const (
	minCV = 0.001
	maxCV = 1000
)

// intervals draws times between arrivals with mean 1 and a given coefficient of
// variation (deviation over mean): 0 is clockwork, 1 is Poisson, above 1 bursts.
type intervals struct {
	family Family
	shape  float64 // +Inf for clockwork
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

// weibullShape solves CV^2 + 1 = G(1+2/k) / G(1+1/k)^2 for k by bisection: the
// right side falls as k grows.
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

// next is one interval.
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

// spanning is the interval that an observer finds who comes at a random instant:
// drawn with odds in proportion to its length. For Gamma that is shape+1; for
// Weibull (x/scale)^shape is Gamma with shape 1+1/k. Starting a window with it
// keeps the rate right from the first instant, where a process that starts with
// an arrival would yield (CV^2-1)/2 too many.
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
