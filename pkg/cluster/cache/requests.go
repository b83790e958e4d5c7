package cache

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Request returns how much of a resource one replica of a workload requests (perReplica), and the sum of the requests of its existing pods
// (pods). Both include devices that pods claim by dynamic resource allocation. known is false if perReplica is not reliable: the workload
// is not in the cache, its pod template cannot be decoded, or its pods may claim an unknown number of GPUs. In pods, a pod with such a
// claim counts as at least one GPU.
func (c *Cache) Request(w *scaling.Workload, resource string) (perReplica int64, known bool, pods int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.entries[RefOfWorkload(w)]
	if e == nil || e.target == nil {
		return 0, false, 0
	}
	counted := gpupods.Counted{}
	for _, p := range e.pods {
		pods += c.podRequest(p, resource, counted)
	}
	claims := c.claimsOf(w.Key.Namespace, e.target, resource)
	return gpupods.CountOf(e.extended, resource) + claims.Devices, !e.unknown && !claims.Unknown, pods
}

// effectiveResources returns the extended resources that one replica requests (perReplica). These are the requests of the pod template. If
// the template does not request a resource but existing pods do, their request is used, because a LimitRange or a webhook can add requests
// to pods. If the template requests a resource, the requests of existing pods are ignored, because these pods may have been created from a
// previous version of the template. unknown is true if the template cannot be decoded. If a replica has several pods, perPod contains the
// requests of its largest pod. For a kind that is read through /scale and has no pod template, effectiveResources reads only the existing
// pods, because pods of such a kind can have several templates.
func (e *entry) effectiveResources() (perReplica, perPod []gpupods.Amount, unknown bool) {
	switch {
	case e.target.Unreadable && e.target.ReadScale:
		return e.existingResources()
	case e.target.Size > 1:
		return e.target.Extended, e.target.PerPod, e.target.Unreadable
	}
	perReplica = e.target.Extended
	for _, p := range e.pods {
		if p.phase == ended || p.gpu == nil {
			continue
		}
		for _, a := range p.gpu.Extended {
			if gpupods.CountOf(e.target.Extended, a.Resource) == 0 {
				perReplica = withAtLeast(perReplica, a)
			}
		}
	}
	return perReplica, nil, e.target.Unreadable
}

// existingResources reads the requests of the existing replicas that have all their pods. For each resource it returns the largest request
// of a replica (perReplica). If a replica has several pods, it also returns the largest request of a pod (perPod). unknown is true if no
// replica has all its pods.
func (e *entry) existingResources() (perReplica, perPod []gpupods.Amount, unknown bool) {
	unknown = true
	if e.target.Size <= 1 {
		for _, p := range e.pods {
			if p.phase == ended {
				continue
			}
			if unknown = false; p.gpu != nil {
				for _, a := range p.gpu.Extended {
					perReplica = withAtLeast(perReplica, a)
				}
			}
		}
		return perReplica, nil, unknown
	}
	for _, group := range e.podsByReplica() {
		if len(group) < int(e.sizeOf(group)) {
			continue
		}
		unknown = false
		sums := map[string]int64{}
		for _, p := range group {
			if p.gpu == nil {
				continue
			}
			for _, a := range p.gpu.Extended {
				sums[a.Resource] += a.Count
				perPod = withAtLeast(perPod, a)
			}
		}
		for _, resource := range slices.Sorted(maps.Keys(sums)) {
			perReplica = withAtLeast(perReplica, gpupods.Amount{Resource: resource, Count: min(sums[resource], gpupods.MaxGPUs)})
		}
	}
	return perReplica, perPod, unknown
}

// withAtLeast returns the list, in which the count of the resource a.Resource is increased to a.Count if it is lower. It does not change
// its argument.
func withAtLeast(list []gpupods.Amount, a gpupods.Amount) []gpupods.Amount {
	if gpupods.CountOf(list, a.Resource) >= a.Count {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		if list[i].Resource == a.Resource {
			list[i].Count = a.Count
			return list
		}
	}
	return append(list, a)
}

