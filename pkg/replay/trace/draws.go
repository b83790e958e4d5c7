package trace

// Draws is a seeded stream of random numbers for one purpose in a simulation. The stream is the same on every machine and does not depend
// on the streams of other purposes. Draws is not safe for concurrent use.
type Draws struct{ src source }

// NewDraws returns the stream of random numbers for a seed and a purpose, for example "model load team/chat". Streams of other purposes do
// not change when a simulation adds a purpose.
func NewDraws(seed uint64, purpose string) *Draws {
	return &Draws{src: newSource(seed, purpose, 0)}
}

// Uniform returns a number between 0 and 1, without both limits.
func (d *Draws) Uniform() float64 { return d.src.uniform() }

// Below returns an integer from 0 to n-1 with equal probabilities. n must be positive.
func (d *Draws) Below(n int) int { return min(int(mul(d.src.uniform(), float64(n))), n-1) }

// LogNormal returns a number with median 1. sigma is the standard deviation of its logarithm; with 0 the result is 1.
func (d *Draws) LogNormal(sigma float64) float64 {
	if sigma == 0 {
		return 1
	}
	return exp(mul(sigma, d.src.normal()))
}
