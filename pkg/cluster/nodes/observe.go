package nodes

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/schedulability"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// groupView is the observation of one group. It is reused until an object that it depends on changes.
type groupView struct {
	workloadsVersion, nodesVersion uint64
	group                          *capacity.Group
	nodesRead                      bool                    // whether the Nodes of the cluster were read
	fleet                          schedulability.NodePool // for a group with a NodeSelector: which pods can run on its nodes
	members                        []*scaling.Workload
	pools                          []capacity.PoolView
	others                         []capacity.Pod
	workloads                      []capacity.Workload
	bases                          map[string]*karpenter.NodePool // the version of each NodePool on which a patch must be based, by name
	counted                        gpupods.Counted                // claims whose devices were already counted for a pod
	gangs                          gangs                          // the gangs of pods that belong to no workload of the group
}

// Observe sets the fields of o about NodePools, nodes, workloads and pods of a group. It computes new values only if an object has changed
// since the last call.
func (n *Cache) Observe(g *capacity.Group, members []*scaling.Workload, o *capacity.Observation) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	w := n.options.Workloads
	w.RLock()
	defer w.RUnlock()
	v := n.views[g]
	if v == nil || v.nodesRead != n.nodesRead() ||
		v.workloadsVersion != w.Version() || v.nodesVersion != n.version || !slices.Equal(v.members, members) {
		v = n.newView(g, members)
		n.views[g] = v
	}
	o.Pools, o.UnmanagedPods, o.Lost = v.pools, v.others, !n.complete() || !n.options.WorkloadsSynced()
	o.Lost = o.Lost || g.SelectsNodes() && !v.nodesRead
	o.Shields, o.Buffers = n.schema.DoNotDisruptDuration, n.options.Buffers.Usable()
	for i := range v.workloads {
		from, to := &v.workloads[i], &o.Workloads[i]
		to.Current, to.GPUs, to.Quota, to.Claims, to.Buffer, to.Pods = from.Current, from.GPUs, from.Quota, from.Claims, from.Buffer, from.Pods
		to.Size, to.PodGPUs, to.Claimed, to.Infeasible = from.Size, from.PodGPUs, from.Claimed, from.Infeasible
	}
}

// PatchBase returns the version of a NodePool that the last Observe of the group read, or nil if the NodePool did not exist at that time.
func (n *Cache) PatchBase(g *capacity.Group, pool string) *karpenter.NodePool {
	if v := n.views[g]; v != nil {
		return v.bases[pool]
	}
	return nil
}

// position identifies a node in groupView.pools by the index of its NodePool and the index of the node in this NodePool.
type position struct{ pool, node int }

// newView builds the observation of a group. The caller holds the locks of this cache and of the workloads.
func (n *Cache) newView(g *capacity.Group, members []*scaling.Workload) *groupView {
	v := &groupView{
		workloadsVersion: n.options.Workloads.Version(), nodesVersion: n.version, group: g, members: slices.Clone(members),
		nodesRead: n.nodesRead(), bases: map[string]*karpenter.NodePool{}, counted: gpupods.Counted{},
	}
	othersHold := n.options.Buffers.OthersHold(members)
	positions := map[string]position{} // key: name of the node
	for i, p := range g.Pools {
		if g.SelectsNodes() {
			var view capacity.PoolView
			view, v.fleet = n.fleet(g, positions)
			v.pools = append(v.pools, view)
			continue
		}
		pool := n.pools[p.Name]
		if pool == nil {
			v.pools = append(v.pools, capacity.PoolView{})
			continue
		}
		v.bases[p.Name] = pool
		claims := n.claimsOf(p.Name)
		view := pool.View(g, claims, n.schema)
		view.Failures, view.Losses = n.outcomes.of(p.Name)
		view.Nodes = make([]capacity.Node, 0, len(claims))
		for _, claim := range claims {
			if claim.Node != "" {
				positions[claim.Node] = position{i, len(view.Nodes)}
			}
			node := n.node(claim, g.Resource)
			_, buffered := n.buffered[string(claim.UID)]
			node.Buffered = buffered && othersHold
			view.Nodes = append(view.Nodes, node)
		}
		v.pools = append(v.pools, view)
	}
	n.addOtherPods(v, positions, n.addMembers(v, positions))
	if !g.SelectsNodes() {
		n.countBlockingPods(v, positions)
	}
	return v
}

