package cluster

import (
	"iter"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodes"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var (
	_ nodes.Workloads = NodeWorkloads{}
	_ nodes.Pod       = (*cache.Pod)(nil)
)

// NodeWorkloads lets package nodes read the cache of scale targets and pods.
type NodeWorkloads struct{ *cache.Cache }

// NodeTarget returns the scale target of a workload with the resources that one replica and its largest pod request. ok is false if the
// scale target is not in the cache.
func (w NodeWorkloads) NodeTarget(work *scaling.Workload) (t nodes.Target, ok bool) {
	found := w.TargetOf(work)
	if found == nil {
		return t, false
	}
	perReplica, perPod := w.ResourcesOf(work)
	return nodes.Target{
		APIVersion: found.APIVersion, UID: found.UID, Replicas: found.Replicas, Size: found.Size,
		SizeVariable: found.SizeVariable, ReplicaLabel: found.ReplicaLabel,
		Extended: perReplica, PerPod: perPod, Claims: found.Claims, LimitsOnly: found.LimitsOnly, Quota: w.RejectsPods(work),
	}, true
}

// TargetPods returns the pods of a workload's scale target. It returns none if the scale target is not in the cache.
func (w NodeWorkloads) TargetPods(work *scaling.Workload) []nodes.Pod {
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

// GPUPods returns all pods that request GPUs.
func (w NodeWorkloads) GPUPods() iter.Seq[nodes.Pod] { return asNodePods(w.Cache.GPUPods()) }

// AllPods returns all pods in the cache.
func (w NodeWorkloads) AllPods() iter.Seq[nodes.Pod] { return asNodePods(w.Cache.AllPods()) }

func asNodePods(pods iter.Seq[*cache.Pod]) iter.Seq[nodes.Pod] {
	return func(yield func(nodes.Pod) bool) {
		pods(func(p *cache.Pod) bool { return yield(p) })
	}
}
