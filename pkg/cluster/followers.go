package cluster

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// follow says who reads the number of a target and moves its replicas, and the policy that it names. A ScaledObject wins over an
// HPA of one's own, as KEDA's webhook would have it; of two equals the first by name, so that the answer does not depend on the
// order of events.
func (t *target) follow() (engine.ManagedHPA, string) {
	if s := t.scaledObject; s != nil {
		if s.pause.whole != "" {
			return engine.ManagedHPA{Kind: kindScaledObject, Name: s.Name, Why: "KEDA holds it: " + s.pause.whole}, ""
		}
		if h := t.reading(s.Name); h != nil {
			return t.judged(engine.ManagedHPA{Kind: kindScaledObject, Name: s.Name}, h), ""
		}
	}
	if h := t.reading(""); h != nil {
		return t.judged(engine.ManagedHPA{Kind: kindHPA, Name: h.Name}, h), h.policy
	}
	return engine.ManagedHPA{}, ""
}

func (t *target) judged(f engine.ManagedHPA, h *hpaFacts) engine.ManagedHPA {
	f.Desired, f.Why = h.desired, h.inactive
	if f.Why == "" && f.Kind == kindScaledObject {
		f.Why = t.scaledObject.pause.why()
	}
	if f.Why == "" {
		f.Why = t.inexact(h)
	}
	f.Exact = f.Why == ""
	return f
}

// reading is the HPA on the target that reads our metric and was made by the ScaledObject, or by none; nil where there is none.
func (t *target) reading(scaledObject string) *hpaFacts {
	var best *hpaFacts
	for _, h := range t.hpas {
		reads := h.ours || h.composite && t.scaledObject != nil && t.scaledObject.lint.asksUs
		if reads && h.scaledObject == scaledObject && (best == nil || h.Name < best.Name) {
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
	h := t.reading("")
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

// bounds are minReplicas and maxReplicas.
type bounds struct{ min, max int32 }

// narrower returns why an HPA or ScaledObject with some bounds does not reach every target within the policy's bounds; empty where it does.
// zero tells that the object itself removes the last replica, as a ScaledObject does. An HPA with minReplicas 1 may follow a policy with
// minReplicas 0: the activator takes the step between 1 and 0.
func narrower(object, policy bounds, zero bool) string {
	least := policy.min
	if !zero {
		least = max(least, 1)
	}
	switch {
	case object.min > policy.max:
		return fmt.Sprintf("its minReplicas %d is above the policy's maxReplicas %d: it never has fewer than %d replicas", object.min, policy.max, object.min)
	case object.min > least:
		return fmt.Sprintf("its minReplicas %d is above the policy's minReplicas %d: it never has fewer than %d replicas", object.min, policy.min, object.min)
	case object.max < policy.max:
		return fmt.Sprintf("its maxReplicas %d is below the policy's maxReplicas %d", object.max, policy.max)
	}
	return ""
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
	} else if s != nil {
		f.PausedIn, f.PausedOut = s.pause.in != "", s.pause.out != ""
	}
	return f
}
