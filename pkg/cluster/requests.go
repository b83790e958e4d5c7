package cluster

import (
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var _ engine.Requests = (*Cluster)(nil)

// Request returns how much of a resource one replica of a workload requests, and what its existing pods request together.
func (c *Cluster) Request(w *scaling.Workload, resource string) (perReplica int64, known bool, pods int64) {
	c.world.mu.RLock()
	defer c.world.mu.RUnlock()
	t := c.world.targets[refOfWorkload(w)]
	if t == nil || t.facts == nil {
		return 0, false, 0
	}
	for _, p := range t.pods {
		pods += p.requests(resource)
	}
	return gpupods.CountOf(t.facts.extended, resource), !t.facts.unreadable, pods
}

// requests is what a pod requests of a resource; 0 once it has ended.
func (p *podFacts) requests(resource string) int64 {
	if p.phase == podGone || p.gpuPod == nil {
		return 0
	}
	return gpupods.CountOf(p.gpuPod.Extended, resource)
}

type unmanagedKey struct {
	team     *scaling.Team
	resource string
}

// unmanagedSum is kept until a target, a pod or the workloads change.
type unmanagedSum struct {
	version uint64
	of      []*scaling.Workload
	sum     int64
}

// Unmanaged returns how much of a resource the pods of the team's namespaces request that belong to none of the workloads.
func (c *Cluster) Unmanaged(team *scaling.Team, of []*scaling.Workload, resource string) int64 {
	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	key := unmanagedKey{team, resource}
	if s, ok := w.unmanaged[key]; ok && s.version == w.version && len(s.of) == len(of) && (len(of) == 0 || &s.of[0] == &of[0]) {
		return s.sum
	}
	managed := map[*podFacts]bool{}
	for _, workload := range of {
		if t := w.targets[refOfWorkload(workload)]; t != nil {
			for _, p := range t.pods {
				managed[p] = true
			}
		}
	}
	s := unmanagedSum{version: w.version, of: of}
	for _, namespace := range team.Namespaces {
		for _, p := range w.gpuPods[namespace] {
			if !managed[p] {
				s.sum += p.requests(resource)
			}
		}
	}
	if len(w.unmanaged) >= mostUnmanaged {
		clear(w.unmanaged) // of teams that are gone
	}
	w.unmanaged[key] = s
	return s.sum
}

// mostUnmanaged bounds the sums that are kept; a cluster has fewer teams with limits.
const mostUnmanaged = 1024
