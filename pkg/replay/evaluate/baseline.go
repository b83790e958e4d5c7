package evaluate

import (
	"context"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
)

// rivalRuns is what a policy with eight knobs takes: who has fewer is searched no less, or the comparison would flatter us.
const baselineRuns = 8 * evolutionRunsPerKnob

// tuneRival searches a rival's knobs on the case's own traffic: from its defaults, and from the most generous setting of each.
func (c *Case) tuneBaseline(ctx context.Context, r simulator.Baseline, progress func(runs, of int, best Run)) (Tried, int, error) {
	withoutSeries := c.withoutSeries()
	defaults, generous := make([]float64, len(r.Knobs)), make([]float64, len(r.Knobs))
	s := Search{Share: c.SLO.Share, Progress: progress, Least: baselineRuns, Play: func(ctx context.Context, values []float64) (Run, error) {
		return withoutSeries.alone().run(ctx, actuatorFactories{r.NewActuator(c.bounds(), values)}, nil)
	}}
	for i, k := range r.Knobs {
		s.Tries = append(s.Tries, k.Tries)
		defaults[i], generous[i] = k.Default, k.Tries[0]
	}
	best, err := s.Climb(ctx, defaults, generous)
	return best, len(s.order), err
}
