package cluster

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// groupView is what is seen of one group, kept until something changes.
type groupView struct {
	world, nodes uint64 // versions that it was made from
	group        *capacity.Group
	of           []*scaling.Workload
	pools        []capacity.PoolView
	others       []capacity.Pod
	workloads    []capacity.Workload
	seen         map[string]*poolFacts // by name: what a patch is based on
}

// Observe fills o with what is seen of a group. In a tick in which nothing changed it only copies a few slices.
func (n *nodes) Observe(g *capacity.Group, of []*scaling.Workload, o *capacity.Observation) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	w := n.cluster.world
	w.mu.RLock()
	defer w.mu.RUnlock()
	v := n.views[g]
	if v == nil || v.world != w.version || v.nodes != n.version || !slices.Equal(v.of, of) {
		v = n.look(g, of)
		n.views[g] = v
	}
	o.Pools, o.UnmanagedPods, o.Lost = v.pools, v.others, !n.complete() || !n.cluster.synced.Load()
	o.Shields, o.Buffers = n.schema.shields, n.holdsBuffers()
	for i := range v.workloads {
		from, to := &v.workloads[i], &o.Workloads[i]
		to.Current, to.GPUs, to.Quota, to.Claims, to.Buffer, to.Pods = from.Current, from.GPUs, from.Quota, from.Claims, from.Buffer, from.Pods
		to.Size, to.PodGPUs = from.Size, from.PodGPUs
	}
}

// place is where a node stands in a view.
type place struct{ pool, node int }

// look makes a group's view anew. The caller holds both locks.
func (n *nodes) look(g *capacity.Group, of []*scaling.Workload) *groupView {
	w, foreign := n.cluster.world, n.foreignBuffers(of)
	v := &groupView{world: w.version, nodes: n.version, group: g, of: slices.Clone(of), seen: map[string]*poolFacts{}}
	places := map[string]place{}
	for i, p := range g.Pools {
		facts := n.pools[p.Name]
		if facts == nil {
			v.pools = append(v.pools, capacity.PoolView{})
			continue
		}
		v.seen[p.Name] = facts
		claims := n.claimsOf(p.Name)
		view := facts.of(g, claims, n.schema)
		view.Failures, view.Losses = n.fates.of(p.Name)
		view.Nodes = make([]capacity.Node, 0, len(claims))
		for _, claim := range claims {
			if claim.node != "" {
				places[claim.node] = place{i, len(view.Nodes)}
			}
			node := n.node(claim, g.Resource)
			_, kept := n.kept[claim.uid]
			node.Buffered = kept && foreign
			view.Nodes = append(view.Nodes, node)
		}
		v.pools = append(v.pools, view)
	}
	n.lookAtPods(v, places)
	n.lookForKeepers(v, places)
	return v
}

func (n *nodes) claimsOf(pool string) (all []*claimFacts) {
	for _, f := range n.claims {
		if f.pool == pool {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b *claimFacts) int { return cmp.Compare(a.name, b.name) })
	return all
}

var capacityTypes = map[string]capacity.CapacityType{"spot": capacity.Spot, "on-demand": capacity.OnDemand, "reserved": capacity.Reserved}

func (n *nodes) node(f *claimFacts, resource string) capacity.Node {
	_, noticed := n.noticed[f.uid]
	out := capacity.Node{
		Name: cmp.Or(f.node, f.name), UID: f.uid, Type: capacityTypes[f.capacityType], Stage: f.stage(), GPUs: f.capacity[resource],
		Created: f.created, InstanceType: f.instanceType, Deleting: !f.deleted.IsZero(), Voluntary: f.voluntary, Notice: noticed,
	}
	if node := n.nodes[f.node]; node != nil {
		out.Ready, out.Notice = node.ready, out.Notice || node.notice
		if gpus := node.extended[resource]; gpus > 0 {
			out.GPUs = gpus
		}
		if node.undisrupted {
			out.DoNotDisruptPods++
		}
	}
	if n.cluster.options.Hourly != nil {
		out.Hourly = n.cluster.options.Hourly(f.offer())
	}
	return out
}

