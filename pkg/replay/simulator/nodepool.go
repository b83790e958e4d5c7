package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

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
	Weight       int32   // 0..100; a replica gets a node of the pool with the highest weight that accepts it

	ConsolidateAfter time.Duration // minimum time from the last added or removed replica of a node to the node's consolidation, or Never
	OnlyWhenEmpty    bool          // consolidationPolicy WhenEmpty; otherwise WhenEmptyOrUnderutilized
	Budgets          []Budget      // the lowest budget that applies is used; empty: one budget of 10%

	NodeLaunch, GPUReady *Spread           // nil: the values of Assumptions
	Market               *spotmarket.Trace // available nodes over time, repeated at its end; nil: unlimited
	Outages              []Outage          // periods without capacity
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

func (p *NodePool) launch(w *Simulator) *Spread {
	return cmp.Or(p.NodeLaunch, &w.assumptions.NodeLaunch)
}
func (p *NodePool) gpuReady(w *Simulator) *Spread { return cmp.Or(p.GPUReady, &w.assumptions.GPUReady) }

func (c *Config) checkPools() (errs []error) {
	names := map[string]bool{}
	for i := range c.NodePools {
		p := &c.NodePools[i]
		if p.Name == "" || names[p.Name] {
			errs = append(errs, fmt.Errorf("NodePool %q: names must be set and unique", p.Name))
		}
		names[p.Name] = true
		if p.GPUs < 1 || p.GPUs > 64 || !(p.Hourly >= 0) || p.Weight < 0 || p.Weight > 100 || p.InstanceType == privateNode {
			errs = append(errs, fmt.Errorf("NodePool %s: want 1 to 64 GPUs per node, a price of at least 0, and a weight of 0 to 100", p.Name))
		}
	}
	for i := range c.Workloads {
		w := &c.Workloads[i]
		for _, name := range w.Pools {
			if !names[name] {
				errs = append(errs, fmt.Errorf("%s: no NodePool %s", w.key(), name))
			}
		}
		fits := func(p NodePool) bool { return p.takes(w) && p.GPUs >= max(w.GPUs, 1) }
		if len(c.NodePools) > 0 && !slices.ContainsFunc(c.NodePools, fits) {
			errs = append(errs, errors.New(w.key().String()+": no NodePool has nodes that fit it"))
		}
	}
	return errs
}

// takes reports whether a workload may run on the pool.
func (p *NodePool) takes(w *Workload) bool {
	return len(w.Pools) == 0 || slices.Contains(w.Pools, p.Name)
}

func (w *Simulator) openNodes() {
	configs := slices.Clone(w.config.NodePools)
	if len(configs) == 0 {
		configs = []NodePool{{Name: "fleet", CapacityType: OnDemand, InstanceType: privateNode, GPUs: 1, Hourly: w.config.Fleet.HourlyPerGPU}}
	}
	// Karpenter's order: by weight, and for equal weights by name in reverse alphabetical order.
	slices.SortFunc(configs, func(a, b NodePool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name))
	})
	for _, c := range configs {
		p := &pool{w: w, index: int32(len(w.nodes.pools)), config: c, boots: w.newBoots(c.Name), spotDraws: w.draws("spot " + c.Name)}
		w.nodes.pools = append(w.nodes.pools, p)
	}
	w.nodes.byWeight = slices.Clone(w.nodes.pools)
}

func (w *Simulator) beginNodes() {
	for _, p := range w.nodes.pools {
		p.openMarket()
	}
	if !w.private() {
		w.queue.add(event{at: w.assumptions.DisruptionLoop, kind: disrupt})
	}
}

// private reports whether the simulator runs without NodePools, so that each node belongs to one replica.
func (w *Simulator) private() bool { return w.nodes.pools[0].private() }

// raise creates an initial replica. The replica is ready at once if a NodePool has capacity for it; otherwise it waits for a node.
func (w *Simulator) raise(l *load) {
	r := w.newReplica(l)
	n := w.initialNode(l)
	if n == nil {
		return // no pool has room: the replica waits for a node
	}
	n.pulled[l.index] = -1
	n.change(func() { n.used += l.gpus })
	n.pods = append(n.pods, r)
	w.settle(r)
	r.node = n
	l.pending--
	r.open()
}

// initialNode returns a usable node with room for an initial replica, or nil.
func (w *Simulator) initialNode(l *load) *node {
	if w.private() {
		n := w.nodes.pools[0].newNode(l.gpus, &l.boots)
		n.change(func() { n.state = usable })
		return n
	}
	if n := w.roomFor(l, func(n *node) bool { return n.state == usable }); n != nil {
		return n
	}
	for _, p := range w.nodes.pools {
		if p.config.takes(l.config) && p.config.GPUs >= l.gpus && p.mayGrow() && p.available() {
			n := p.newNode(p.config.GPUs, &p.boots)
			n.change(func() { n.state = usable })
			return n
		}
	}
	return nil
}

// cost returns the cost of a bill in $.
func (p *pool) cost(b *bill) float64 {
	return float64(float64(b.paid) / float64(time.Hour.Microseconds()) * (p.config.Hourly / float64(p.config.GPUs)))
}

// If there are no NodePools, GPUs are billed per second. Every replica has its own node with exactly its number of GPUs, and the node is
// removed with the replica. At most Fleet.GPUs GPUs are in use; replicas get them in the order in which they were created.

// private reports whether every node of the pool belongs to one replica and is removed with it.
func (p *pool) private() bool { return p.config.InstanceType == privateNode }

const privateNode = "(one node per replica)"

// fleet assigns waiting replicas to nodes of their own, in a simulation without NodePools.
func (w *Simulator) fleet() {
	p, limit := w.nodes.pools[0], int64(w.config.Fleet.GPUs)
	for _, r := range w.waiting {
		if !r.withoutNode() {
			continue
		}
		if limit > 0 && p.gpus+int64(r.load.gpus) > limit {
			return
		}
		n := p.newNode(r.load.gpus, &r.load.boots)
		n.take(r)
		n.after(p.config.launch(w).draw(n.boots.launch), boot)
	}
}
