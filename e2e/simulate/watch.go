package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodes"
)

// deliver passes the changes of objects to the caches, as informers do. A watch of a slow connection lags behind.
func (r *replica) deliver() {
	for now := r.sim.now; r.cursor < len(r.sim.api.log) && !now.Before(r.cut); r.cursor++ {
		v := &r.sim.api.log[r.cursor]
		if v.at.Add(r.lag).After(now) {
			return
		}
		r.show(v)
	}
}

// trimmed returns the result of an informer's transform.
func trimmed[T any](object any, err error) T {
	if err != nil {
		panic(err)
	}
	return object.(T)
}

// show stores one version of an object in the cache of its kind, after the transform of its informer.
func (r *replica) show(v *version) {
	key := v.kind + " " + v.name
	old := r.shown[key]
	delete(r.shown, key)
	if !v.deleted {
		r.seen[key] = string(v.object.GetUID())
	} else {
		delete(r.seen, key)
	}
	switch o := v.object.(type) {
	case *appsv1.Deployment:
		t := trimmed[*cache.Target](cache.TrimDeployment(o))
		if v.deleted {
			r.cache.DropTarget(t.Ref)
			return
		}
		r.cache.PutTarget(t)
	case *corev1.Pod:
		if v.deleted {
			r.cache.DropPod(o.Namespace, o.Name)
			return
		}
		r.cache.PutPod(trimmed[*cache.Pod](cache.TrimPod(o)))
	case *corev1.Node:
		if v.deleted {
			r.nodes.DeleteNode(o.Name)
			return
		}
		node := trimmed[*nodes.Node](nodes.TrimNode(o))
		before, _ := old.(*nodes.Node)
		r.nodes.PutNode(before, node)
		r.shown[key] = node
	case *unstructured.Unstructured:
		r.showUnstructured(v, o, old)
	default:
		r.showHPA(v, old)
	}
}

func (r *replica) showHPA(v *version, old any) {
	h := trimmed[*cache.HPA](cache.TrimHPA(v.object))
	if v.deleted {
		r.cache.DropHPA(h)
		return
	}
	before, _ := old.(*cache.HPA)
	r.cache.PutHPA(before, h)
	r.shown[v.kind+" "+v.name] = h
}

func (r *replica) showUnstructured(v *version, u *unstructured.Unstructured, old any) {
	switch v.kind {
	case kindNodePool:
		if v.deleted {
			r.nodes.DeleteNodePool(u.GetName())
			return
		}
		r.nodes.PutNodePool(u)
	case kindNodeClaim:
		if v.deleted {
			r.nodes.DeleteNodeClaim(karpenter.DecodeNodeClaim(u))
			return
		}
		r.nodes.PutNodeClaim(karpenter.DecodeNodeClaim(u))
	case kindScaledObject:
		s := trimmed[*cache.ScaledObject](cache.TrimScaledObject(u))
		if v.deleted {
			r.cache.DropScaledObject(s)
			return
		}
		before, _ := old.(*cache.ScaledObject)
		r.cache.PutScaledObject(before, s)
		r.shown[v.kind+" "+v.name] = s
	}
}
