package cluster

import (
	"iter"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodes"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The methods of this file let package nodes read the cache of targets and pods.

var (
	_ nodes.Workloads = (*world)(nil)
	_ nodes.Pod       = (*podFacts)(nil)
)

func (w *world) RLock()          { w.mu.RLock() }
func (w *world) RUnlock()        { w.mu.RUnlock() }
func (w *world) Version() uint64 { return w.version }

func (w *world) NodeTarget(work *scaling.Workload) (t nodes.Target, ok bool) {
	found := w.targets[refOfWorkload(work)]
	if found == nil || found.facts == nil {
		return t, false
	}
	f := found.facts
	return nodes.Target{
		APIVersion: f.apiVersion, UID: f.UID, Replicas: f.replicas, Size: f.size, Extended: f.extended, PerPod: f.perPod,
		Claims: f.claims, LimitsOnly: f.limitsOnly, Quota: f.quota,
	}, true
}

func (w *world) TargetPods(work *scaling.Workload) []nodes.Pod {
	found := w.targets[refOfWorkload(work)]
	if found == nil || found.facts == nil {
		return nil
	}
	list := make([]nodes.Pod, 0, len(found.pods))
	for _, p := range found.podsByReplica() {
		list = append(list, p)
	}
	return list
}

func (w *world) GPUPods() iter.Seq[nodes.Pod] {
	return func(yield func(nodes.Pod) bool) {
		for _, byName := range w.gpuPods {
			for _, p := range byName {
				if !yield(p) {
					return
				}
			}
		}
	}
}

func (w *world) AllPods() iter.Seq[nodes.Pod] {
	return func(yield func(nodes.Pod) bool) {
		for _, byName := range w.pods {
			for _, entry := range byName {
				if !yield(entry.facts) {
					return
				}
			}
		}
	}
}

// The comments of nodes.Pod describe these methods.

func (p *podFacts) NodeName() string       { return p.pod.Node }
func (p *podFacts) Ended() bool            { return p.phase == podGone }
func (p *podFacts) Ready() bool            { return p.phase == podReady }
func (p *podFacts) Loading() bool          { return p.phase == podLoading }
func (p *podFacts) ReplicaName() string    { return p.group }
func (p *podFacts) Daemon() bool           { return p.daemon }
func (p *podFacts) BlocksDisruption() bool { return p.undisrupted }
func (p *podFacts) GPU() *gpupods.Facts    { return p.gpuPod }
