package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/lowerbound"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
)

// boundSlot is the length of a time slot of the lower bound. The time of the run is rounded down to a multiple of it.
const boundSlot = time.Minute

// LeastCost returns a lower bound of the cost in $ of the run so far, for every way to scale that meets the SLO of each workload. It is the
// price of the GPU time that the requests need if every replica is always full and every node has the lowest price of the workload's
// NodePools. It does not include starts, so the cost of every autoscaler is higher. LeastCost must not be called during Run.
func (d *Demo) LeastCost(ctx context.Context) (float64, error) {
	config, err := scenario(d.options)
	if err != nil {
		return 0, err
	}
	horizon := d.simulator.Now().Truncate(boundSlot)
	sum := 0.0
	for i := range config.Workloads {
		least, err := leastCost(ctx, &config, &config.Workloads[i], horizon)
		if err != nil {
			return 0, fmt.Errorf("bound of %s: %w", config.Workloads[i].Policy.Workload.Key, err)
		}
		sum += least
	}
	return sum, nil
}

// leastCost returns the lower bound of the cost in $ of one workload.
func leastCost(ctx context.Context, config *simulator.Config, w *simulator.Workload, horizon time.Duration) (float64, error) {
	var requests []lowerbound.Request
	if w.Traffic != nil {
		for r := range w.Traffic.All() {
			if r.At >= horizon {
				break
			}
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			takes := w.Service.Takes(r)
			requests = append(requests, lowerbound.Request{At: r.At, Work: takes / time.Duration(w.Service.Slots), Service: takes})
		}
	}
	if len(requests) == 0 {
		return 0, nil
	}
	work, err := lowerbound.Work(requests, lowerbound.Setup{
		TimeSlot: boundSlot, Horizon: horizon, Wait: w.SLO, LateShare: 1 - slo, MaxReplicas: int(w.Policy.Workload.Policy.MaxReplicas),
		HourlyPrice: lowestPrice(config, w.Pools),
	})
	return work.LB, err
}

// lowestPrice returns the lowest price per hour of a GPU in the named NodePools.
func lowestPrice(config *simulator.Config, names []string) (lowest float64) {
	for i := range config.NodePools {
		p := &config.NodePools[i]
		for _, name := range names {
			if hourly := p.Hourly / float64(max(1, p.GPUs)); p.Name == name && (lowest == 0 || hourly < lowest) {
				lowest = hourly
			}
		}
	}
	return lowest
}
