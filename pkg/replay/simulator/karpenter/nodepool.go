package karpenter

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// Capacity types, as in the label karpenter.sh/capacity-type.
const (
	Spot     = "spot"
	OnDemand = "on-demand"
	Reserved = "reserved"
)

// Never is a ConsolidateAfter that disables consolidation.
const Never time.Duration = -1

// NodePool is a Karpenter NodePool with one instance type.
type NodePool struct {
	Name         string
	CapacityType string
	InstanceType string
	GPUs         int32   // GPUs of a node
	Hourly       float64 // price of a node per hour in $
	Limit        *int64  // limit in GPUs; nil: no limit; 0: no node may start
	Weight       int32   // 0..100; a pod gets a node of the pool with the highest weight that accepts it

	// minimum time after the last pod was added to a node or removed from it until the node can be consolidated, or Never
	ConsolidateAfter time.Duration
	OnlyWhenEmpty    bool     // consolidationPolicy WhenEmpty; otherwise WhenEmptyOrUnderutilized
	Budgets          []Budget // of the budgets that apply at a time, the lowest is used; empty: one budget of 10%

	NodeLaunch, GPUReady *reproducible.Spread // nil: the values of Assumptions
	Market               *spotmarket.Trace    // number of available nodes over time, repeated after its end; nil: unlimited
	Outages              []Outage             // periods without capacity
}

// Budget limits how many nodes may be terminating at the same time.
type Budget struct {
	Nodes   int32  // used if Percent is 0
	Percent int32  // share of the pool's nodes in percent, rounded up
	Reason  string // reason for which the budget applies, "Empty" or "Underutilized"; "": any reason

	From, Until time.Duration // virtual times between which the budget applies; Until 0: always
}

// Outage is a period in which the instance type of a pool is not available. Its times are relative to the start of the simulation.
type Outage struct{ From, To time.Duration }

const (
	reasonEmpty         = "Empty"
	reasonUnderutilized = "Underutilized"
)

// CheckPools returns an error for each invalid NodePool.
func CheckPools(pools []NodePool) (errs []error) {
	names := map[string]bool{}
	for i := range pools {
		p := &pools[i]
		if p.Name == "" || names[p.Name] {
			errs = append(errs, fmt.Errorf("NodePool %q: names must be set and unique", p.Name))
		}
		names[p.Name] = true
		if p.GPUs < 1 || p.GPUs > 64 || !(p.Hourly >= 0) || p.Weight < 0 || p.Weight > 100 || p.InstanceType == privateNode {
			errs = append(errs, fmt.Errorf("NodePool %s: want 1 to 64 GPUs per node, a price of at least 0, and a weight of 0 to 100", p.Name))
		}
	}
	return errs
}

// Check returns an error for each allowed NodePool of the template that does not exist. It also returns an error if no NodePool has nodes
// that are large enough for the pods.
func (t *Template) Check(pools []NodePool) (errs []error) {
	for _, name := range t.Pools {
		if !slices.ContainsFunc(pools, func(p NodePool) bool { return p.Name == name }) {
			errs = append(errs, fmt.Errorf("%s: no NodePool %s", t.Name, name))
		}
	}
	fits := func(p NodePool) bool { return p.Takes(t) && p.GPUs >= t.GPUs }
	if len(pools) > 0 && !slices.ContainsFunc(pools, fits) {
		errs = append(errs, fmt.Errorf("%s: no NodePool has nodes that fit it", t.Name))
	}
	return errs
}

// Takes reports whether pods of the template may run on the pool.
func (p *NodePool) Takes(t *Template) bool {
	return len(t.Pools) == 0 || slices.Contains(t.Pools, p.Name)
}
