package cluster

import (
	"iter"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodes"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var (
	_ nodes.Workloads = nodeWorkloads{}
	_ nodes.Pod       = (*cache.Pod)(nil)
)

// nodeWorkloads lets package nodes read the cache of scale targets and pods.
type nodeWorkloads struct{ *cache.Cache }

func (w nodeWorkloads) NodeTarget(work *scaling.Workload) (t nodes.Target, ok bool) {
	found := w.TargetOf(work)
	if found == nil {
		return t, false
	}
	return nodes.Target{
		APIVersion: found.APIVersion, UID: found.UID, Replicas: found.Replicas, Size: found.Size, Extended: w.ExtendedOf(work),
		PerPod: found.PerPod, Claims: found.Claims, LimitsOnly: found.LimitsOnly, Quota: found.Rejection.Kind != "",
	}, true
}

func (w nodeWorkloads) TargetPods(work *scaling.Workload) []nodes.Pod {
	if w.TargetOf(work) == nil {
		return nil
	}
	pods := w.PodsOf(work)
	list := make([]nodes.Pod, len(pods))
	for i, p := range pods {
		list[i] = p
	}
	return list
}

func (w nodeWorkloads) GPUPods() iter.Seq[nodes.Pod] { return asNodePods(w.Cache.GPUPods()) }

func (w nodeWorkloads) AllPods() iter.Seq[nodes.Pod] { return asNodePods(w.Cache.AllPods()) }

func asNodePods(pods iter.Seq[*cache.Pod]) iter.Seq[nodes.Pod] {
	return func(yield func(nodes.Pod) bool) {
		pods(func(p *cache.Pod) bool { return yield(p) })
	}
}
