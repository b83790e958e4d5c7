package cluster

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// Offers reads what the nodes are, by name: from NodeClaims, which know it from the launch on, and from nodes of other making. A
// cluster without Karpenter has no NodeClaims, and that is no error.
func Offers(ctx context.Context, c dynamic.Interface) (map[string]cost.Offer, error) {
	out := map[string]cost.Offer{}
	nodes, err := c.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	for i := range nodes.Items {
		if o := offerOf(nodes.Items[i].GetLabels()); o.InstanceType != "" {
			out[nodes.Items[i].GetName()] = o
		}
	}
	claims, err := c.Resource(schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("nodeclaims.karpenter.sh: %w", err)
	}
	for i := range claims.Items {
		name, _, _ := unstructured.NestedString(claims.Items[i].Object, "status", "nodeName")
		if o := offerOf(claims.Items[i].GetLabels()); name != "" && o.InstanceType != "" {
			out[name] = o
		}
	}
	return out, nil
}

// Offers is what the GPU nodes are, by name, from what is watched for capacity groups: Karpenter's nodes by their NodeClaims, and those
// of other making by their labels. Without capacity groups it is empty.
func (c *Cluster) Offers() map[string]cost.Offer {
	out := map[string]cost.Offer{}
	if c.nodes == nil {
		return out
	}
	c.nodes.mu.RLock()
	defer c.nodes.mu.RUnlock()
	for name, f := range c.nodes.nodes {
		if f.offer.InstanceType != "" {
			out[name] = f.offer
		}
	}
	for _, f := range c.nodes.claims {
		if f.node != "" && f.instanceType != "" {
			out[f.node] = f.offer()
		}
	}
	return out
}

func (f *claimFacts) offer() cost.Offer {
	return cost.Offer{InstanceType: f.instanceType, CapacityType: f.capacityType, Zone: f.zone, Region: f.region}
}

// offerOf reads the well-known labels, and the clouds' own words for capacity types where Karpenter did not make the node.
func offerOf(l map[string]string) cost.Offer {
	o := cost.Offer{InstanceType: l[corev1.LabelInstanceTypeStable], Region: l[corev1.LabelTopologyRegion], Zone: l[corev1.LabelTopologyZone]}
	switch {
	case l[capacityTypeLabel] != "":
		o.CapacityType = l[capacityTypeLabel]
	case l["eks.amazonaws.com/capacityType"] == "SPOT", l["cloud.google.com/gke-spot"] == "true", l["kubernetes.azure.com/scalesetpriority"] == "spot":
		o.CapacityType = cost.Spot
	case l["eks.amazonaws.com/capacityType"] == "CAPACITY_BLOCK":
		o.CapacityType = cost.Reserved
	}
	o.CapacityType = cmp.Or(o.CapacityType, cost.OnDemand)
	return o
}
