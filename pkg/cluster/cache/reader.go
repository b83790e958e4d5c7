package cache

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// RLock locks the cache for reading, so that several reads return the same state. Until RUnlock the caller may call only the methods in
// this file, because other methods lock the cache again.
func (c *Cache) RLock() { c.mu.RLock() }

// RUnlock releases the lock that RLock acquired.
func (c *Cache) RUnlock() { c.mu.RUnlock() }

// Version returns a number that changes with each change of a target or a pod. The caller holds the lock.
func (c *Cache) Version() uint64 { return c.version }

// TargetOf returns a workload's scale target, or nil if it is not in the cache. The caller holds the lock.
func (c *Cache) TargetOf(w *scaling.Workload) *Target {
	if e := c.entries[RefOfWorkload(w)]; e != nil {
		return e.target
	}
	return nil
}

// ResourcesOf returns the extended resources that one replica of a workload requests, and the extended resources of its largest pod. Both
// include requests of existing pods that the pod template does not have, for example because of a LimitRange. perPod is empty if a replica
// has one pod. The caller holds the lock.
func (c *Cache) ResourcesOf(w *scaling.Workload) (perReplica, perPod []gpupods.Amount) {
	if e := c.entries[RefOfWorkload(w)]; e != nil {
		return e.extended, e.perPod
	}
	return nil, nil
}

// RejectsPods reports whether the API server rejects new pods of a workload's scale target. The caller holds the lock.
func (c *Cache) RejectsPods(w *scaling.Workload) bool {
	e := c.entries[RefOfWorkload(w)]
	return e != nil && e.view.Rejection.Kind != ""
}

// PodsOf returns all pods of a workload, including pods that have finished or are terminating. The pods are sorted by name. If a replica
// has several pods, they are sorted first by replica and then by name. The caller holds the lock.
func (c *Cache) PodsOf(w *scaling.Workload) []*Pod {
	e := c.entries[RefOfWorkload(w)]
	if e == nil {
		return nil
	}
	label := ""
	if e.target != nil && e.target.Size > 1 {
		label = e.target.ReplicaLabel
	}
	list := make([]*Pod, 0, len(e.pods))
	for _, p := range e.pods {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(a.Labels[label], b.Labels[label]), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// GPUPods returns the pods that request an extended resource or claim devices. Namespaces are sorted, and the pods of a namespace are not.
// The caller holds the lock.
func (c *Cache) GPUPods() iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		for _, namespace := range slices.Sorted(maps.Keys(c.gpuPods)) {
			for _, p := range c.gpuPods[namespace] {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// AllPods returns every pod, in random order. The caller holds the lock.
func (c *Cache) AllPods() iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		for _, byName := range c.pods {
			for _, stored := range byName {
				if !yield(stored.pod) {
					return
				}
			}
		}
	}
}

// putGPUPod adds a pod to the index for GPUPods if it requests an extended resource or claims devices. The caller holds the lock.
func (c *Cache) putGPUPod(p *Pod) {
	if p.gpu == nil {
		return
	}
	byName := c.gpuPods[p.Namespace]
	if byName == nil {
		byName = map[string]*Pod{}
		c.gpuPods[p.Namespace] = byName
	}
	byName[p.Name] = p
}

func (c *Cache) dropGPUPod(namespace, name string) {
	delete(c.gpuPods[namespace], name)
	if len(c.gpuPods[namespace]) == 0 {
		delete(c.gpuPods, namespace)
	}
}