func (n *Cache) claimsOf(pool string) (all []*karpenter.NodeClaim) {
	for _, c := range n.claims {
		if c.NodePool == pool {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *karpenter.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

var capacityTypes = map[string]capacity.CapacityType{
	karpv1.CapacityTypeSpot: capacity.Spot, karpv1.CapacityTypeOnDemand: capacity.OnDemand, karpv1.CapacityTypeReserved: capacity.Reserved,
}

// node combines a NodeClaim and its Node into a capacity.Node. resource is the GPU resource of the group.
func (n *Cache) node(c *karpenter.NodeClaim, resource string) capacity.Node {
	_, interrupted := n.interrupted[string(c.UID)]
	out := capacity.Node{
		Name: cmp.Or(c.Node, c.Name), UID: string(c.UID), Type: capacityTypes[c.CapacityType], Stage: c.Stage(), GPUs: c.Extended[resource],
		Created: c.Created, InstanceType: c.InstanceType, Deleting: !c.Deleted.IsZero(), Voluntary: c.Voluntary, Notice: interrupted,
		Drifted: c.Drifted,
	}
	if node := n.nodes[c.Node]; node != nil {
		out.Ready, out.Notice = node.ready, out.Notice || node.interrupted
		if gpus := node.extended[resource]; gpus > 0 {
			out.GPUs = gpus
		}
		out.Disrupted = slices.ContainsFunc(node.taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
		if out.DoNotDisrupt = node.notDisrupted; out.DoNotDisrupt {
			out.DoNotDisruptPods++
		}
	}
	if n.options.Hourly != nil {
		out.Hourly = n.options.Hourly(c.Offer(n.overlays))
	}
	return out
}

// addMembers adds the workloads of the group (v.members) and their pods to the observation. It returns these pods.
func (n *Cache) addMembers(v *groupView, positions map[string]position) map[Pod]bool {
	w, resource, pods := n.options.Workloads, v.group.Resource, map[Pod]bool{}
	for _, member := range v.members {
		out := capacity.Workload{Buffer: n.options.Buffers.Replicas(member), Infeasible: n.options.Buffers.Infeasible(member)}
		if t, ok := w.NodeTarget(member); ok {
			out.Current, out.Quota, out.GPUs = t.Replicas, t.Quota, n.extended(t.Extended, resource)
			out.Size, out.PodGPUs = t.Size, n.extended(t.PerPod, resource)
			n.addDevices(&out, n.options.Claims.Count(member.Key.Namespace, t.Claims, resource, nil))
			for _, p := range w.TargetPods(member) {
				pods[p] = true
				if pod, counts := n.pod(v, positions, p, true); counts {
					if t.Size > 1 {
						pod.Replica, pod.Size = p.GetLabels()[t.ReplicaLabel], p.ReplicaSize(t.SizeVariable)
					}
					out.Pods = append(out.Pods, pod)
				}
			}
		}
		v.workloads = append(v.workloads, out)
	}
	return pods
}

// addDevices adds the number of devices that one replica claims. For a replica with several pods this number is unknown, because its pods
// can have different claims.
func (n *Cache) addDevices(w *capacity.Workload, c gpupods.ClaimCount) {
	w.Claimed, w.Claims = c.Claimed, c.Unknown
	if w.Size > 1 {
		w.Claims = w.Claims || c.Claimed
		return
	}
	w.GPUs = min(w.GPUs+c.Devices, gpupods.MaxGPUs)
}

// extended returns the count of a resource in a list of extended resources. If the resource is a DeviceClass, pods can also request its
// devices by an extended resource. In this case, extended returns the count of that extended resource.
func (n *Cache) extended(amounts []gpupods.Amount, resource string) int64 {
	if gpupods.ClassOf(resource) != "" {
		resource = n.options.Claims.ExtendedResource(resource)
	}
	return gpupods.CountOf(amounts, resource)
}

// addOtherPods adds the pods that belong to no workload of the group but use, or could use, its GPUs. Such a pod requests the group's
// resource or may claim GPUs, and it runs on a node of the group or could be scheduled to a node of the group. Pods of DaemonSets and
// static pods are not added.
func (n *Cache) addOtherPods(v *groupView, positions map[string]position, members map[Pod]bool) {
	others := make([]Pod, 0, len(n.sortedPods()))
	for _, p := range n.sortedPods() {
		if !members[p] {
			others = append(others, p)
		}
	}
	v.gangs = gangsOf(others)
	v.others = make([]capacity.Pod, 0, len(others))
	for _, p := range others {
		if pod, counts := n.pod(v, positions, p, false); counts {
			v.others = append(v.others, pod)
			v.gangs.count(p, pod.GPUs)
		}
	}
	v.others = append(v.others, v.gangs.missing(n.options.Workloads)...)
}

// pod converts a pod to a capacity.Pod. managed is true if the pod belongs to a workload of the group. counts is false if the pod must not
// be in the observation, for one of these reasons:
//
//   - the pod has finished or is terminating
//   - the pod neither requests the group's resource nor has a ResourceClaim that may be for GPUs
//   - managed is false, and the pod cannot use the group's nodes
func (n *Cache) pod(v *groupView, positions map[string]position, p Pod, managed bool) (pod capacity.Pod, counts bool) {
	facts := p.GPU()
	if p.Ended() || facts == nil {
		return pod, false
	}
	gpus := n.extended(facts.Extended, v.group.Resource)
	if gpus == 0 && len(facts.Claims) == 0 {
		return pod, false
	}
	pod = capacity.Pod{
		UID: string(p.GetUID()), Namespace: p.GetNamespace(), Name: p.GetName(), Owner: facts.Owner, Pool: -1, Node: -1,
		Pending: p.NodeName() == "", Since: facts.Created, Ready: p.Ready(), Loading: p.Loading(),
		Held: facts.Held, InvalidAnnotation: facts.Gang.Invalid,
		DeletionCost: facts.DeletionCost, DoNotDisrupt: facts.DoNotDisrupt,
	}
	at, known := positions[p.NodeName()]
	if known && !pod.Pending {
		pod.Pool, pod.Node = at.pool, at.node
	}
	if !managed && !v.mayUse(p, &pod) {
		return pod, false
	}
	claims := n.options.Claims.Count(p.GetNamespace(), facts.Claims, v.group.Resource, v.counted)
	pod.Claims, pod.Claimed, pod.GPUs = claims.Unknown, claims.Claimed, min(gpus+claims.Devices, gpupods.MaxGPUs)
	if pod.Pool >= 0 {
		node := &v.pools[at.pool].Nodes[at.node]
		node.Used += pod.GPUs
		if pod.Claimed {
			node.GPUs = max(node.GPUs, node.Used) // at least Used, because a Node does not list the devices that claims have reserved
		}
	}
	if answer, exists := v.acceptedBy(capacity.Spot, facts); exists {
		pod.Pinned = answer != schedulability.Yes // Unknown counts as pinned, because a move of the pod to spot might fail
		pod.UnknownLabels = answer == schedulability.Unknown
	}
	return pod, pod.GPUs > 0 || pod.Claims || pod.Claimed
}

// acceptedBy returns whether at least one of the group's NodePools of a capacity type accepts a pod. exists is false if the group has no
// NodePool of this type.
func (v *groupView) acceptedBy(kind capacity.CapacityType, facts *gpupods.Facts) (best schedulability.Answer, exists bool) {
	best = schedulability.No
	for i := range v.group.Pools {
		if pool := v.bases[v.group.Pools[i].Name]; pool != nil && v.group.Pools[i].Type == kind {
			best, exists = max(best, pool.Schedulability.Accepts(facts)), true
		}
	}
	return best, exists
}

// mayUse reports whether a pod that belongs to no workload of the group must be in the observation: the pod runs on a node of the group, or
// it is pending and could be scheduled to a node of the group. No autoscaler launches a node for a pod with a scheduling gate. Such a pod
// counts only if another pod of its gang has no gate, because the gang was then admitted and its gates are being removed.
func (v *groupView) mayUse(p Pod, pod *capacity.Pod) bool {
	if !pod.Pending {
		return pod.Pool >= 0
	}
	facts := p.GPU()
	if facts.Gated && !v.gangs.admitted(p) {
		return false
	}
	best := schedulability.No
	if v.group.SelectsNodes() {
		best = v.fleet.Accepts(facts)
	}
	for i := range v.group.Pools {
		if pool := v.bases[v.group.Pools[i].Name]; pool != nil {
			best = max(best, pool.Schedulability.Accepts(facts))
		}
	}
	pod.UnknownPlacement = best == schedulability.Unknown
	return best != schedulability.No
}

// countBlockingPods counts the blocking pods (pods that prevent Karpenter from removing their node) of each usable node without GPU pods.
// If there is no such node, it does not read the pods of the cluster.
func (n *Cache) countBlockingPods(v *groupView, positions map[string]position) {
	unused := map[string]*capacity.Node{}
	for name, at := range positions {
		if node := &v.pools[at.pool].Nodes[at.node]; node.Used == 0 && node.Stage == capacity.Usable {
			unused[name] = node
		}
	}
	if len(unused) == 0 {
		return
	}
	for p := range n.options.Workloads.AllPods() {
		node := unused[p.NodeName()]
		if node == nil || p.Ended() {
			continue
		}
		if p.BlocksDisruption() {
			node.DoNotDisruptPods++
		}
		if !p.Daemon() {
			node.BlockingPods++
		}
	}
}
