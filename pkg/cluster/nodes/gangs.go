package nodes

import (
	"cmp"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// gangKey identifies a gang.
type gangKey struct{ namespace, name string }

// gang contains the data about a gang: pods that start only together.
type gang struct {
	admitted bool  // whether at least one of its pods has no scheduling gate
	size     int64 // number of its pods, according to their labels or annotations; 0: unknown
	counted  int64 // number of its pods in the observation of the group
	gpus     int64 // GPUs of its largest pod in the observation
	waits    bool  // whether at least one of its pods in the observation has no node
}

// gangs contains the gangs of the pods that have not finished.
type gangs map[gangKey]*gang

func gangsOf(pods []Pod) gangs {
	all := gangs{}
	for _, p := range pods {
		facts := p.GPU()
		if p.Ended() || facts.Gang.Name == "" {
			continue
		}
		key := gangKey{p.GetNamespace(), facts.Gang.Name}
		if all[key] == nil {
			all[key] = &gang{}
		}
		all[key].admitted = all[key].admitted || !facts.Gated
		all[key].size = max(all[key].size, facts.Gang.Size)
	}
	return all
}

func (all gangs) of(p Pod) *gang { return all[gangKey{p.GetNamespace(), p.GPU().Gang.Name}] }

// admitted reports whether a pod belongs to a gang of which at least one pod has no scheduling gate.
func (all gangs) admitted(p Pod) bool {
	g := all.of(p)
	return g != nil && g.admitted
}

// count updates the gang of a pod that is in the observation of the group. gpus is the number of GPUs of the pod.
func (all gangs) count(p Pod, gpus int64) {
	if g := all.of(p); g != nil {
		g.counted, g.gpus, g.waits = g.counted+1, max(g.gpus, gpus), g.waits || p.NodeName() == ""
	}
}

// missing returns one pod for each gang that lacks pods. This pod represents all missing pods: it requests as much as they would together
// if each of them were as large as the largest pod of the gang. Pods without GPUs count as existing pods. If a gang has pods in several
// groups, each of these groups includes the missing pods, because it is unknown on which nodes they will run.
//
// Finished pods are not read. If all existing pods of a gang have nodes, missing therefore assumes that the missing pods have finished.
func (all gangs) missing(w Workloads) (pods []capacity.Pod) {
	existing := map[gangKey]int64{}
	for key, g := range all {
		if g.admitted && g.waits && g.size > g.counted {
			existing[key] = 0
		}
	}
	if len(existing) == 0 {
		return nil
	}
	for p := range w.AllPods() {
		key := gangKey{p.GetNamespace(), gpupods.GangName(p.GetLabels())}
		if _, lacks := existing[key]; lacks {
			existing[key]++
		}
	}
	for key, n := range existing {
		if g := all[key]; g.size > n {
			pods = append(pods, capacity.Pod{Namespace: key.namespace, Name: key.name, GPUs: (g.size - n) * g.gpus, Pool: -1, Node: -1,
				Pending: true, Held: true})
		}
	}
	slices.SortFunc(pods, func(a, b capacity.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods
}
