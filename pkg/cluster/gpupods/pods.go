// Package gpupods reads the data of a pod that decisions about GPU nodes need: the extended resources and devices that it requests, the
// nodes on which it may be scheduled, and the annotations that gpuscaler sets on it.
package gpupods

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

const (
	// DoNotDisruptAnnotation prevents Karpenter from disrupting the node of a pod.
	DoNotDisruptAnnotation = "karpenter.sh/do-not-disrupt"
	// DeletionCostAnnotation sets the order in which the ReplicaSet controller deletes pods: pods with a lower cost are deleted first.
	DeletionCostAnnotation = "controller.kubernetes.io/pod-deletion-cost"

	// leaderWorkerSetLabel is set by LeaderWorkerSet on each of its pods.
	leaderWorkerSetLabel = "leaderworkerset.sigs.k8s.io/name"
)

// Facts are the properties of a pod that requests an extended resource or claims devices.
type Facts struct {
	Extended     []Amount
	Claims       []ClaimRef
	Owner        capacity.Owner
	Created      time.Time
	Gated        bool // whether the pod has a scheduling gate: kube-scheduler and Karpenter ignore such a pod
	Held         bool // whether the pod has no node, and no autoscaler launches a node for it (see isHeld)
	Gang         Gang
	NodeSelector map[string]string
	NodeAffinity *corev1.NodeSelector // the required node affinity; nil if there is none
	Tolerations  []corev1.Toleration
	DeletionCost capacity.Annotation
	DoNotDisrupt capacity.Annotation
}

// FactsOf returns the facts of a pod. It returns nil for a pod that requests no extended resource and claims no device.
func FactsOf(p *corev1.Pod) *Facts {
	amounts, claims := ExtendedResources(&p.Spec), podClaimRefs(p)
	if len(amounts) == 0 && len(claims) == 0 {
		return nil
	}
	mark := func(annotation, manager string) capacity.Annotation {
		return capacity.Annotation{Value: p.Annotations[annotation], Ours: ownership.HasManager(p.ManagedFields, manager)}
	}
	f := &Facts{
		Extended: amounts, Claims: claims, Owner: ownerOf(p), Created: p.CreationTimestamp.Time, Gated: len(p.Spec.SchedulingGates) > 0,
		Held: isHeld(p), Gang: gangOf(p),
		NodeSelector: p.Spec.NodeSelector, Tolerations: p.Spec.Tolerations,
		DeletionCost: mark(DeletionCostAnnotation, ownership.DeletionCostManager),
		DoNotDisrupt: mark(DoNotDisruptAnnotation, ownership.DoNotDisruptManager),
	}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		f.NodeAffinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return f
}

// IsDaemon reports whether a pod runs on each node: a pod of a DaemonSet, or a static pod of the kubelet.
func IsDaemon(p *corev1.Pod) bool {
	c := metav1.GetControllerOf(p)
	return c != nil && (c.Kind == "DaemonSet" || c.Kind == "Node")
}

// BlocksDisruption reports whether the annotation of a pod prevents Karpenter from disrupting its node.
func BlocksDisruption(p *corev1.Pod) bool {
	value := p.Annotations[DoNotDisruptAnnotation]
	return value != "" && value != "false"
}

func ownerOf(p *corev1.Pod) capacity.Owner {
	if p.Labels[leaderWorkerSetLabel] != "" {
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
