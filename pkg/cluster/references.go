package cluster

import corev1 "k8s.io/api/core/v1"

// String is "Deployment team/chat", for logs.
func (r ref) String() string { return r.kind + " " + r.namespace + "/" + r.name }

func (f *targetFacts) reference() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: f.apiVersion, Kind: f.ref.kind, Namespace: f.Namespace, Name: f.Name, UID: f.UID}
}

func (h *hpaFacts) reference() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "autoscaling/v2", Kind: kindHPA, Namespace: h.Namespace, Name: h.Name, UID: h.UID}
}

func (s *scaledObjectFacts) reference() corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: scaledObjectKind.GroupVersion().String(), Kind: kindScaledObject, Namespace: s.Namespace, Name: s.Name, UID: s.UID,
	}
}

// reference names a target in an Event; ok is false where it was not seen.
func (w *world) reference(r ref) (about corev1.ObjectReference, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	t := w.targets[r]
	if t == nil || t.facts == nil {
		return about, false
	}
	return t.facts.reference(), true
}

// carriers lists the objects whose annotations may hold a policy.
func (w *world) carriers() (all []corev1.ObjectReference) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, t := range w.targets {
		for _, h := range t.hpas {
			if len(h.annotations) > 0 {
				all = append(all, h.reference())
			}
		}
		if s := t.scaledObject; s != nil && len(s.annotations)+len(s.metadata) > 0 {
			all = append(all, s.reference())
		}
	}
	return all
}
