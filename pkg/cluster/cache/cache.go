// Package cache contains the cluster's workloads in memory: scale targets, their pods, and the HPAs and ScaledObjects that scale them.
// Informers write to the cache, and every read uses only memory. Each change recomputes the one or two views (engine.View, the observed
// state of a workload) that it affects, so that a read only copies a view.
//
//	target.go, scalekind.go, pod.go, hpa.go,
//	scaledobject.go                              the stored fields of each object, and the transform of its informer
//	cache.go, selectors.go                       the cache and the index of pods by label selector
//	software.go                                  the version of the software that a pod runs
//	rejection.go, failedcreate.go                which admission check rejects pods
//	replicas.go, managedhpa.go                   the view of a target: its replicas by state and the HPA that scales it
//	read.go, requests.go                         the methods that the engine calls
//	reader.go                                    the methods for decisions about nodes
//	list.go, policies.go                         the objects that are checked for configuration errors
//
// # Terms
//
//   - entry: a scale target with its pods and the HPAs and the ScaledObject that scale it
//   - managed HPA: the HPA or ScaledObject that reads gpuscaler's metric and scales the target
//   - refused: gpuscaler computes no target for the workload, although its scale target exists
package cache

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// Cache contains workloads and pods. It is safe for concurrent use.
type Cache struct {
	mu      sync.RWMutex
	entries map[Ref]*entry
	pods    map[string]map[string]*podEntry // keys: namespace, name
	index   selectorIndex
	minor   int // minor version of the API server; 0: unknown

	gpuPods map[string]map[string]*Pod // pods that request an extended resource or claim devices; keys: namespace, name
	version uint64                     // changes with each change of a target or a pod

	unmanaged   map[unmanagedKey]unmanagedSum
	countClaims CountClaims                 // set by SetClaims
	nodeStarts  func(node string) NodeStart // set by SetNodeStarts
}

// CountClaims returns how many devices the ResourceClaims of a pod or pod template reserve, as units of a resource.
// deviceclaims.Cache.Count implements it.
type CountClaims func(namespace string, claims []gpupods.ClaimRef, resource string, counted gpupods.Counted) gpupods.ClaimCount

// SetClaims sets the function that counts the devices of ResourceClaims. Until it is set, each claim counts as a claim for an unknown
// number of GPUs. The function is called while the Cache is locked, so it must not call methods of the Cache.
func (c *Cache) SetClaims(count CountClaims) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countClaims = count
}

// entry contains a scale target, its pods, and the HPAs and the ScaledObject that scale it. The first of these objects that an informer
// reads creates the entry. An HPA can be read before the Deployment that it scales.
type entry struct {
	target       *Target // nil: the scale target does not exist or was not read yet
	minor        int
	nodeStarts   func(node string) NodeStart // nil: the start of every node is unknown
	pods         map[string]*Pod
	hpas         map[string]*HPA
	scaledObject *ScaledObject

	failedCreate failedCreate // set by PutFailedCreate

	refusal  string           // why gpuscaler computes no target although the scale target exists
	extended []gpupods.Amount // extended, perPod and unknown are the results of effectiveResources
	perPod   []gpupods.Amount
	unknown  bool
	view     engine.View
	policy   string // the policy whose target the managed HPA reads; empty: any policy with this scale target
	list     []engine.Pod
}

type podEntry struct {
	pod     *Pod
	entries []*entry // the scale targets whose selector matches the pod; nearly always one
}

// New returns an empty Cache. minor is the API server's minor version, 0 if it is unknown.
func New(minor int) *Cache {
	return &Cache{
		entries: map[Ref]*entry{},
		pods:    map[string]map[string]*podEntry{},
		index:   selectorIndex{},
		gpuPods: map[string]map[string]*Pod{},
		minor:   minor,

		unmanaged: map[unmanagedKey]unmanagedSum{},
	}
}

// SetServerMinor sets the API server's minor version. It is called before the first object is put.
func (c *Cache) SetServerMinor(minor int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.minor = minor
}

// at returns the entry of a scale target, and creates it if necessary. The caller holds the lock of the cache.
func (c *Cache) at(r Ref) *entry {
	e := c.entries[r]
	if e == nil {
		e = &entry{minor: c.minor, nodeStarts: c.nodeStarts, pods: map[string]*Pod{}, hpas: map[string]*HPA{}}
		c.entries[r] = e
	}
	return e
}

// refreshOrDelete recomputes the view of an entry, or deletes the entry if it has neither a target nor an HPA nor a ScaledObject. The
// caller holds the lock of the cache.
func (c *Cache) refreshOrDelete(r Ref, e *entry) {
	if e.target == nil && len(e.hpas) == 0 && e.scaledObject == nil {
		delete(c.entries, r)
		return
	}
	e.refresh()
}

