package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

// Annotations of pods that Karpenter and the ReplicaSet controller read.
const (
	doNotDisrupt = "karpenter.sh/do-not-disrupt"
	deletionCost = "controller.kubernetes.io/pod-deletion-cost"
)

// Each of our marks has a field manager of its own: an apply of one would otherwise drop the other.
const (
	shieldManager = "gpuscaler-shield"
	costManager   = "gpuscaler-cost"
)

// gpuPod is what nodes are decided by, of a pod that asks for an extended resource or claims devices.
type gpuPod struct {
	extended    []extended
	claims      []claimRef
	owner       capacity.Owner
	created     time.Time
	gated       bool // by a scheduling gate: nobody may give it a node yet
	selector    map[string]string
	required    *corev1.NodeSelector // of its node affinity
	tolerations []corev1.Toleration
	cost        capacity.Mark
	shield      capacity.Mark
}

// guestOf is nil for a pod that asks for no extended resource and claims no device.
func guestOf(p *corev1.Pod) *gpuPod {
	all, claims := extendedOf(&p.Spec), claimRefsOf(&p.Spec)
	if len(all) == 0 && len(claims) == 0 {
		return nil
	}
	g := &gpuPod{
		extended: all, claims: claims, owner: ownerOf(p), created: p.CreationTimestamp.Time, gated: len(p.Spec.SchedulingGates) > 0,
		selector: p.Spec.NodeSelector, tolerations: p.Spec.Tolerations,
		cost:   capacity.Mark{Value: p.Annotations[deletionCost], Ours: manages(p.ManagedFields, costManager)},
		shield: capacity.Mark{Value: p.Annotations[doNotDisrupt], Ours: manages(p.ManagedFields, shieldManager)},
	}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		g.required = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return g
}

func ownerOf(p *corev1.Pod) capacity.Owner {
	if p.Labels[lwsName] != "" {
		return capacity.OwnerLeaderWorkerSet
	}
	switch c := metav1.GetControllerOf(p); {
	case c == nil:
		return capacity.OwnerOther
	case c.Kind == "ReplicaSet":
		return capacity.OwnerReplicaSet
	case c.Kind == "StatefulSet":
		return capacity.OwnerStatefulSet
	}
	return capacity.OwnerOther
}

// isDaemon tells pods that stand on a node because the node is there.
func isDaemon(p *corev1.Pod) bool {
	c := metav1.GetControllerOf(p)
	return c != nil && (c.Kind == "DaemonSet" || c.Kind == "Node")
}

func manages(entries []metav1.ManagedFieldsEntry, manager string) bool {
	for i := range entries {
		if entries[i].Manager == manager {
			return true
		}
	}
	return false
}

// putGuest files a pod among those that nodes are decided by. The caller holds the lock.
func (w *world) putGuest(p *podFacts) {
	w.version++
	if p.guest == nil {
		return
	}
	byName := w.guests[p.Namespace]
	if byName == nil {
		byName = map[string]*podFacts{}
		w.guests[p.Namespace] = byName
	}
	byName[p.Name] = p
}

func (w *world) dropGuest(namespace, name string) {
	w.version++
	delete(w.guests[namespace], name)
	if len(w.guests[namespace]) == 0 {
		delete(w.guests, namespace)
	}
}
