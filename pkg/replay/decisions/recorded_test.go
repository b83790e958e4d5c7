package decisions

import (
	"math"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// Arrivals that are drawn with a coefficient of variation have this coefficient again. Regular arrivals count as independent.
func TestVariationOfDrawnArrivals(t *testing.T) {
	base := constant(2*day, 2)
	for _, cv := range []float64{1, 2, 3} {
		if got := variation(arrivals(reproducible.NewDraws(1, "variation"), base, cv), base); math.Abs(got-cv) > 0.15*cv {
			t.Errorf("%.2f, want %v", got, cv)
		}
	}
	if got := variation(constant(day, 2*SlotSeconds), constant(day, 2)); got != 1 {
		t.Errorf("regular arrivals: %v, want 1", got)
	}
}
