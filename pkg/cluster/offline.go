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

// Offline is a cluster as files show it, as `kubectl get -o yaml` prints them: NodePools, NodeClaims, Nodes, pods, Deployments,
// StatefulSets and the kinds of dynamic resource allocation; other kinds are passed over. Nothing is read or written by it. Every field of a NodePool is taken to be served.
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
		c.nodes.SetSchema(karpenter.Schema{Known: true, Limits: true, Weight: true, ConsolidateAfter: true, ConsolidationPolicy: true, Budgets: true})
	}
	c.synced.Store(true)
	return c, nil
}

// show puts one object where an informer would.
func (c *Cluster) show(u *unstructured.Unstructured) error {
	typed := func(into any) error { return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into) }
	switch u.GetKind() {
	case "Deployment":
		d := &appsv1.Deployment{}
		if err := typed(d); err != nil {
			return err
		}
		return into(d, cache.TrimDeployment, c.cache.PutTarget)
	case "StatefulSet":
		s := &appsv1.StatefulSet{}
		if err := typed(s); err != nil {
			return err
		}
		return into(s, cache.TrimStatefulSet, c.cache.PutTarget)
	case "Pod":
		p := &corev1.Pod{}
		if err := typed(p); err != nil {
			return err
		}
		return into(p, cache.TrimPod, c.cache.PutPod)
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
		return into(u, deviceclaims.TrimClaim, c.nodes.claims.PutClaim)
	case deviceclaims.ClassKind.Kind:
		return into(u, deviceclaims.TrimClass, c.nodes.claims.PutClass)
	case "Node":
		n := &corev1.Node{}
		if err := typed(n); err != nil {
			return err
		}
		return into(n, nodes.TrimNode, func(node *nodes.Node) { c.nodes.PutNode(nil, node) })
	}
	return nil
}

func into[T any](object any, trim func(any) (any, error), put func(T)) error {
	trimmed, err := trim(object)
	if err != nil {
		return err
	}
	put(trimmed.(T))
	return nil
}
