package trace

// Draws is a seeded stream of random numbers for a simulation beside a trace: the same on every machine, and independent of
// every stream with another purpose. One goroutine at a time.
type Draws struct{ src source }

// NewDraws starts the stream of a purpose ("model load team/chat"): adding another purpose moves no number of this one.
func NewDraws(seed uint64, purpose string) *Draws {
	return &Draws{src: newSource(seed, purpose, 0)}
}

// Uniform lies strictly between 0 and 1.
func (d *Draws) Uniform() float64 { return d.src.uniform() }

// Below is a whole number in 0..n-1, all equally likely; n must be positive.
func (d *Draws) Below(n int) int { return min(int(mul(d.src.uniform(), float64(n))), n-1) }

// LogNormal has median 1; sigma is the deviation of its logarithm, and 0 draws 1 every time.
func (d *Draws) LogNormal(sigma float64) float64 {
	if sigma == 0 {
		return 1
	}
	return exp(mul(sigma, d.src.normal()))
}
