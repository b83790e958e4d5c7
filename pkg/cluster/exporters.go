package cluster

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// Exporters lists the pods of a namespace that bear all of the labels, by name: the DCGM exporters, which run one per node and belong
// to no workload. Pods without a node or an address, finished and terminating ones are left out; without a namespace or a label
// there are none, as "every pod" is never meant. It does no I/O.
func (c *Cluster) Exporters(namespace string, by map[string]string) []engine.Pod {
	if namespace == "" || len(by) == 0 {
		return nil
	}
	return c.world.podsWith(namespace, labels.SelectorFromSet(by))
}

func (w *world) podsWith(namespace string, s labels.Selector) []engine.Pod {
	w.mu.RLock()
	defer w.mu.RUnlock()
	var list []engine.Pod
	for _, entry := range w.pods[namespace] {
		p := entry.facts
		if p.phase != podGone && p.pod.Node != "" && p.pod.IP != "" && s.Matches(labels.Set(p.Labels)) {
			list = append(list, p.pod)
		}
	}
	slices.SortFunc(list, func(a, b engine.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
