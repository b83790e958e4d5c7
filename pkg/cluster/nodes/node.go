package nodes

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// Node contains the data of a Node that the informer stores.
type Node struct {
	metav1.ObjectMeta
	ready, interrupted, notDisrupted bool // interrupted: a taint shows that the cloud provider will take the node
	sharesGPUs                       bool
	readyChanged                     time.Time
	extended                         map[string]int64 // allocatable extended resources
	labels                           map[string]string
	// taints that keep pods off the node, without taints about the state of the node
	taints             []corev1.Taint
	cordoned, deleting bool
	created            time.Time
	offer              cost.Offer // instance type and location, for a node with GPUs
}

// TrimNode is the transform of the Node informer.
func TrimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	n := &Node{
		ObjectMeta: informer.Identity(node), extended: map[string]int64{}, sharesGPUs: gpupods.NodeSharesGPUs(node.Labels),
		notDisrupted: node.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true", interrupted: karpenter.HasInterruptionTaint(node.Spec.Taints),
	}
	n.cordoned, n.deleting, n.created = node.Spec.Unschedulable, node.DeletionTimestamp != nil, node.CreationTimestamp.Time
	for _, t := range node.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			n.taints = append(n.taints, t)
		}
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			n.ready, n.readyChanged = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	for name, q := range node.Status.Allocatable {
		if gpupods.IsExtended(name) {
			n.extended[string(name)] = q.Value()
		}
		if gpupods.IsGPU(name) {
			n.offer = karpenter.OfferOf(node.Labels)
		}
	}
	if len(n.extended) > 0 || node.Labels[karpv1.NodePoolLabelKey] == "" {
		n.labels = node.Labels // the labels of other nodes are in their NodeClaims
	}
	return n, nil
}

// sameFacts reports whether two versions of a Node are equal in all fields that gpuscaler uses. The heartbeat is not used.
func (n *Node) sameFacts(other *Node) bool {
	return n.ready == other.ready && n.interrupted == other.interrupted && n.notDisrupted == other.notDisrupted &&
		n.sharesGPUs == other.sharesGPUs && n.offer == other.offer && maps.Equal(n.extended, other.extended) &&
		n.cordoned == other.cordoned && n.deleting == other.deleting && maps.Equal(n.labels, other.labels) &&
		slices.EqualFunc(n.taints, other.taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
}
