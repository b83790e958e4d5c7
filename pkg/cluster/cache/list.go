package cache

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
)

// Problem describes an invalid setting of an object.
type Problem struct {
	About corev1.ObjectReference
	Text  string
}

// ReadingHPA is an HPA that reads gpuscaler's metric. Facts contains the data of other objects that the checks of the HPA need.
type ReadingHPA struct {
	HPA   *HPA
	Facts objects.HPAFacts
}

// ReadingHPAs returns every HPA that reads gpuscaler's metric, with the data that its checks need.
func (c *Cache) ReadingHPAs() (all []ReadingHPA) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.entries {
		for _, h := range e.hpas {
			if h.readsTarget {
				all = append(all, ReadingHPA{h, e.hpaFacts(h)})
			}
		}
	}
	return all
}

// ScaledObjects returns every ScaledObject, sorted by namespace and name.
func (c *Cache) ScaledObjects() (all []*ScaledObject) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.entries {
		if e.scaledObject != nil {
			all = append(all, e.scaledObject)
		}
	}
	slices.SortFunc(all, func(a, b *ScaledObject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Problems returns a problem for each invalid annotation and for each ScaledObject that cannot be decoded.
func (c *Cache) Problems() (all []Problem) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	add := func(about corev1.ObjectReference, texts ...string) {
		for _, text := range texts {
			if text != "" {
				all = append(all, Problem{about, text})
			}
		}
	}
	for _, e := range c.entries {
		if e.target != nil {
			add(e.target.Reference(), e.target.operator.Problem)
		}
		for _, h := range e.hpas {
			add(h.Reference(), h.operator.Problem)
		}
		if s := e.scaledObject; s != nil {
			add(s.Reference(), s.operator.Problem, s.Manage.Problem, s.invalid)
		}
	}
	return all
}

// Reference returns the object reference that an Event about a scale target contains. ok is false if the target is not in the cache.
func (c *Cache) Reference(r Ref) (about corev1.ObjectReference, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.entries[r]
	if e == nil || e.target == nil {
		return about, false
	}
	return e.target.Reference(), true
}

// PolicyCarriers returns the HPAs and ScaledObjects that have gpuscaler's annotations or trigger metadata, in which users can write
// policies.
func (c *Cache) PolicyCarriers() (all []corev1.ObjectReference) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.entries {
		for _, h := range e.hpas {
			if len(h.annotations) > 0 {
				all = append(all, h.Reference())
			}
		}
		if s := e.scaledObject; s != nil && len(s.annotations)+len(s.metadata) > 0 {
			all = append(all, s.Reference())
		}
	}
	return all
}

// ScaledTwice returns a finding for each scale target that several objects scale. It skips a target if one of its HPAs reads gpuscaler's
// metric, because the check of that HPA returns the finding.
func (c *Cache) ScaledTwice() (all []objects.ObjectFinding) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for r, e := range c.entries {
		var scalers []string
		reads := false
		for _, name := range slices.Sorted(maps.Keys(e.hpas)) {
			h := e.hpas[name]
			reads = reads || h.readsTarget
			if e.scaledObject == nil || h.ScaledObject != e.scaledObject.Name {
				scalers = append(scalers, HPAKind+" "+name)
			}
		}
		if e.scaledObject != nil {
			scalers = append(scalers, ScaledObjectKind+" "+e.scaledObject.Name)
		}
		if len(scalers) > 1 && !reads {
			all = append(all, objects.TwoScalers(r.String(), strings.Join(scalers, " and ")))
		}
	}
	return all
}
