package cluster

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/deviceclaims"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodes"
)

// Offline returns a cluster that contains the given objects, for example from files that `kubectl get -o yaml` printed: NodePools,
// NodeClaims, Nodes, pods, Deployments, StatefulSets and the kinds of dynamic resource allocation. Objects of other kinds are ignored. The
// cluster sends no requests to an API server. It assumes that the NodePool CRD has every field that gpuscaler can override.
func Offline(objects []*unstructured.Unstructured, o Options) (*Cluster, error) {
	o.Leading = func() bool { return false }
	c, err := New(&rest.Config{Host: "http://127.0.0.1:0"}, o)
	if err != nil {
		return nil, err
	}
	for _, u := range objects {
		if err := c.show(u); err != nil {
			return nil, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	if c.nodes != nil {
		c.nodes.SetNodesRead()
		c.nodes.SetSchema(karpenter.Schema{
			Known: true, Limits: true, Weight: true, ConsolidateAfter: true, ConsolidationPolicy: true, Budgets: true,
		})
	}
	c.synced.Store(true)
	return c, nil
}

// show stores one object in the cluster's caches, as an informer does after a watch event.
func (c *Cluster) show(u *unstructured.Unstructured) error {
	switch u.GetKind() {
	case "Deployment":
		return decodeAndPut[appsv1.Deployment](u, cache.TrimDeployment, c.cache.PutTarget)
	case "StatefulSet":
		return decodeAndPut[appsv1.StatefulSet](u, cache.TrimStatefulSet, c.cache.PutTarget)
	case "Pod":
		return decodeAndPut[corev1.Pod](u, cache.TrimPod, c.cache.PutPod)
	}
	if c.nodes == nil {
		return nil
	}
	switch u.GetKind() {
	case karpenter.NodePoolKind.Kind:
		c.nodes.PutNodePool(u)
	case karpenter.NodeClaimKind.Kind:
		c.nodes.PutNodeClaim(karpenter.DecodeNodeClaim(u))
	case deviceclaims.ClaimKind.Kind, deviceclaims.TemplateKind.Kind:
		return trimAndPut(u, deviceclaims.TrimClaim, c.nodes.claims.PutClaim)
	case deviceclaims.ClassKind.Kind:
		return trimAndPut(u, deviceclaims.TrimClass, c.nodes.claims.PutClass)
	case "Node":
		return decodeAndPut[corev1.Node](u, nodes.TrimNode, func(node *nodes.Node) { c.nodes.PutNode(nil, node) })
	}
	return nil
}

// decodeAndPut decodes u into a T. It calls the function trim, which removes the fields that the cache does not need, and passes the result
// to the function put.
func decodeAndPut[T, Trimmed any](u *unstructured.Unstructured, trim func(any) (any, error), put func(Trimmed)) error {
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		return err
	}
	return trimAndPut(object, trim, put)
}

func trimAndPut[T any](object any, trim func(any) (any, error), put func(T)) error {
	trimmed, err := trim(object)
	if err != nil {
		return err
	}
	put(trimmed.(T))
	return nil
}
