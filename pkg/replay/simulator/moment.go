package simulator

import (
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
)

// Moment returns the nodes that are billed now, as a cost.Interval of the given length. Each GPU of a usable node has the pod that uses the
// GPU, and its activity at the last scrape, as in the metrics of the DCGM exporter. A starting node is billed but has no GPU metrics yet.
func (w *Simulator) Moment(length time.Duration) cost.Interval {
	m := cost.Interval{At: w.Time(), Hours: length.Hours()}
	for _, p := range w.nodes.pools {
		for _, n := range p.nodes {
			node := cost.Node{
				Name: n.uid(), Offer: cost.Offer{InstanceType: p.config.InstanceType, CapacityType: p.config.CapacityType}, Pool: p.config.Name,
				Observed: cost.Price{Hourly: p.config.Hourly, From: "the simulation"}, GPUs: int(n.gpus),
			}
			if n.state >= usable {
				node.Devices = n.devices()
			}
			m.Nodes = append(m.Nodes, node)
		}
	}
	return m
}

func (n *node) devices() (all []cost.Device) {
	add := func(s cost.Slice) {
		all = append(all, cost.Device{ID: n.uid() + "-" + strconv.Itoa(len(all)), Slices: []cost.Slice{s}})
	}
	for _, r := range n.pods {
		k := r.load.key
		for range r.load.gpus {
			add(cost.Slice{Pods: []cost.Pod{{Namespace: k.Namespace, Name: k.Name + "-" + r.uid(), Workload: k.Name}}, Activity: r.activity()})
		}
	}
	for len(all) < int(n.gpus) {
		add(cost.Slice{})
	}
	return all
}

// activity returns the activity of the load at the last scrape, and 0 while the replica loads its model.
func (r *replica) activity() cost.Fraction {
	if r.state < ready {
		return cost.Of(0)
	}
	s := r.load.visible()
	if s == nil || !s.known[measure.Activity] {
		return cost.Fraction{}
	}
	return cost.Of(s.values[measure.Activity])
}

// Ready returns the number of ready replicas of all workloads.
func (w *Simulator) Ready() (n int32) {
	for _, l := range w.loads {
		n += l.ready
	}
	return n
}

// ReplicasWithoutNode returns the number of replicas of all workloads without a node, not even a starting one.
func (w *Simulator) ReplicasWithoutNode() (n int32) {
	for _, r := range w.waiting {
		if r.withoutNode() {
			n++
		}
	}
	return n
}

// Nodes returns the number of billed nodes of a pool, or 0 if there is no such pool.
func (w *Simulator) Nodes(pool string) int {
	if p := w.pool(pool); p != nil {
		return len(p.nodes)
	}
	return 0
}
