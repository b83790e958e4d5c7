package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// refresh recomputes everything that readers copy. The caller holds the world's lock. Lists are made anew: a reader may still
// hold the one before.
func (t *target) refresh() {
	v := engine.View{}
	v.MinReplicas, v.MaxReplicas = t.bounds()
	said := make([]*operatorFacts, 0, 2)
	if t.facts != nil {
		v.Replicas, v.GPUs = t.facts.replicas, t.facts.gpus
		t.count(&v)
		said = append(said, &t.facts.operator)
	}
	for _, name := range sortedNames(t.hpas) {
		said = append(said, &t.hpas[name].operator)
	}
	if t.scaledObject != nil {
		said = append(said, &t.scaledObject.operator)
	}
	v.Operator, v.OperatorBy = merge(said...)
	if t.scaledObject != nil && t.facts != nil {
		v.Operator, v.OperatorBy = t.scaledObject.pause.over(v.Operator, v.OperatorBy, v.Replicas)
	}
	v.ManagedHPA, t.policy = t.follow()
	t.view = v
	t.list = t.listPods()
	t.refusal = t.refuse()
}

// refuse returns why the target cannot be scaled, or nothing. A kind that is known through /scale only may make several pods of one replica,
// and nothing in the API says how many: counted as replicas, its pods would multiply every target. Such a kind has at least twice as many
// pods as replicas. A rolling update has as many for a moment only: status.replicas follows.
func (t *target) refuse() string {
	if t.facts == nil || !t.facts.scaled {
		return ""
	}
	pods, replicas := len(t.list), max(t.facts.replicas, t.facts.exist, 1)
	if pods < 2*int(replicas) {
		return ""
	}
	return fmt.Sprintf("%s %s/%s has %d pods for %d replicas, and only a LeaderWorkerSet says how many pods a replica has: its replicas are not decided",
		t.facts.ref.kind, t.facts.ref.namespace, t.facts.ref.name, pods, replicas)
}

func sortedNames[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// count counts the replicas by state. Pods that finished or terminate are in no state.
func (t *target) count(v *engine.View) {
	for _, p := range t.pods {
		if p.phase == podCrashing && (v.CrashingPod == "" || p.Name < v.CrashingPod) {
			v.CrashingPod = p.Name
		}
	}
	if t.facts.size > 1 {
		t.countGroups(v)
		return
	}
	for _, p := range t.pods {
		switch p.phase {
		case podReady:
			v.Ready++
		case podLoading:
			v.Loading++
		case podPending:
			v.Pending++
		case podCrashing:
			v.Crashing++
		}
	}
}

// group is one replica of a LeaderWorkerSet.
type group struct{ pods, ready, pending, lost int32 }

// countGroups counts replicas that are several pods: a replica is ready only when all of its pods are, crashes while one of them does,
// is pending while one of them has no node, and loads otherwise, also while workers are still to be created (startupPolicy LeaderReady).
func (t *target) countGroups(v *engine.View) {
	groups := map[string]*group{}
	for _, p := range t.pods {
		g := groups[p.group]
		if g == nil {
			g = &group{}
			groups[p.group] = g
		}
		switch p.phase {
		case podReady:
			g.ready++
		case podPending:
			g.pending++
		case podCrashing:
			g.lost++
		case podGone:
			continue
		}
		g.pods++
	}
	for _, g := range groups {
		switch {
		case g.pods == 0:
		case g.lost > 0:
			v.Crashing++
		case g.pending > 0:
			v.Pending++
		case g.ready >= t.facts.size:
			v.Ready++
		default:
			v.Loading++
		}
	}
}

// listPods lists the pods that may be asked for metrics: those that have not finished and do not terminate.
func (t *target) listPods() []engine.Pod {
	list := make([]engine.Pod, 0, len(t.pods))
	for _, p := range t.pods {
		if p.phase != podGone {
			list = append(list, p.pod)
		}
	}
	slices.SortFunc(list, func(a, b engine.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// podsByReplica lists the pods by name, those of one replica together.
func (t *target) podsByReplica() []*podFacts {
	list := make([]*podFacts, 0, len(t.pods))
	for _, p := range t.pods {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *podFacts) int {
		if t.facts.size > 1 && a.group != b.group {
			return cmp.Compare(a.group, b.group)
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return list
}
