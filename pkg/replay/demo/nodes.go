package demo

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// Prices in us-east-1, 2026-07; spot prices are estimated from the Spot Advisor.
const (
	l40sHourly, l40sSpotHourly = 1.861, 0.78 // g6e.xlarge
	a10gHourly, a10gSpotHourly = 1.006, 0.41 // g5.xlarge
)

// pools returns four NodePools: spot and on-demand for each of two GPU types. Spot has the higher weight, and on-demand is used while spot
// has no capacity.
func pools(seed uint64) []karpenter.NodePool {
	budgets := []karpenter.Budget{{Percent: 50}}
	pool := func(name, instance, capacity string, weight int32, hourly float64) karpenter.NodePool {
		p := karpenter.NodePool{Name: name, CapacityType: capacity, InstanceType: instance, GPUs: 1, Hourly: hourly, Weight: weight,
			ConsolidateAfter: 3 * time.Minute, OnlyWhenEmpty: capacity == karpenter.Spot, Budgets: budgets}
		if capacity == karpenter.Spot {
			p.Market = market(name, seed)
		}
		return p
	}
	return []karpenter.NodePool{
		pool("l40s-spot", "g6e.xlarge", karpenter.Spot, 80, l40sSpotHourly),
		pool("l40s-ondemand", "g6e.xlarge", karpenter.OnDemand, 20, l40sHourly),
		pool("a10g-spot", "g5.xlarge", karpenter.Spot, 80, a10gSpotHourly),
		pool("a10g-ondemand", "g5.xlarge", karpenter.OnDemand, 20, a10gHourly),
	}
}

// poolsOf returns the names of the NodePools on which a workload may run.
func poolsOf(name string) []string {
	if name == "llama-chat" {
		return []string{"l40s-spot", "l40s-ondemand"}
	}
	return []string{"a10g-spot", "a10g-ondemand"}
}

// market returns the spot capacity of a NodePool for a week. About every five hours, some or all nodes are lost. New nodes are available
// within an hour.
func market(pool string, seed uint64) *spotmarket.Trace {
	const most = 16
	draws := reproducible.NewDraws(seed, "demo market "+pool)
	m := &spotmarket.Trace{Name: pool, Duration: 7 * 24 * time.Hour, Initial: most}
	for now := time.Duration(0); ; {
		now += minutes(draws, 180, 480)
		back := now + minutes(draws, 20, 60)
		if back >= m.Duration {
			return m
		}
		lost := 3 + draws.Below(6)
		if draws.Uniform() < 0.2 {
			lost = most
		}
		m.Events = append(m.Events,
			spotmarket.Event{At: now, Lost: lost, Available: most - lost}, spotmarket.Event{At: back, Added: lost, Available: most})
		now = back
	}
}

func minutes(draws *reproducible.Draws, low, high int) time.Duration {
	return time.Duration(low+draws.Below(high-low)) * time.Minute
}