// gpus returns how many GPUs one replica requests.
func (e *entry) gpus() int32 {
	if e.target.GPUs > 0 {
		return e.target.GPUs
	}
	var n int64
	for _, a := range e.extended {
		if gpupods.IsGPU(corev1.ResourceName(a.Resource)) {
			n += a.Count
		}
	}
	return int32(min(n, gpupods.MaxGPUs))
}

// podRequest returns how much of a resource a pod requests or claims. It returns 0 for a pod that has finished or is terminating. If the
// resource is GPUs and the pod may claim an unknown number of GPUs, it returns at least 1. The caller holds the lock.
func (c *Cache) podRequest(p *Pod, resource string, counted gpupods.Counted) int64 {
	if p.phase == ended || p.gpu == nil {
		return 0
	}
	claims := c.count(p.Namespace, p.gpu.Claims, resource, counted)
	n := gpupods.CountOf(p.gpu.Extended, resource) + claims.Devices
	if claims.Unknown {
		n = max(n, 1)
	}
	return n
}

// claimsOf counts the devices that each replica of a target claims. For a replica with several pods this number is unknown, because the
// leader and the workers can have different claims. The caller holds the lock.
func (c *Cache) claimsOf(namespace string, t *Target, resource string) gpupods.ClaimCount {
	n := c.count(namespace, t.Claims, resource, nil)
	if t.Size > 1 && n.Claimed {
		n.Unknown, n.Devices = true, 0
	}
	return n
}

// count counts the devices of claims as units of a resource. For a claim with an unknown number of devices, Unknown is set only if the
// resource is GPUs. The caller holds the lock.
func (c *Cache) count(namespace string, claims []gpupods.ClaimRef, resource string, counted gpupods.Counted) (n gpupods.ClaimCount) {
	if len(claims) == 0 {
		return n
	}
	if n.Unknown = true; c.countClaims != nil {
		n = c.countClaims(namespace, claims, resource, counted)
	}
	n.Unknown = n.Unknown && gpupods.IsGPU(corev1.ResourceName(resource))
	return n
}

type unmanagedKey struct {
	team     *scaling.Team
	resource string
}

// unmanagedSum is a cached result of Unmanaged. It is valid until the version of the cache or the slice of workloads changes.
type unmanagedSum struct {
	version   uint64
	workloads []*scaling.Workload
	sum       int64
}

// maxUnmanagedSums is the largest number of cached results of Unmanaged. A cluster has fewer teams with limits than this.
const maxUnmanagedSums = 1024

// Unmanaged returns how much of a resource is requested in the team's namespaces by pods that belong to none of the workloads.
func (c *Cache) Unmanaged(team *scaling.Team, workloads []*scaling.Workload, resource string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := unmanagedKey{team, resource}
	if s, ok := c.unmanaged[key]; ok && s.version == c.version && sameSlice(s.workloads, workloads) {
		return s.sum
	}
	managed := map[*Pod]bool{}
	for _, w := range workloads {
		if e := c.entries[RefOfWorkload(w)]; e != nil {
			for _, p := range e.pods {
				managed[p] = true
			}
		}
	}
	s, claims, counted := unmanagedSum{version: c.version, workloads: workloads}, false, gpupods.Counted{}
	for _, namespace := range team.Namespaces {
		for _, p := range c.gpuPods[namespace] {
			if !managed[p] {
				s.sum += c.podRequest(p, resource, counted)
				claims = claims || len(p.gpu.Claims) > 0
			}
		}
	}
	if claims {
		return s.sum // not cached: the sum also depends on claims and device classes, whose changes do not change c.version
	}
	if len(c.unmanaged) >= maxUnmanagedSums {
		clear(c.unmanaged) // this also deletes the sums of removed teams
	}
	c.unmanaged[key] = s
	return s.sum
}

// sameSlice reports whether two slices have the same length and the same underlying array.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
