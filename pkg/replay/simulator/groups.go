package simulator

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// groups implements the ports of the engine for capacity groups. It reads and patches simulated NodePools and pods, as package cluster does
// with real ones.
type groups struct{ w *Simulator }

var (
	_ engine.Groups = groups{}
	_ engine.Nodes  = groups{}
)

// owner is the field manager of the simulated NodePools.
const owner = "kubectl"

// evidenceRetention is how long failed launches and lost nodes are reported.
const evidenceRetention = time.Hour

// overridable is the part of a NodePool that a capacity group reads and overrides: its fields with their owners, and its launch failures
// and losses.
type overridable struct {
	resource string
	fields   map[string]nodepool.FieldView // fields by JSON pointer, as in nodepool.Field
	record   string
	failures []capacity.Failure
	losses   []capacity.Loss
	claims   int // number of failed launches so far
}

// openGroups creates the overridable fields of each NodePool in a capacity group. It returns an error if a NodePool does not exist.
func (w *Simulator) openGroups() error {
	for _, g := range w.config.Groups {
		for _, member := range g.Pools {
			p := w.pool(member.Name)
			if p == nil {
				return fmt.Errorf("capacity group %s: NodePool %s does not exist", g.Name, member.Name)
			}
			c := &p.config
			field := func(v string) nodepool.FieldView { return nodepool.FieldView{Value: nodepool.Value(v), Owner: owner} }
			after, policy := c.ConsolidateAfter.String(), "WhenEmptyOrUnderutilized"
			if c.ConsolidateAfter == Never {
				after = "Never"
			}
			if c.OnlyWhenEmpty {
				policy = "WhenEmpty"
			}
			p.overridable = &overridable{resource: g.Resource, fields: map[string]nodepool.FieldView{
				weightField: field(strconv.Itoa(int(c.Weight))), afterField: field(strconv.Quote(after)),
				policyField: field(strconv.Quote(policy)), budgetsField: field(budgetsText(c.Budgets)),
			}}
			if c.Limit != nil {
				p.overridable.fields[limitOf(g.Resource)] = field(strconv.FormatInt(*c.Limit, 10))
			}
		}
	}
	return nil
}

// The fields of a NodePool that a group overrides.
var (
	weightField  = nodepool.FieldWeight.Path("").Pointer()
	afterField   = nodepool.FieldConsolidateAfter.Path("").Pointer()
	policyField  = nodepool.FieldConsolidationPolicy.Path("").Pointer()
	budgetsField = nodepool.FieldBudgets.Path("").Pointer()
)

func limitOf(resource string) string { return nodepool.FieldLimit.Path(resource).Pointer() }

