package confidence

import (
	"math"
	"testing"
)

// The test repeats the values within each group. Repeated values contain no information about other groups, so the interval must not become
// shorter.
func TestIntervalCountsGroupsAndNotValues(t *testing.T) {
	var g Groups
	for group, value := range map[uint64]float64{1: 1, 2: 2, 3: 3} {
		for range 10 * group {
			g.Add(group, value)
		}
	}
	// The standard error of the mean of 1, 2 and 3 is 1/sqrt(3), and the quantile for two degrees of freedom is 2.92.
	half := 2.92 / math.Sqrt(3)
	if i := g.Interval(); i.Mean != 2 || math.Abs(2-half-i.Low) > 1e-9 || math.Abs(2+half-i.High) > 1e-9 || math.Abs(*i.Half-half) > 1e-9 {
		t.Errorf("%v, want 2 (%.2f to %.2f)", g, 2-half, 2+half)
	}
}

func TestOneGroupHasNoInterval(t *testing.T) {
	var g Groups
	g.Add(7, 1.5)
	if i := g.Interval(); i.Mean != 1.5 || !math.IsInf(i.Low, -1) || !math.IsInf(i.High, 1) || i.Half != nil {
		t.Errorf("%v, want 1.5 without limits", g)
	}
	if i := (Groups{}).Interval(); !math.IsNaN(i.Mean) {
		t.Errorf("without a group: %v", i)
	}
}
