package audit

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// replay replays the traffic of each workload with gpuscaler in the simulator, and adds the results to the report. Several replays run at
// the same time, one on each core. The most expensive workloads are replayed first.
func (r *Report) replay(ctx context.Context, o *Options) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if o.Budget > 0 {
		limited, cancel = context.WithTimeout(ctx, o.Budget)
	}
	defer cancel()
	failed := make([]error, len(r.Workloads))
	var finished atomic.Int64
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i := range r.Workloads {
		all.Go(func() error {
			l := &r.Workloads[i]
			announce := func(what string) {
				if o.Progress != nil {
					o.Progress(what+" "+l.Workload, float64(finished.Load())/float64(len(r.Workloads)))
				}
			}
			announce("replaying")
			defer finished.Add(1)
			if limited.Err() == nil {
				l.Forecast, failed[i] = r.snapshot.forecast(limited, l.of, o, announce)
			}
			if l.Forecast == nil && limited.Err() != nil {
				failed[i] = fmt.Errorf("%w: the time limit of %s for replays has passed", errNoForecast, o.Budget)
			}
			return ctx.Err()
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	r.sumForecasts(failed)
	return nil
}

// sumForecasts adds the sums of the forecasts to Total, and adds a Gap for each workload without a forecast. The parameter failed
// contains the reason for each such workload.
func (r *Report) sumForecasts(failed []error) {
	var cost, measured, least float64
	for i := range r.Workloads {
		l := &r.Workloads[i]
		f := l.Forecast
		if f == nil {
			r.Missing = append(r.Missing, Gap{What: "the cost of " + l.Workload + " with gpuscaler", Why: failed[i].Error(), Next: forecastNext})
			continue
		}
		if f.Measured = r.snapshot.measuredCost(l.of, r.snapshot.Steps-int(math.Round(f.Hours*3600/r.snapshot.Step))); f.Measured != nil {
			r.Total.Replayed++
			cost, measured = cost+f.Cost, measured+*f.Measured
		}
		if f.Bound != nil {
			r.Total.Bounded++
			least += *f.Bound
		}
	}
	if r.Total.Replayed > 0 {
		r.Total.Gpuscaler, r.Total.Measured = known(cost), known(measured)
	}
	if r.Total.Bounded > 0 {
		r.Total.Bound = known(least)
	}
}