func (w *Simulator) pool(name string) *pool {
	for _, p := range w.nodes.pools {
		if p.config.Name == name {
			return p
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

// place is the position of a node in an observation: the indexes of its NodePool, and of the node in it.
type place struct{ pool, node int }

// Observe implements engine.Nodes. It fills the observation with the NodePools of the group, the pods of the given workloads, and the
// unmanaged pods that may run on these NodePools.
func (g groups) Observe(group *capacity.Group, of []*scaling.Workload, o *capacity.Observation) {
	w := g.w
	o.Pools, o.UnmanagedPods, o.Shields, o.Lost = o.Pools[:0], o.UnmanagedPods[:0], true, false
	at := map[*node]place{}
	for i, member := range group.Pools {
		o.Pools = append(o.Pools, w.pool(member.Name).view(member.Type, func(n *node, j int) { at[n] = place{i, j} }))
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
			if slices.ContainsFunc(group.Pools, func(p capacity.Pool) bool { return w.pool(p.Name).config.takes(l.config) }) {
				o.UnmanagedPods = append(o.UnmanagedPods, w.pod(group, r, at))
			}
		}
	}
}

// view returns the NodePool in the form in which the cluster cache returns it. It calls found with each node and the index of the node.
func (p *pool) view(kind capacity.CapacityType, found func(*node, int)) capacity.PoolView {
	u, start := p.overridable, p.w.config.Start
	v := capacity.PoolView{
		Exists: true, Ready: true, NodeGPUs: int64(p.config.GPUs), View: nodepool.View{
			Record: u.record, Consent: nodepool.ConsentLimits | nodepool.ConsentWeight | nodepool.ConsentDisruption,
			Weight: u.fields[weightField], ConsolidateAfter: u.fields[afterField],
			ConsolidationPolicy: u.fields[policyField], Budgets: u.fields[budgetsField],
		},
	}
	if limit := u.fields[limitOf(u.resource)]; limit.Value != "" {
		v.Limits = []nodepool.LimitView{{Resource: u.resource, FieldView: limit}}
	}
	for i, n := range p.nodes {
		found(n, i)
		stage := capacity.Launched
		if n.state >= usable {
			stage = capacity.Usable
		}
		v.Nodes = append(v.Nodes, capacity.Node{
			Name: n.uid(), UID: n.uid(), Type: kind, InstanceType: p.config.InstanceType, Hourly: p.config.Hourly,
			Stage: stage, Ready: n.state == usable, GPUs: int64(n.gpus), Used: n.bound(), Created: start.Add(n.made),
			Deleting: n.state == leaving || n.hasNotice, Voluntary: n.state == leaving && !n.hasNotice, Notice: n.hasNotice,
		})
		v.Usage += int64(n.gpus)
	}
	old := p.w.Time().Add(-evidenceRetention)
	u.failures = slices.DeleteFunc(u.failures, func(f capacity.Failure) bool { return f.At.Before(old) })
	u.losses = slices.DeleteFunc(u.losses, func(l capacity.Loss) bool { return l.At.Before(old) })
	v.Failures, v.Losses = slices.Clone(u.failures), slices.Clone(u.losses)
	return v
}

// bound returns the sum of the GPU requests of all pods that are bound to the node. It does not include pods that Karpenter has only
// nominated to a starting node.
func (n *node) bound() (gpus int64) {
	for _, r := range n.pods {
		if r.state > booked {
			gpus += int64(r.load.gpus)
		}
	}
	return gpus
}

func (n *node) uid() string { return fmt.Sprintf("%s-%d-%d", n.pool.config.Name, n.id, n.gen) }

func (r *replica) uid() string { return fmt.Sprintf("%d-%d", r.id, r.gen) }

// pod returns a replica in the form in which the cluster cache returns a pod. The pod has no node while the node is being created.
func (w *Simulator) pod(group *capacity.Group, r *replica, at map[*node]place) capacity.Pod {
	out := capacity.Pod{
		UID: r.uid(), Namespace: r.load.key.Namespace, Name: r.load.key.Name + "-" + r.uid(),
		Owner: capacity.OwnerReplicaSet, GPUs: int64(r.load.gpus), Pool: -1, Since: w.config.Start.Add(r.made),
		Pending: r.state < pulling, Loading: r.state == pulling || r.state == starting,
		Ready: r.state == ready, Idle: r.state == ready && r.running == 0,
		DoNotDisrupt: capacity.Annotation{Value: r.shield, Ours: r.shield != ""},
	}
	if r.cost != 0 {
		out.DeletionCost = capacity.Annotation{Value: strconv.Itoa(r.cost), Ours: true}
	}
	if found, ok := at[r.node]; ok && !out.Pending {
		out.Pool, out.Node = found.pool, found.node
	}
	spot := func(p capacity.Pool) bool { return p.Type == capacity.Spot }
	out.Pinned = slices.ContainsFunc(group.Pools, spot) && !slices.ContainsFunc(group.Pools, func(p capacity.Pool) bool {
		return spot(p) && w.pool(p.Name).config.takes(r.load.config)
	})
	return out
}

// refused records a NodeClaim that failed with insufficient capacity.
func (p *pool) refused() {
	if u := p.overridable; u != nil {
		u.claims++
		uid := fmt.Sprintf("%s-refused-%d", p.config.Name, u.claims)
		u.failures = append(u.failures, capacity.Failure{UID: uid, At: p.w.Time(), Capacity: true})
	}
}

// isLost adds the node to the losses that the NodePool reports. It is called when the node receives an interruption notice.
func (n *node) isLost() {
	if u := n.pool.overridable; u != nil {
		u.losses = append(u.losses, capacity.Loss{UID: n.uid(), At: n.pool.w.Time()})
	}
}
