package simulator

import (
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
)

// Moment returns the nodes that are billed now, as a cost.Interval of the given length. Each GPU of a usable node has the pod that uses the
// GPU, and its activity at the last scrape, as in the metrics of the DCGM exporter. A starting node is billed but has no GPU metrics yet.
func (w *Simulator) Moment(length time.Duration) cost.Interval {
	m := cost.Interval{At: w.Time(), Hours: length.Hours()}
	for _, p := range w.nodes.Pools() {
		c := p.Config()
		for _, n := range p.Nodes() {
			node := cost.Node{
				Name: n.Name(), Offer: cost.Offer{InstanceType: c.InstanceType, CapacityType: c.CapacityType}, Pool: c.Name,
				Observed: cost.Price{Hourly: c.Hourly, From: "the simulation"}, GPUs: int(n.GPUs()),
			}
			if n.State() >= karpenter.Usable {
				node.Devices = devices(n)
			}
			m.Nodes = append(m.Nodes, node)
		}
	}
	return m
}

func devices(n *karpenter.Node) (all []cost.Device) {
	add := func(s cost.Slice) {
		all = append(all, cost.Device{ID: n.Name() + "-" + strconv.Itoa(len(all)), Slices: []cost.Slice{s}})
	}
	for _, pod := range n.Pods() {
		r := replicaOf(pod)
		k := r.load.key
		for range r.load.gpus {
			add(cost.Slice{Pods: []cost.Pod{{Namespace: k.Namespace, Name: k.Name + "-" + r.uid(), Workload: k.Name}}, Activity: r.activity()})
		}
	}
	for len(all) < int(n.GPUs()) {
		add(cost.Slice{})
	}
	return all
}

// activity returns the GPU activity of the replica: the activity of its load at the last scrape, or 0 while the replica loads its model.
// The activity is unknown if no scrape has measured it.
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
func (w *Simulator) ReplicasWithoutNode() int32 { return w.nodes.WithoutNode() }

// Nodes returns the number of billed nodes of a pool, or 0 if there is no such pool.
func (w *Simulator) Nodes(pool string) int {
	if p := w.nodes.Pool(pool); p != nil {
		return len(p.Nodes())
	}
	return 0
}
