package history

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A greater proposal must not result in a smaller forecast. The forecast may exceed the greatest proposal, but not by more than the
// deviations that a single rise from 0 to this proposal causes.
func TestForecastIsMonotoneAndBoundedByDemand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		over := Averages{Mean: int64(rapid.IntRange(1, 7200).Draw(t, "window")) * 1000,
			Level: rapid.SampledFrom([]int64{15_000, 30_000}).Draw(t, "level")}
		deviations := rapid.Float64Range(0, 10).Draw(t, "deviations")
		var less, more Forecast
		most := 0.0
		for i := range rapid.IntRange(1, 60).Draw(t, "ticks") {
			ask := rapid.Float64Range(0, 100).Draw(t, "ask")
			plus := rapid.Float64Range(0, 100).Draw(t, "more")
			elapsed := int64(rapid.IntRange(0, 600_000).Draw(t, "elapsed"))
			if i == 0 {
				less, more = StartForecast(ask), StartForecast(ask+plus)
			}
			// From the same state, a greater proposal must result in at least the same number of replicas.
			if a, b := less.Next(ask, elapsed, over), less.Next(ask+plus, elapsed, over); b.Upper(deviations) < a.Upper(deviations)-1e-9 {
				t.Fatalf("a proposal of %v keeps %v, and a proposal of %v keeps %v", ask, a.Upper(deviations), ask+plus, b.Upper(deviations))
			}
			less, more = less.Next(ask, elapsed, over), more.Next(ask+plus, elapsed, over)
			most = max(most, ask+plus)
			if kept := more.Upper(deviations); !(kept >= 0) || kept > most*(1+deviations*math.Sqrt2)+1e-6 {
				t.Fatalf("the forecast keeps %v, want at most %v", kept, most)
			}
		}
	})
}
