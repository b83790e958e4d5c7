package evaluate

import (
	"context"
	"sync"

	"github.com/gpuscaler/gpuscaler/pkg/replay/search"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
)

// baselineRuns is the number of runs that the search of a policy with eight knobs takes. A baseline with fewer knobs gets the
// same number, so that the comparison does not favor gpuscaler.
const baselineRuns = 8 * search.RunsPerKnob

// scaled converts the knobs of a baseline to the service of the case. The baseline defines Default and Tries of its knobs for the service
// Chat8B. The conversion uses the service times of the requests in the train part.
func (c *Case) scaled(r baseline.Baseline) baseline.Baseline {
	reference := simulator.Chat8B
	reference.IgnoreRecorded = true // the recorded service times were measured with the case's service and not with Chat8B
	rate := 1.0
	c = c.trainPart()
	served, _ := c.perReplica(c.Traffic.Duration)
	if chat, _ := c.perReplicaOf(&reference, c.Traffic.Duration); served > 0 && chat > 0 {
		rate = served / chat
	}
	return r.ScaledTo(float64(max(1, c.Service.Slots))/float64(simulator.Chat8B.Slots), rate)
}

// tuneBaseline searches the best settings of a baseline on the train part of the case. It starts at the defaults and at the setting with
// the first value in Tries of each knob, which gives the most replicas.
func (c *Case) tuneBaseline(ctx context.Context, r baseline.Baseline, progress func(runs, of int, best Run)) (best search.Tried[Run],
	runs int, err error) {
	withoutSeries, r := c.trainPart().withoutSeries(), c.scaled(r)
	defaults, generous := make([]float64, len(r.Knobs)), make([]float64, len(r.Knobs))
	s := search.Search[Run]{Share: c.SLO.Share, Progress: progress, Least: baselineRuns}
	s.Play = func(ctx context.Context, values []float64) (Run, error) {
		return withoutSeries.alone().run(ctx, actuatorFactories{r.NewActuator(c.bounds(), values)}, nil)
	}
	if r.Fixed != nil {
		s.Play = onceFor(func(values []float64) int32 { return r.Fixed(c.bounds(), values) }, s.Play)
	}
	for i, k := range r.Knobs {
		s.Tries = append(s.Tries, k.Tries)
		defaults[i], generous[i] = k.Default, k.Tries[0]
	}
	best, err = s.Climb(ctx, defaults, generous)
	return best, s.Runs(), err
}

// playFunc runs the case once with the given settings of the knobs.
type playFunc func(ctx context.Context, settings []float64) (Run, error)

// onceFor returns a function that calls play and stores the result. Settings for which the function replicas returns the same number share
// one call of play.
func onceFor(replicas func([]float64) int32, play playFunc) playFunc {
	var mu sync.Mutex
	runs := map[int32]func() (Run, error){}
	return func(ctx context.Context, values []float64) (Run, error) {
		n := replicas(values)
		mu.Lock()
		if runs[n] == nil {
			runs[n] = sync.OnceValues(func() (Run, error) { return play(ctx, values) })
		}
		run := runs[n]
		mu.Unlock()
		return run()
	}
}
