package cache

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// refresh recomputes everything that readers copy. The caller holds the lock of the cache. Lists are new slices, because a reader can
// still use the previous ones.
func (e *entry) refresh() {
	v := engine.View{}
	v.MinReplicas, v.MaxReplicas = e.bounds()
	operators := make([]*Operator, 0, 2)
	if e.target != nil {
		v.Replicas, v.GPUs = e.target.Replicas, e.target.GPUs
		e.countReplicas(&v)
		operators = append(operators, &e.target.operator)
	}
	for _, name := range sortedKeys(e.hpas) {
		operators = append(operators, &e.hpas[name].operator)
	}
	if e.scaledObject != nil {
		operators = append(operators, &e.scaledObject.operator)
	}
	v.Operator, v.OperatorBy = merge(operators...)
	if e.scaledObject != nil && e.target != nil {
		v.Operator, v.OperatorBy = e.scaledObject.pause.over(v.Operator, v.OperatorBy, v.Replicas)
	}
	v.ManagedHPA, e.policy = e.managedHPA()
	e.view = v
	e.list = e.listPods()
	e.refusal = e.refuse()
}

// refuse returns why no target is computed, or an empty string. A replica of a kind that is read through /scale can have several pods,
// and the API does not report how many: if its pods were counted as replicas, every target would be multiplied. Such a kind has at least
// twice as many pods as replicas. A rolling update has as many only for a moment, because status.replicas follows.
func (e *entry) refuse() string {
	if e.target == nil || !e.target.ReadScale {
		return ""
	}
	pods, replicas := len(e.list), max(e.target.Replicas, e.target.StatusReplicas, 1)
	if pods < 2*int(replicas) {
		return ""
	}
	return fmt.Sprintf("%s has %d pods for %d replicas, and only a LeaderWorkerSet reports how many pods a replica has: no target is computed",
		e.target.Ref, pods, replicas)
}

// countReplicas counts the replicas by state. Ended pods are in no state.
func (e *entry) countReplicas(v *engine.View) {
	for _, p := range e.pods {
		if p.phase == inCrashLoop && (v.CrashingPod == "" || p.Name < v.CrashingPod) {
			v.CrashingPod = p.Name
		}
	}
	if e.target.Size > 1 {
		e.countGroups(v)
		return
	}
	for _, p := range e.pods {
		switch p.phase {
		case ready:
			v.Ready++
		case loading:
			v.Loading++
		case pending:
			v.Pending++
		case inCrashLoop:
			v.Crashing++
		}
	}
}

// group counts the pods of one replica of a LeaderWorkerSet.
type group struct{ pods, ready, pending, crashing int32 }

// countGroups counts replicas of several pods. A replica is ready if all of its pods are ready. It is crashing if one of them is
// crashing, pending if one of them has no node, and otherwise loading, also while workers are not created yet (startupPolicy
// LeaderReady).
func (e *entry) countGroups(v *engine.View) {
	groups := map[string]*group{}
	for _, p := range e.pods {
		g := groups[p.replica]
		if g == nil {
			g = &group{}
			groups[p.replica] = g
		}
		switch p.phase {
		case ready:
			g.ready++
		case pending:
			g.pending++
		case inCrashLoop:
			g.crashing++
		case ended:
			continue
		}
		g.pods++
	}
	for _, g := range groups {
		switch {
		case g.pods == 0:
		case g.crashing > 0:
			v.Crashing++
		case g.pending > 0:
			v.Pending++
		case g.ready >= e.target.Size:
			v.Ready++
		default:
			v.Loading++
		}
	}
}

// listPods returns the pods from which metrics can be read, by name: those that are not ended.
func (e *entry) listPods() []engine.Pod {
	list := make([]engine.Pod, 0, len(e.pods))
	for _, p := range e.pods {
		if p.phase != ended {
			list = append(list, p.pod)
		}
	}
	slices.SortFunc(list, func(a, b engine.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
