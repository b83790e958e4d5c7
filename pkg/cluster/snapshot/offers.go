package snapshot

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// ReadOverlays adds the NodeOverlays of a cluster to the snapshot. If the API server does not serve NodeOverlays or rejects the list
// request, it adds none: without a NodeOverlay, instance types have no additional resources.
func (s *Snapshot) ReadOverlays(ctx context.Context, client dynamic.Interface) {
	all, err := client.Resource(karpenter.NodeOverlays).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range all.Items {
		s.overlays = append(s.overlays, &all.Items[i])
	}
}

// Offers reports whether Karpenter can provide an extended resource: a node of a NodePool has the resource, or a NodeOverlay adds it to
// instance types.
func (s *Snapshot) Offers(resource string) bool {
	return slices.ContainsFunc(s.pools, func(u *unstructured.Unstructured) bool {
		return slices.Contains(karpenter.DecodeNodePool(u).UsedResources(), resource)
	}) || slices.ContainsFunc(s.overlays, func(u *unstructured.Unstructured) bool {
		_, found, err := unstructured.NestedFieldNoCopy(u.Object, "spec", "capacity", resource)
		return found && err == nil
	})
}
