package karpenter

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// NodeOverlayKind is the kind of NodeOverlays, and NodeOverlays their resource.
var (
	NodeOverlayKind = schema.GroupVersionKind{Group: apis.Group, Version: "v1alpha1", Kind: "NodeOverlay"}
	NodeOverlays    = schema.GroupVersionResource{Group: apis.Group, Version: "v1alpha1", Resource: "nodeoverlays"}
)

// NodeOverlay contains the data of a NodeOverlay by which it changes prices.
type NodeOverlay struct {
	metav1.ObjectMeta // name and resourceVersion only
	weight            int32
	change            string // spec.price or spec.priceAdjustment; empty if the NodeOverlay changes no price or Karpenter does not apply it
	requirements      scheduling.Requirements
}

// TrimNodeOverlay is the transform of the NodeOverlay informer.
func TrimNodeOverlay(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return DecodeNodeOverlay(u), nil
	}
	return obj, nil
}

// DecodeNodeOverlay decodes a NodeOverlay. The result changes no price if the object cannot be decoded, or if Karpenter does not apply it
// because it is invalid or conflicts with another NodeOverlay.
func DecodeNodeOverlay(u *unstructured.Unstructured) *NodeOverlay {
	o := &NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), ResourceVersion: u.GetResourceVersion()}}
	typed, err := decodeTyped[v1alpha1.NodeOverlay](u)
	if err != nil || typed.StatusConditions().Get(v1alpha1.ConditionTypeValidationSucceeded).IsFalse() {
		return o
	}
	switch s := &typed.Spec; {
	case s.Price != nil:
		o.change = *s.Price
	case s.PriceAdjustment != nil:
		o.change = *s.PriceAdjustment
	}
	if typed.Spec.Weight != nil {
		o.weight = *typed.Spec.Weight
	}
	var requirements []corev1.NodeSelectorRequirement
	for _, r := range typed.Spec.Requirements {
		requirements = append(requirements, corev1.NodeSelectorRequirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	o.requirements = scheduling.NewNodeSelectorRequirements(requirements...)
	return o
}

// PriceChange returns how the NodeOverlays of a cluster change the price of a node with the given labels, in the form of
// cost.Offer.PriceChange. As in Karpenter, the NodeOverlay with the greatest weight applies. If several have this weight, the last by name
// applies.
func PriceChange(overlays []*NodeOverlay, labels map[string]string) string {
	if len(overlays) == 0 {
		return ""
	}
	var best *NodeOverlay
	node := scheduling.NewLabelRequirements(labels)
	for _, o := range overlays {
		if o.change == "" || best != nil && cmp.Or(cmp.Compare(best.weight, o.weight), cmp.Compare(best.Name, o.Name)) > 0 {
			continue
		}
		if node.IsCompatible(o.requirements) {
			best = o
		}
	}
	if best == nil {
		return ""
	}
	return best.change
}

// readOverlays reads the NodeOverlays of a cluster. It returns no NodeOverlays if the API server does not serve the kind or rejects the
// list request.
func readOverlays(ctx context.Context, c dynamic.Interface) (overlays []*NodeOverlay) {
	all, err := c.Resource(NodeOverlays).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range all.Items {
		overlays = append(overlays, DecodeNodeOverlay(&all.Items[i]))
	}
	return overlays
}
