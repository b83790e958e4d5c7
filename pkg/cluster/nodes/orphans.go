package nodes

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// maxAnnotationsPerTick limits how many pod annotations one tick removes. Each removal is a request, and a patch that removes a limit must
// not wait for hundreds of requests.
const maxAnnotationsPerTick = 16

// orphanView stores the result of the last call of Orphans, with the versions of the caches and the arguments of that call. While these
// are unchanged, Orphans checks no object again.
type orphanView struct {
	workloadsVersion, nodesVersion uint64
	groups                         []*capacity.Group
	workloads                      []scaling.Workload
	valid                          bool
	pools                          []engine.Orphan
}

// Orphans returns the NodePools that are in no capacity group although they have an override record of gpuscaler or a field that gpuscaler
// owns. It also returns actions that remove pod annotations and CapacityBuffers of gpuscaler that belong to no workload of a group. It
// returns no actions if the last call returned all of them and no object has changed since then.
func (n *Cache) Orphans(groups []*capacity.Group, workloads []scaling.Workload) ([]engine.Orphan, []capacity.Action) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	w := n.options.Workloads
	w.RLock()
	defer w.RUnlock()
	v := &n.orphans
	sameWorkloads := len(workloads) == len(v.workloads) && (len(workloads) == 0 || &workloads[0] == &v.workloads[0])
	if v.valid && v.workloadsVersion == w.Version() && v.nodesVersion == n.version && slices.Equal(v.groups, groups) && sameWorkloads {
		return v.pools, nil
	}
	maps.DeleteFunc(n.views, func(g *capacity.Group, view *groupView) bool {
		// delete a view that is outdated and whose group is not in the current PlatformConfig
		return view.nodesVersion != n.version && !slices.Contains(groups, g)
	})
	*v = orphanView{workloadsVersion: w.Version(), nodesVersion: n.version, groups: groups, workloads: workloads, valid: true}
	for name, p := range n.pools {
		if p.Ours && p.Exists() && !named(groups, name) {
			v.pools = append(v.pools, engine.Orphan{Pool: name, Record: p.Record()})
		}
	}
	slices.SortFunc(v.pools, func(a, b engine.Orphan) int { return cmp.Compare(a.Pool, b.Pool) })
	actions := n.orphanedAnnotations(groups, workloads)
	if len(actions) > maxAnnotationsPerTick {
		actions, v.valid = actions[:maxAnnotationsPerTick], false // the next ticks return the remaining actions
	}
	return v.pools, append(actions, n.options.Buffers.Orphaned(groups, workloads)...)
}

// named reports whether a NodePool is in one of the groups.
func named(groups []*capacity.Group, pool string) bool {
	return slices.ContainsFunc(groups, func(g *capacity.Group) bool {
		return slices.ContainsFunc(g.Pools, func(p capacity.Pool) bool { return p.Name == pool })
	})
}

// orphanedAnnotations returns actions that remove gpuscaler's annotations from pods that belong to no workload of a group. The pods are
// sorted by namespace and name.
func (n *Cache) orphanedAnnotations(groups []*capacity.Group, workloads []scaling.Workload) (actions []capacity.Action) {
	w, kept := n.options.Workloads, map[Pod]bool{}
	for i := range workloads {
		if slices.ContainsFunc(groups, func(g *capacity.Group) bool { return g.Name == workloads[i].Group }) {
			for _, p := range w.TargetPods(&workloads[i]) {
				kept[p] = true
			}
		}
	}
	var annotated []Pod
	for p := range w.GPUPods() {
		if facts := p.GPU(); !kept[p] && !p.Ended() && (facts.DeletionCost.Ours || facts.DoNotDisrupt.Ours) {
			annotated = append(annotated, p)
		}
	}
	slices.SortFunc(annotated, byName)
	for _, p := range annotated {
		mark := capacity.PodAnnotation{UID: string(p.GetUID()), Namespace: p.GetNamespace(), Name: p.GetName(), Rule: explain.RuleRelease}
		if p.GPU().DeletionCost.Ours {
			mark.Kind = capacity.DeletionCost
			actions = append(actions, mark)
		}
		if p.GPU().DoNotDisrupt.Ours {
			mark.Kind = capacity.DoNotDisrupt
			actions = append(actions, mark)
		}
	}
	return actions
}
