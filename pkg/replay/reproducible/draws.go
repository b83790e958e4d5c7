package reproducible

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// Draws is a seeded stream of random numbers for one purpose. The stream is the same on every machine and does not depend on the streams of
// other purposes. Draws is not safe for concurrent use.
type Draws struct {
	pcg   rand.PCG
	spare float64 // the second result of the polar method, for the next call of Normal
	has   bool
}

// NewDraws returns the random numbers for a seed and a purpose, for example "model load team/chat".
func NewDraws(seed uint64, purpose string) *Draws {
	d := Numbered(seed, purpose, 0)
	return &d
}

// Numbered returns the random numbers for one combination of seed, purpose and number, for example of one client and one window. Reading
// only a part of a trace, or adding a client, does not change the numbers of the other clients and windows.
func Numbered(seed uint64, purpose string, number int64) Draws {
	h := fnv.New64a()
	h.Write([]byte(purpose)) // never returns an error
	hi := mix(seed ^ mix(h.Sum64()))
	lo := mix(hi ^ uint64(number))
	return Draws{pcg: *rand.NewPCG(hi, lo)}
}

// mix returns a hash of z (the finalizer of SplitMix64). Because seeds are hashed, similar seeds do not give similar streams.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Uniform returns a number greater than 0 and less than 1. It is never 0, so its logarithm is finite.
func (s *Draws) Uniform() float64 {
	return Mul(float64(s.pcg.Uint64()>>12)+0.5, 1.0/(1<<52))
}

// Exponential returns a number with mean 1.
func (s *Draws) Exponential() float64 { return -ln(s.Uniform()) }

// Normal returns a number from the normal distribution with mean 0 and standard deviation 1. It uses the polar method of Marsaglia.
func (s *Draws) Normal() float64 {
	if s.has {
		s.has = false
		return s.spare
	}
	for {
		u, v := 2*s.Uniform()-1, 2*s.Uniform()-1
		r := Mul(u, u) + Mul(v, v)
		if r >= 1 || r == 0 {
			continue
		}
		f := math.Sqrt(-2 * ln(r) / r)
		s.spare, s.has = Mul(v, f), true
		return Mul(u, f)
	}
}

// Gamma returns a number from the gamma distribution with scale 1 (method of Marsaglia and Tsang, 2000). For a shape below 1 it uses their
// transformation from shape+1. For a shape below 1, the result may underflow to 0; several arrivals then have the same time.
func (s *Draws) Gamma(shape float64) float64 {
	if shape == 1 {
		return s.Exponential()
	}
	if shape < 1 {
		return Mul(s.Gamma(shape+1), exp(ln(s.Uniform())/shape))
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := s.Normal()
		v := 1 + Mul(c, x)
		if v <= 0 {
			continue
		}
		v = Mul(v, Mul(v, v))
		if ln(s.Uniform()) < Mul(0.5, Mul(x, x))+d-Mul(d, v)+Mul(d, ln(v)) {
			return Mul(d, v)
		}
	}
}

// Below returns an integer from 0 to n-1 with equal probabilities. n must be positive.
func (s *Draws) Below(n int) int { return min(int(Mul(s.Uniform(), float64(n))), n-1) }

// LogNormal returns a number with median 1. sigma is the standard deviation of its logarithm; with 0 the result is 1.
func (s *Draws) LogNormal(sigma float64) float64 {
	if sigma == 0 {
		return 1
	}
	return exp(Mul(sigma, s.Normal()))
}

// LogNormalWithMean returns a number from the log-normal distribution with the given mean, which must be positive. sigma is the standard
// deviation of the logarithm. The mean of the logarithm, mu, follows from mean = exp(mu + sigma^2/2).
func (s *Draws) LogNormalWithMean(mean, sigma float64) float64 {
	return exp(ln(mean) - Mul(0.5, Mul(sigma, sigma)) + Mul(sigma, s.Normal()))
}
