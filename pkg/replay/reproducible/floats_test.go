package reproducible

import (
	"math"
	"testing"
)

func TestThreeDigits(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 0.07000000000000001: 0.07, 5.4321: 5.43, 1.125: 1.12, 98765: 98800, -2.346: -2.35,
		math.Inf(1): math.Inf(1)} {
		if got := ThreeDigits(v); got != want {
			t.Errorf("ThreeDigits(%v) = %v, want %v", v, got, want)
		}
	}
	if !math.IsNaN(ThreeDigits(math.NaN())) {
		t.Error("NaN became a number")
	}
}
