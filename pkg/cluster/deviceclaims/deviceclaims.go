// Package deviceclaims counts the devices that pods claim by dynamic resource allocation (DRA), and determines whether the devices may be
// GPUs. It stores ResourceClaims, ResourceClaimTemplates and DeviceClasses, whose API is stable since Kubernetes 1.34. If the API server
// does not serve this API, or an object was not read yet, a claim counts as a claim for an unknown number of GPUs.
//
// A device is one result of an allocation: a whole GPU, or a partition of a GPU such as a MIG instance. A claim has one or more device
// requests:
//
//   - a request for an exact count reserves that many devices
//   - a request for all matching devices of a node reserves a number of devices that is known only after the allocation
//   - a request with alternatives (firstAvailable) counts as its largest alternative until the scheduler has chosen one
//   - a request with adminAccess reserves no device
//
// Devices count as units of a resource in two cases: the resource is the name of their DeviceClass
// (deviceclass.resource.kubernetes.io/gpu.nvidia.com), or it is the extendedResourceName of their DeviceClass (nvidia.com/gpu).
package deviceclaims

import (
	"slices"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// Kinds of dynamic resource allocation.
var (
	ClaimKind    = resourcev1.SchemeGroupVersion.WithKind("ResourceClaim")
	TemplateKind = resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate")
	ClassKind    = resourcev1.SchemeGroupVersion.WithKind("DeviceClass")
)

type claimKey struct {
	namespace, name string
	template        bool
}

// Cache contains the claims and device classes of the cluster. It is safe for concurrent use.
type Cache struct {
	changed func()

	mu      sync.RWMutex
	claims  map[claimKey]*Claim
	classes map[string]*Class
}

// New returns an empty Cache. The Cache calls the function changed after each change of its contents.
func New(changed func()) *Cache {
	return &Cache{changed: changed, claims: map[claimKey]*Claim{}, classes: map[string]*Class{}}
}

// PutClaim adds or replaces a claim.
func (c *Cache) PutClaim(claim *Claim) { c.change(func() { c.claims[claim.key()] = claim }) }

// DeleteClaim removes a claim.
func (c *Cache) DeleteClaim(claim *Claim) { c.change(func() { delete(c.claims, claim.key()) }) }

// PutClass adds or replaces a device class.
func (c *Cache) PutClass(class *Class) { c.change(func() { c.classes[class.Name] = class }) }

// DeleteClass removes a device class.
func (c *Cache) DeleteClass(class *Class) { c.change(func() { delete(c.classes, class.Name) }) }

func (c *Cache) change(what func()) {
	c.mu.Lock()
	what()
	c.mu.Unlock()
	c.changed()
}

// Count returns how many devices of a resource the claims of one pod reserve. Pods can share a claim, so Count adds the claims to the set
// counted, and does not count the devices of claims that are already in the set. A nil set means that the claims are from a pod template.
// Count then ignores claims that the template refers to by name, because all replicas share them. If resource is empty, Count counts the
// devices of every DeviceClass that may have GPUs.
func (c *Cache) Count(namespace string, claims []gpupods.ClaimRef, resource string, counted gpupods.Counted) (n gpupods.ClaimCount) {
	if len(claims) == 0 {
		return n
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for i := range claims {
		ref := &claims[i]
		if ref.Class != "" {
			c.add(&n, []option{{ref.Class, ref.Devices}}, resource, true)
			continue
		}
		claim := c.claimOf(namespace, ref)
		if claim == nil {
			n.Unknown = true
			continue
		}
		id := [2]string{namespace, claim.Name}
		counts := claim.template || counted != nil && !counted[id]
		if !claim.template && counted != nil {
			counted[id] = true
		}
		for _, options := range claim.requests {
			c.add(&n, options, resource, counts)
		}
	}
	n.Devices = min(n.Devices, gpupods.MaxGPUs)
	return n
}

// claimOf returns the claim to which a pod refers. If the claim is not in the cache, it returns the template of the claim. If neither is in
// the cache, it returns nil. The caller holds the lock.
func (c *Cache) claimOf(namespace string, ref *gpupods.ClaimRef) *Claim {
	if ref.Name != "" {
		if claim := c.claims[claimKey{namespace, ref.Name, false}]; claim != nil {
			return claim
		}
	}
	return c.claims[claimKey{namespace, ref.Template, true}]
}

// add adds the devices of one device request to n. options contains the alternatives of the request. If counts is false, add does not
// increase n.Devices, because the devices were counted for another pod.
func (c *Cache) add(n *gpupods.ClaimCount, options []option, resource string, counts bool) {
	var greatest int64
	for _, o := range options {
		switch {
		case c.countsAs(o.class, resource):
			n.Claimed = true
			n.Unknown = n.Unknown || o.devices < 0
			greatest = max(greatest, o.devices)
		case c.mayBeOfGPUs(o.class):
			n.Unknown = true
		}
	}
	if counts {
		n.Devices = min(n.Devices+greatest, gpupods.MaxGPUs)
	}
}

// countsAs reports whether a device of a class counts as one unit of a resource. If resource is empty, it reports whether the class may
// have GPUs.
func (c *Cache) countsAs(class, resource string) bool {
	known := c.classes[class]
	if known == nil || resource == "" {
		return known != nil && known.gpu
	}
	return class == gpupods.ClassOf(resource) || known.extendedResource != "" && known.extendedResource == resource
}

// ExtendedResource returns the extendedResourceName of the DeviceClass that a resource name contains. For example, it returns
// nvidia.com/gpu for deviceclass.resource.kubernetes.io/gpu.nvidia.com. Pods can request the same devices by both names. It returns "" if
// the resource name contains no DeviceClass, or the class has no extendedResourceName.
func (c *Cache) ExtendedResource(resource string) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if class := c.classes[gpupods.ClassOf(resource)]; class != nil {
		return class.extendedResource
	}
	return ""
}

// MayBeGPUs reports whether at least one of the claims may be for GPUs. If a claim or its device class is not in the cache, MayBeGPUs
// returns true.
func (c *Cache) MayBeGPUs(namespace string, claims []gpupods.ClaimRef) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.ContainsFunc(claims, func(ref gpupods.ClaimRef) bool {
		if ref.Class != "" {
			return c.mayBeOfGPUs(ref.Class)
		}
		claim := c.claimOf(namespace, &ref)
		return claim == nil || slices.ContainsFunc(claim.requests, func(options []option) bool {
			return slices.ContainsFunc(options, func(o option) bool { return c.mayBeOfGPUs(o.class) })
		})
	})
}

func (c *Cache) mayBeOfGPUs(class string) bool {
	known := c.classes[class]
	return known == nil || known.gpu
}