// PutTarget stores a new or changed scale target. If its /scale can no longer be read, gpuscaler computes no target for the workload, but
// the entry keeps its pods.
func (c *Cache) PutTarget(t *Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	e := c.at(t.Ref)
	old := e.target
	t = t.refusedAfter(old)
	e.target = t
	if old == nil || !sameSelector(old.Selector, t.Selector) {
		c.removePods(e, old)
		c.addPods(e, t)
	}
	e.refresh()
}

func sameSelector(a, b labels.Selector) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.String() == b.String()
}

// DropTarget deletes a scale target.
func (c *Cache) DropTarget(r Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	e := c.entries[r]
	if e == nil || e.target == nil {
		return
	}
	c.removePods(e, e.target)
	e.target = nil
	c.refreshOrDelete(r, e)
}

// addPods indexes the selector of a target and adds the existing pods that match the selector.
func (c *Cache) addPods(e *entry, t *Target) {
	if t.Selector == nil {
		return
	}
	c.index.add(t.Namespace, t.Selector, e)
	for name, p := range c.pods[t.Namespace] {
		if t.Selector.Matches(labels.Set(p.pod.Labels)) {
			p.entries = append(p.entries, e)
			e.pods[name] = p.pod
		}
	}
}

func (c *Cache) removePods(e *entry, t *Target) {
	if t == nil || t.Selector == nil {
		return
	}
	c.index.remove(t.Namespace, t.Selector, e)
	for name := range e.pods {
		if p := c.pods[t.Namespace][name]; p != nil {
			p.entries = slices.DeleteFunc(p.entries, func(other *entry) bool { return other == e })
		}
	}
	clear(e.pods)
}

// PutPod stores a new or changed pod.
func (c *Cache) PutPod(p *Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.putGPUPod(p)
	byName := c.pods[p.Namespace]
	if byName == nil {
		byName = map[string]*podEntry{}
		c.pods[p.Namespace] = byName
	}
	stored := byName[p.Name]
	if stored == nil {
		stored = &podEntry{}
		byName[p.Name] = stored
	}
	previous := stored.entries
	relabeled := stored.pod == nil || !sameLabels(stored.pod.Labels, p.Labels)
	stored.pod = p
	if relabeled {
		stored.entries = c.index.matching(p.Namespace, p.Labels)
		for _, e := range previous {
			delete(e.pods, p.Name)
			e.refresh()
		}
	}
	for _, e := range stored.entries {
		e.pods[p.Name] = p
		e.refresh()
	}
}

func sameLabels(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if other, ok := b[k]; !ok || other != v {
			return false
		}
	}
	return true
}

// DropPod deletes a pod.
func (c *Cache) DropPod(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.dropGPUPod(namespace, name)
	stored := c.pods[namespace][name]
	if stored == nil {
		return
	}
	delete(c.pods[namespace], name)
	if len(c.pods[namespace]) == 0 {
		delete(c.pods, namespace)
	}
	for _, e := range stored.entries {
		delete(e.pods, name)
		e.refresh()
	}
}

// PutHPA stores a new or changed HPA. old is the previous version of the HPA, which can have another scale target. old is nil for a new
// HPA.
func (c *Cache) PutHPA(old, h *HPA) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old != nil && old.Target != h.Target {
		c.dropHPA(old)
	}
	e := c.at(h.Target)
	e.hpas[h.Name] = h
	e.refresh()
}

// DropHPA deletes an HPA.
func (c *Cache) DropHPA(h *HPA) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropHPA(h)
}

func (c *Cache) dropHPA(h *HPA) {
	if e := c.entries[h.Target]; e != nil {
		delete(e.hpas, h.Name)
		c.refreshOrDelete(h.Target, e)
	}
}

// PutScaledObject stores a new or changed ScaledObject. old is the previous version of the ScaledObject, or nil for a new ScaledObject.
func (c *Cache) PutScaledObject(old, s *ScaledObject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old != nil && old.Target != s.Target {
		c.dropScaledObject(old)
	}
	e := c.at(s.Target)
	e.scaledObject = s
	e.refresh()
}

// DropScaledObject deletes a ScaledObject.
func (c *Cache) DropScaledObject(s *ScaledObject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropScaledObject(s)
}

func (c *Cache) dropScaledObject(s *ScaledObject) {
	if e := c.entries[s.Target]; e != nil && e.scaledObject != nil && e.scaledObject.Name == s.Name {
		e.scaledObject = nil
		c.refreshOrDelete(s.Target, e)
	}
}
