package decisions

import (
	"math"
	"testing"
)

// TestIntervalCountsSeedsAndNotCells repeats the cells of each seed, which adds no information about other seeds.
func TestIntervalCountsSeedsAndNotCells(t *testing.T) {
	var b bySeed
	for seed, value := range map[uint64]float64{1: 1, 2: 2, 3: 3} {
		for range 10 * seed {
			b.add(seed, value)
		}
	}
	// The standard error of the mean of 1, 2 and 3 is 1/sqrt(3), and the quantile for two degrees of freedom is 2.92.
	mean, low, high := b.interval()
	if half := 2.92 / math.Sqrt(3); mean != 2 || math.Abs(2-half-low) > 1e-9 || math.Abs(2+half-high) > 1e-9 {
		t.Errorf("%v, want 2 (%.2f to %.2f)", b, 2-half, 2+half)
	}
}

func TestOneSeedHasNoInterval(t *testing.T) {
	var b bySeed
	b.add(7, 1.5)
	if mean, low, high := b.interval(); mean != 1.5 || !math.IsInf(low, -1) || !math.IsInf(high, 1) {
		t.Errorf("%v, want 1.5 without limits", b)
	}
}