// lookAtPods lists the pods of the group's policies, and every other that asks for the resource and may land here.
func (n *nodes) lookAtPods(v *groupView, places map[string]place) {
	w, taken := n.cluster.world, map[*podFacts]bool{}
	for _, workload := range v.of {
		out := capacity.Workload{Buffer: n.buffered(workload)}
		if t := w.targets[refOfWorkload(workload)]; t != nil && t.facts != nil {
			out.Current, out.Quota, out.GPUs = t.facts.replicas, t.facts.quota, gpupods.CountOf(t.facts.extended, v.group.Resource)
			out.Claims = n.mayClaimGPUs(workload.Key.Namespace, t.facts.claims)
			out.Size, out.PodGPUs = t.facts.size, gpupods.CountOf(t.facts.perPod, v.group.Resource)
			for _, p := range t.podsByReplica() {
				taken[p] = true
				if pod, counts := n.pod(v, places, p); counts {
					if t.facts.size > 1 {
						pod.Replica = p.group
					}
					out.Pods = append(out.Pods, pod)
				}
			}
		}
		v.workloads = append(v.workloads, out)
	}
	var others []*podFacts
	for _, byName := range w.gpuPods {
		for _, p := range byName {
			if !taken[p] && !p.daemon {
				others = append(others, p)
			}
		}
	}
	slices.SortFunc(others, func(a, b *podFacts) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	v.others = make([]capacity.Pod, 0, len(others))
	for _, p := range others {
		pod, counts := n.pod(v, places, p)
		if counts && n.mayLand(v, p, &pod) {
			v.others = append(v.others, pod)
		}
	}
}

// pod is a pod as the group sees it; counts is false for one that has ended, or asks for none of the resource and claims no GPU.
func (n *nodes) pod(v *groupView, places map[string]place, p *podFacts) (pod capacity.Pod, counts bool) {
	if p.phase == podGone || p.gpuPod == nil {
		return pod, false
	}
	gpus := gpupods.CountOf(p.gpuPod.Extended, v.group.Resource)
	pod = capacity.Pod{
		UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Owner: p.gpuPod.Owner, GPUs: gpus, Pool: -1, Node: -1,
		Pending: p.pod.Node == "", Since: p.gpuPod.Created, Ready: p.phase == podReady, Loading: p.phase == podLoading,
		DeletionCost: p.gpuPod.DeletionCost, DoNotDisrupt: p.gpuPod.DoNotDisrupt, Claims: n.mayClaimGPUs(p.Namespace, p.gpuPod.Claims),
	}
	if at, here := places[p.pod.Node]; here && !pod.Pending {
		pod.Pool, pod.Node = at.pool, at.node
		v.pools[at.pool].Nodes[at.node].Used += gpus
	}
	for i := range v.group.Pools {
		if facts := v.seen[v.group.Pools[i].Name]; facts != nil && v.group.Pools[i].Type == capacity.Spot {
			landing := facts.landsIn(p.gpuPod)
			pod.Pinned = landing != lands // unknown is not yes: a successor that lands elsewhere is a move for nothing
			pod.UnknownLabels = landing == unsure
		}
	}
	return pod, gpus > 0 || pod.Claims
}

// mayLand tells whether a pod of nobody's counts: it runs here, or waits and could be given a node here.
func (n *nodes) mayLand(v *groupView, p *podFacts, pod *capacity.Pod) bool {
	if !pod.Pending {
		return pod.Pool >= 0
	}
	if p.gpuPod.Gated {
		return false
	}
	best := never
	for i := range v.group.Pools {
		if facts := v.seen[v.group.Pools[i].Name]; facts != nil {
			best = best.or(facts.landsIn(p.gpuPod))
		}
	}
	pod.UnknownPlacement = best == unsure
	return best != never
}

// lookForKeepers counts what keeps nodes that nobody uses. All pods are looked at, so it is done only where there is such a node.
func (n *nodes) lookForKeepers(v *groupView, places map[string]place) {
	empty := map[string]*capacity.Node{}
	for name, at := range places {
		if node := &v.pools[at.pool].Nodes[at.node]; node.Used == 0 && node.Stage == capacity.Usable {
			empty[name] = node
		}
	}
	if len(empty) == 0 {
		return
	}
	for _, byName := range n.cluster.world.pods {
		for _, entry := range byName {
			p := entry.facts
			node := empty[p.pod.Node]
			if node == nil || p.phase == podGone {
				continue
			}
			if p.undisrupted {
				node.DoNotDisruptPods++
			}
			if !p.daemon {
				node.BlockingPods++
			}
		}
	}
}

// strayMarksAtOnce bounds the marks that one tick clears: each is a request, and a patch that lifts a limit must not wait behind them.
const strayMarksAtOnce = 16

// strayView is what no group names, kept until something changes.
type strayView struct {
	world, nodes uint64
	groups       []*capacity.Group
	of           []scaling.Workload
	made         bool
	pools        []engine.Orphan
	marks        []capacity.Action
}

// Orphans are NodePools with our record, or fields of ours, that no group names, and marks on pods and buffers of no group's
// workload.
func (n *nodes) Orphans(groups []*capacity.Group, of []scaling.Workload) ([]engine.Orphan, []capacity.Action) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	w := n.cluster.world
	w.mu.RLock()
	defer w.mu.RUnlock()
	v := &n.strays
	sameOf := len(of) == len(v.of) && (len(of) == 0 || &of[0] == &v.of[0])
	if v.made && v.world == w.version && v.nodes == n.version && slices.Equal(v.groups, groups) && sameOf {
		return v.pools, nil
	}
	maps.DeleteFunc(n.views, func(g *capacity.Group, of *groupView) bool {
		return of.nodes != n.version && !slices.Contains(groups, g) // of a PlatformConfig that is no longer in force
	})
	*v = strayView{world: w.version, nodes: n.version, groups: groups, of: of, made: true}
	for _, name := range sortedNames(n.pools) {
		if p := n.pools[name]; p.ours && p.view.Exists && !slices.ContainsFunc(groups, func(g *capacity.Group) bool {
			return slices.ContainsFunc(g.Pools, func(p capacity.Pool) bool { return p.Name == name })
		}) {
			v.pools = append(v.pools, engine.Orphan{Pool: name, Record: p.view.Record})
		}
	}
	if v.marks = n.strayMarks(groups, of); len(v.marks) > strayMarksAtOnce {
		v.marks, v.made = v.marks[:strayMarksAtOnce], false // the rest in the next ticks
	}
	return v.pools, append(v.marks, n.strayBuffers(groups, of)...)
}

// strayMarks clears our marks on pods that belong to no workload of a group any more.
func (n *nodes) strayMarks(groups []*capacity.Group, of []scaling.Workload) (marks []capacity.Action) {
	w, kept := n.cluster.world, map[*podFacts]bool{}
	for i := range of {
		if !slices.ContainsFunc(groups, func(g *capacity.Group) bool { return g.Name == of[i].Group }) {
			continue
		}
		if t := w.targets[refOfWorkload(&of[i])]; t != nil {
			for _, p := range t.pods {
				kept[p] = true
			}
		}
	}
	for _, namespace := range sortedNames(w.gpuPods) {
		for _, p := range w.gpuPods[namespace] {
			if kept[p] || p.phase == podGone {
				continue
			}
			mark := capacity.PodAnnotation{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Rule: capacity.RuleRelease}
			if p.gpuPod.DeletionCost.Ours {
				mark.Kind = capacity.DeletionCost
				marks = append(marks, mark)
			}
			if p.gpuPod.DoNotDisrupt.Ours {
				mark.Kind = capacity.DoNotDisrupt
				marks = append(marks, mark)
			}
		}
	}
	return marks
}
