package cache

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// View returns the observed state of a workload's scale target. ok is false if the target or its selector is not in the cache, or if
// Refusal returns a reason. View allocates memory only if the bounds of the managed HPA are narrower than the bounds of the policy, for
// the text about this.
func (c *Cache) View(w *scaling.Workload) (v engine.View, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.entries[RefOfWorkload(w)]
	if e == nil || e.target == nil || e.target.Selector == nil || e.refusal != "" {
		return engine.View{}, false
	}
	v = e.view
	v.UID = string(e.target.UID)
	if len(e.target.Claims) > 0 {
		v.GPUs = int32(min(int64(v.GPUs)+c.claimsOf(w.Key.Namespace, e.target, "").Devices, gpupods.MaxGPUs))
	}
	switch {
	case e.policy != "" && e.policy != w.Key.Name:
		// the HPA reads the target of another policy that has the same scale target, so the HPA does not follow this policy
		v.ManagedHPA = engine.ManagedHPA{}
	case v.ManagedHPA.Exact:
		policy := objects.Range{Min: w.Policy.MinReplicas, Max: w.Policy.MaxReplicas}
		own := objects.Range{Min: v.MinReplicas, Max: v.MaxReplicas}
		v.ManagedHPA.Why = objects.Narrower(own, policy, v.ManagedHPA.Kind == ScaledObjectKind)
		v.ManagedHPA.Exact = v.ManagedHPA.Why == ""
	}
	return v, true
}

// UID returns the UID of a workload's scale target. ok is false if the scale target or its selector is not in the cache.
func (c *Cache) UID(w *scaling.Workload) (uid string, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.entries[RefOfWorkload(w)]
	if e == nil || e.target == nil || e.target.Selector == nil {
		return "", false
	}
	return string(e.target.UID), true
}

// Refusal returns why gpuscaler computes no target for a workload: the cache refuses the scale target, or its kind has no scale
// subresource. It returns "" if gpuscaler computes a target.
func (c *Cache) Refusal(w *scaling.Workload) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	target := RefOfWorkload(w)
	if e := c.entries[target]; e != nil && e.target != nil {
		return e.refusal
	}
	if _, known := notScalable[schema.GroupKind{Group: target.Group, Kind: target.Kind}]; known {
		return withoutScale(target) + ": no target is computed"
	}
	return ""
}

// Pods returns the pods of a workload, sorted by name, without pods that have finished or are terminating. The slice is shared: the caller
// must not write to it.
func (c *Cache) Pods(w *scaling.Workload) []engine.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if e := c.entries[RefOfWorkload(w)]; e != nil {
		return e.list
	}
	return nil
}

// PodsWithLabels returns the pods of a namespace that match a selector and have a node and an IP address, sorted by name, without pods that
// have finished or are terminating.
func (c *Cache) PodsWithLabels(namespace string, s labels.Selector) []engine.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var list []engine.Pod
	for _, stored := range c.pods[namespace] {
		p := stored.pod
		if p.phase != ended && p.pod.Node != "" && p.pod.IP != "" && s.Matches(labels.Set(p.Labels)) {
			list = append(list, p.pod)
		}
	}
	slices.SortFunc(list, func(a, b engine.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// TriggerMetric returns the external metric that KEDA serves for a named trigger of the ScaledObject of a workload, and the selector that
// KEDA's metrics server requires. ok is false if there is no such ScaledObject or trigger, or if KEDA has published no metric or several
// metrics for it.
func (c *Cache) TriggerMetric(w *scaling.Workload, trigger string) (metric, selector string, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.entries[RefOfWorkload(w)]
	if e == nil || e.scaledObject == nil {
		return "", "", false
	}
	s := e.scaledObject
	metric = s.metrics[trigger]
	return metric, kedaNameLabel + "=" + s.Name, metric != ""
}

// ScaleState contains the data from which the Activator decides whether it may write /scale of a target.
type ScaleState struct {
	Target          *Target
	Paused          bool  // whether an annotation of gpuscaler or KEDA pauses the target
	HasScaledObject bool  // whether a ScaledObject exists, so that KEDA scales to and from zero
	MinReplicas     int32 // minReplicas of the HPA; -1 if there is no HPA
}

// ScaleState returns the data from which the Activator decides whether it may write /scale of a target. ok is false if the target is not in
// the cache.
func (c *Cache) ScaleState(r Ref) (s ScaleState, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.entries[r]
	if e == nil || e.target == nil {
		return ScaleState{}, false
	}
	return ScaleState{
		Target: e.target, Paused: e.view.Operator.Paused, HasScaledObject: e.scaledObject != nil, MinReplicas: e.view.MinReplicas,
	}, true
}

// PausedByUser reports whether gpuscaler's pause annotation pauses a target. KEDA's annotations are ignored.
func (c *Cache) PausedByUser(r Ref) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.entries[r]
	if e == nil {
		return false
	}
	paused := e.target != nil && e.target.operator.Values.Paused || e.scaledObject != nil && e.scaledObject.operator.Values.Paused
	for _, h := range e.hpas {
		paused = paused || h.operator.Values.Paused
	}
	return paused
}
