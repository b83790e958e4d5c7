package karpenter

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// Offers reads the instance type, capacity type and location of every node, by node name: from the NodeClaim of the node, or from the
// labels of a node that Karpenter did not launch. Offers from NodeClaims include the price changes of NodeOverlays. In a cluster without
// Karpenter, Offers finds no NodeClaims and returns no error.
func Offers(ctx context.Context, c dynamic.Interface) (map[string]cost.Offer, error) {
	out := map[string]cost.Offer{}
	nodes, err := c.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	for i := range nodes.Items {
		if o := OfferOf(nodes.Items[i].GetLabels()); o.InstanceType != "" {
			out[nodes.Items[i].GetName()] = o
		}
	}
	claims, err := c.Resource(NodeClaims).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list NodeClaims: %w", err)
	}
	overlays := readOverlays(ctx, c)
	for i := range claims.Items {
		labels := claims.Items[i].GetLabels()
		name, _, _ := unstructured.NestedString(claims.Items[i].Object, "status", "nodeName")
		if o := OfferOf(labels); name != "" && o.InstanceType != "" {
			o.PriceChange = PriceChange(overlays, labels)
			out[name] = o
		}
	}
	return out, nil
}

// OfferOf returns the instance type, capacity type, zone and region in the labels of a Node or NodeClaim. Without Karpenter's label of the
// capacity type, OfferOf reads the labels of EKS, GKE and AKS. Without any of these labels, the capacity type is on-demand.
func OfferOf(l map[string]string) cost.Offer {
	o := cost.Offer{InstanceType: l[corev1.LabelInstanceTypeStable], Region: l[corev1.LabelTopologyRegion], Zone: l[corev1.LabelTopologyZone]}
	switch {
	case l[karpv1.CapacityTypeLabelKey] != "":
		o.CapacityType = l[karpv1.CapacityTypeLabelKey]
	case l["eks.amazonaws.com/capacityType"] == "SPOT", l["cloud.google.com/gke-spot"] == "true",
		l["kubernetes.azure.com/scalesetpriority"] == "spot":
		o.CapacityType = cost.Spot
	case l["eks.amazonaws.com/capacityType"] == "CAPACITY_BLOCK":
		o.CapacityType = cost.Reserved
	}
	o.CapacityType = cmp.Or(o.CapacityType, cost.OnDemand)
	return o
}
