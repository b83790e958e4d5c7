package decisions

import (
	"math"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// The episode must have the load of the published protocol. With the greatest number of replicas every request is on time, as published.
// With the smallest number, which serves 4.35 requests/s, most requests of the load of 10 requests/s are late. The model must serve a
// greater share on time than the published autoscaler, with fewer replicas.
func TestPublishedEpisode(t *testing.T) {
	requests, from, length := llmd.draw(1)
	var scored int
	for _, r := range requests {
		if r.at >= from {
			scored++
		}
	}
	if mean := 2*330 + (4+6+8+10+4)*360 + 300; float64(scored) < 0.95*float64(mean) || float64(scored) > 1.05*float64(mean) ||
		length-from != 3030 {
		t.Errorf("%d requests in %v s, want about %d in 3030 s", scored, length-from, mean)
	}
	fixed := func(n int32) func(time.Time, *objective.Evidence) int32 {
		return func(time.Time, *objective.Evidence) int32 { return n }
	}
	most, least := llmd.run(1, fixed(llmd.limits.Max)), llmd.run(1, fixed(llmd.limits.Min))
	if most.lateShare() > 0.001 || math.Abs(most.Cost-8) > 1e-6 || least.lateShare() < 0.3 || math.Abs(least.Cost-3) > 1e-6 {
		t.Errorf("8 replicas: %+v, 3 replicas: %+v", most, least)
	}
	if got := llmd.learned(1, 96, objective.DefaultTuning()); 1-got.lateShare() < llmd.published || got.Cost > llmd.publishedMean {
		t.Errorf("%.1f%% on time with %.2f replicas, published: %.1f%% with %.2f", 100*(1-got.lateShare()), got.Cost, 100*llmd.published,
			llmd.publishedMean)
	}
}
