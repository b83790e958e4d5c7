package reproducible

import (
	"fmt"
	"time"
)

// Spread is a random duration. It is log-normal with the given median, and at least Min. If Sigma is 0, it is not random: it is Median, or
// Min if Min is greater.
type Spread struct {
	Median, Min time.Duration
	Sigma       float64 // standard deviation of the logarithm
}

// Fixed returns a Spread that is always d.
func Fixed(d time.Duration) Spread { return Spread{Median: d} }

// Draw returns a duration in whole milliseconds, drawn with random numbers from d.
func (s Spread) Draw(d *Draws) time.Duration {
	v := time.Duration(float64(float64(s.Median) * d.LogNormal(s.Sigma)))
	return max(v, s.Min).Truncate(time.Millisecond)
}

func (s Spread) String() string {
	if s.Sigma == 0 {
		return s.Median.String()
	}
	return fmt.Sprintf("log-normal, median %s, sigma %g", s.Median, s.Sigma)
}
