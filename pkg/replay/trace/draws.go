package trace

// Draws is a seeded stream of random numbers for a simulation. It is the same on every machine and independent of the streams of other
// purposes. It is not safe for concurrent use.
type Draws struct{ src source }

// NewDraws returns the stream of a purpose, for example "model load team/chat". A new purpose does not change the numbers of other streams.
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
