package cache

import (
	"maps"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
)

// managedHPA returns the HPA or ScaledObject that scales the workload by gpuscaler's metric. It also returns the name of the policy that
// the HPA's metric selects. This name is empty for a ScaledObject. A ScaledObject takes precedence over an HPA, although KEDA's admission
// webhook normally rejects a second scaler of the same target. If several HPAs read the metric, managedHPA returns the first by name, so
// that the result does not depend on the order of events.
func (e *entry) managedHPA() (engine.ManagedHPA, string) {
	if s := e.scaledObject; s != nil {
		if s.pause.All != "" {
			return engine.ManagedHPA{Kind: ScaledObjectKind, Name: s.Name, Why: "KEDA is paused: " + s.pause.All}, ""
		}
		if h := e.readingHPA(s.Name); h != nil {
			return e.withExactness(engine.ManagedHPA{Kind: ScaledObjectKind, Name: s.Name}, h), ""
		}
	}
	if h := e.readingHPA(""); h != nil {
		return e.withExactness(engine.ManagedHPA{Kind: HPAKind, Name: h.Name}, h), h.policy
	}
	return engine.ManagedHPA{}, ""
}

func (e *entry) withExactness(m engine.ManagedHPA, h *HPA) engine.ManagedHPA {
	m.Desired, m.Why = h.desired, h.inactive
	if m.Why == "" && m.Kind == ScaledObjectKind {
		m.Why = e.scaledObject.pause.Why()
	}
	if m.Why == "" {
		m.Why = e.firstFinding(h)
	}
	m.Exact = m.Why == ""
	return m
}

// readingHPA returns the HPA that reads gpuscaler's metric and that KEDA created for the ScaledObject with the given name. For an empty
// name it returns an HPA that KEDA did not create. If several HPAs match, it returns the first by name. If no HPA matches, it returns nil.
func (e *entry) readingHPA(scaledObject string) *HPA {
	var best *HPA
	for _, h := range e.hpas {
		reads := h.readsTarget || h.composite && e.scaledObject != nil && e.scaledObject.Checks.HasTrigger
		if reads && h.ScaledObject == scaledObject && (best == nil || h.Name < best.Name) {
			best = h
		}
	}
	return best
}

// bounds returns the minimum and maximum replicas of the object that scales the target: the ScaledObject, otherwise the HPA that reads
// gpuscaler's metric, otherwise the first HPA by name. Both numbers are -1 if no object scales the target.
func (e *entry) bounds() (lowest, highest int32) {
	if e.scaledObject != nil {
		return e.scaledObject.min, e.scaledObject.max
	}
	h := e.readingHPA("")
	for _, other := range e.hpas {
		if h == nil || (!h.readsTarget && other.Name < h.Name) {
			h = other
		}
	}
	if h == nil {
		return -1, -1
	}
	return h.min, h.max
}

// firstFinding returns why an HPA does not follow every change of the target, or "" if the HPA follows every change.
func (e *entry) firstFinding(h *HPA) string {
	if found := objects.HPA(h.Object(), e.hpaFacts(h)); len(found) > 0 {
		return found[0].What
	}
	return ""
}

// hpaFacts returns the data that the checks of an HPA need: the API server's version, other objects that scale the same target, and the
// pause annotations of the HPA's ScaledObject. The caller adds the data about policies, which is not in the cache.
func (e *entry) hpaFacts(h *HPA) objects.HPAFacts {
	f := objects.HPAFacts{Minor: e.minor, ScaledObject: h.ScaledObject}
	for _, name := range slices.Sorted(maps.Keys(e.hpas)) {
		if name != h.Name {
			f.Others = append(f.Others, HPAKind+" "+name)
		}
	}
	if s := e.scaledObject; s != nil && s.Name != h.ScaledObject {
		f.Others = append(f.Others, ScaledObjectKind+" "+s.Name)
	} else if s != nil {
		f.PausedIn, f.PausedOut = s.pause.In != "", s.pause.Out != ""
	}
	return f
}
