package cluster

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
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
		c.nodes.schema = nodeSchema{known: true, limits: true, weight: true, consolidateAfter: true, consolidationPolicy: true, budgets: true}
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
		return into(d, trimDeployment, c.world.putTarget)
	case "StatefulSet":
		s := &appsv1.StatefulSet{}
		if err := typed(s); err != nil {
			return err
		}
		return into(s, trimStatefulSet, c.world.putTarget)
	case "Pod":
		p := &corev1.Pod{}
		if err := typed(p); err != nil {
			return err
		}
		return into(p, trimPod, c.world.putPod)
	}
	if c.nodes == nil {
		return nil
	}
	switch u.GetKind() {
	case nodePoolKind.Kind:
		c.nodes.putPool(u)
	case resourceClaimKind.Kind, resourceClaimTemplateKind.Kind:
		return into(u, trimDeviceRequests, func(r *deviceRequests) { c.nodes.requests[r.key()] = r })
	case deviceClassKind.Kind:
		return into(u, trimDeviceClass, func(d *deviceClass) { c.nodes.classes[d.Name] = d })
	case nodeClaimKind.Kind:
		c.nodes.putClaim(claimOf(u))
	case "Node":
		n := &corev1.Node{}
		if err := typed(n); err != nil {
			return err
		}
		return into(n, trimNode, func(f *nodeFacts) { c.nodes.putNode(nil, f) })
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
