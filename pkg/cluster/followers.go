package cluster

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// follow says who reads the number of a target and moves its replicas. An HPA that reads ours wins over one that does not;
// of two equals the first by name, so that the answer does not depend on the order of events.
func (t *target) follow() (engine.Follower, string, *hpaFacts) {
	h := t.readingHPA()
	switch {
	case t.scaledObject != nil:
		return t.followScaledObject(h)
	case h == nil:
		return engine.Follower{}, "", nil
	}
	f := engine.Follower{Kind: kindHPA, Name: h.Name, Desired: h.desired, Exact: true}
	if why := t.inexact(h); why != "" {
		f.Exact, f.Why = false, why
	}
	return f, h.policy, h
}

func (t *target) followScaledObject(h *hpaFacts) (engine.Follower, string, *hpaFacts) {
	so := t.scaledObject
	f := engine.Follower{Kind: kindScaledObject, Name: so.Name}
	switch {
	case so.paused:
		f.Why = "KEDA holds it: autoscaling.keda.sh/paused"
	case h == nil || h.scaledObject != so.Name:
		return engine.Follower{}, "", nil // none of its triggers is ours
	default:
		f.Desired, f.Exact = h.desired, true
		if why := t.inexact(h); why != "" {
			f.Exact, f.Why = false, why
		}
	}
	return f, "", h
}

// readingHPA is the HPA on the target that reads our metric; nil where none does.
func (t *target) readingHPA() *hpaFacts {
	var best *hpaFacts
	for _, h := range t.hpas {
		if h.ours && (best == nil || h.Name < best.Name) {
			best = h
		}
	}
	return best
}

// bounds are those of whoever stands on the target: -1, -1 where nobody does.
func (t *target) bounds() (lo, hi int32) {
	if t.scaledObject != nil {
		return t.scaledObject.min, t.scaledObject.max
	}
	h := t.readingHPA()
	for _, other := range t.hpas {
		if h == nil || (!h.ours && other.Name < h.Name) {
			h = other
		}
	}
	if h == nil {
		return -1, -1
	}
	return h.min, h.max
}

// inexact says in one sentence why an HPA will not follow every step; empty where it will.
func (t *target) inexact(h *hpaFacts) string {
	if found := Lint(h.object(), t.lintFacts(h)); len(found) > 0 {
		return found[0].Why
	}
	return ""
}

func (h *hpaFacts) object() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: h.ObjectMeta, Spec: *h.spec}
}

// lintFacts is what the objects around a target say about one of its HPAs; what policies say is added by the linter.
func (t *target) lintFacts(h *hpaFacts) Facts {
	f := Facts{Minor: t.minor, ScaledObject: h.scaledObject}
	for _, name := range sortedNames(t.hpas) {
		if name != h.Name {
			f.Others = append(f.Others, kindHPA+" "+name)
		}
	}
	if s := t.scaledObject; s != nil && s.Name != h.scaledObject {
		f.Others = append(f.Others, kindScaledObject+" "+s.Name)
	}
	return f
}
