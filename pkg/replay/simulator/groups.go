package simulator

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// groups implements the ports of the engine for capacity groups. It reads and patches simulated NodePools and pods, as package cluster does
// with real ones.
type groups struct{ w *Simulator }

var (
	_ engine.Groups = groups{}
	_ engine.Nodes  = groups{}
)

// openGroups adds each NodePool of a capacity group to its group. It returns an error if a NodePool does not exist.
func (w *Simulator) openGroups() error {
	for _, g := range w.config.Groups {
		for _, member := range g.Pools {
			p := w.nodes.Pool(member.Name)
			if p == nil {
				return fmt.Errorf("capacity group %s: NodePool %s does not exist", g.Name, member.Name)
			}
			p.Join(g.Resource)
		}
	}
	return nil
}

// Groups implements engine.Groups.
func (g groups) Groups() []*capacity.Group { return g.w.config.Groups }

// Orphans implements engine.Nodes. It returns nothing, because the simulator has no orphaned NodePools.
func (g groups) Orphans([]*capacity.Group, []scaling.Workload) ([]engine.Orphan, []capacity.Action) {
	return nil, nil
}

// place identifies a node in the observation of a capacity group: the index of the NodePool, and the index of the node in the NodePool.
type place struct{ pool, node int }

// Observe implements engine.Nodes. It fills the observation with the NodePools of the group, the pods of the given workloads, and the
// unmanaged pods that may run on these NodePools.
func (g groups) Observe(group *capacity.Group, of []*scaling.Workload, o *capacity.Observation) {
	w := g.w
	o.Pools, o.UnmanagedPods, o.Shields, o.Lost = o.Pools[:0], o.UnmanagedPods[:0], true, false
	at := map[*karpenter.Node]place{}
	for i, member := range group.Pools {
		p := w.nodes.Pool(member.Name)
		o.Pools = append(o.Pools, p.View(member.Type))
		for j, n := range p.Nodes() {
			at[n] = place{i, j}
		}
	}
	for i, policy := range of {
		out := &o.Workloads[i]
		*out = capacity.Workload{Pods: out.Pods[:0]}
		if l := w.byKey[policy.Key]; l != nil {
			out.Current, out.GPUs = l.target, int64(l.gpus)
			for _, r := range l.replicas {
				out.Pods = append(out.Pods, w.pod(group, r, at))
			}
		}
	}
	for _, l := range w.loads {
		if slices.ContainsFunc(of, func(p *scaling.Workload) bool { return p.Key == l.key }) {
			continue
		}
		for _, r := range l.replicas {
			if slices.ContainsFunc(group.Pools, func(p capacity.Pool) bool { return w.nodes.Pool(p.Name).Config().Takes(l.template) }) {
				o.UnmanagedPods = append(o.UnmanagedPods, w.pod(group, r, at))
			}
		}
	}
}

func (r *replica) uid() string { return fmt.Sprintf("%d-%d", r.id, r.gen) }

// pod returns a replica in the form in which the cluster cache returns a pod. While the node of a replica is being created, the pod has no
// node.
func (w *Simulator) pod(group *capacity.Group, r *replica, at map[*karpenter.Node]place) capacity.Pod {
	out := capacity.Pod{
		UID: r.uid(), Namespace: r.load.key.Namespace, Name: r.load.key.Name + "-" + r.uid(),
		Owner: capacity.OwnerReplicaSet, GPUs: int64(r.load.gpus), Pool: -1, Since: w.config.Start.Add(r.made),
		Pending: r.state < pulling, Loading: r.state == pulling || r.state == starting,
		Ready: r.state == ready, Idle: r.state == ready && r.running == 0,
		DoNotDisrupt: capacity.Annotation{Value: r.pod.Shield, Ours: r.pod.Shield != ""},
	}
	if r.cost != 0 {
		out.DeletionCost = capacity.Annotation{Value: strconv.Itoa(r.cost), Ours: true}
	}
	if found, ok := at[r.pod.Node()]; ok && !out.Pending {
		out.Pool, out.Node = found.pool, found.node
	}
	spot := func(p capacity.Pool) bool { return p.Type == capacity.Spot }
	out.Pinned = slices.ContainsFunc(group.Pools, spot) && !slices.ContainsFunc(group.Pools, func(p capacity.Pool) bool {
		return spot(p) && w.nodes.Pool(p.Name).Config().Takes(r.load.template)
	})
	return out
}

// completed is the channel that Act returns. It is already closed, because writes to the simulated API server take no time.
var completed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// Act implements engine.Nodes. It patches the simulated NodePools and sets the annotations of the simulated pods.
func (g groups) Act(_ *capacity.Group, actions []capacity.Action) <-chan struct{} {
	for _, a := range actions {
		switch a := a.(type) {
		case capacity.NodePoolPatch:
			g.w.nodes.Pool(a.Pool).Patch(a)
		case capacity.PodAnnotation:
			g.w.mark(a)
		}
	}
	return completed
}

// mark sets an annotation on the pod of a replica, unless the replica has ended.
func (w *Simulator) mark(a capacity.PodAnnotation) {
	var id int32
	var gen uint32
	if _, err := fmt.Sscanf(a.UID, "%d-%d", &id, &gen); err != nil || int(id) >= len(w.replicas) || w.replicas[id].gen != gen {
		return
	}
	r := w.replicas[id]
	if a.Kind == capacity.DoNotDisrupt {
		r.pod.Shield = a.Value
		return
	}
	r.cost, _ = strconv.Atoi(a.Value) // Atoi returns 0 for the empty value of a removed annotation
}
