package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodes"
)

// deliver passes changes of objects to the caches of a replica, as informers do. If the watches of the replica lag, deliver passes each
// change later.
func (r *replica) deliver() {
	for now := r.sim.now; r.cursor < len(r.sim.api.Log) && !now.Before(r.cut); r.cursor++ {
		v := &r.sim.api.Log[r.cursor]
		if v.At.Add(r.lag).After(now) {
			return
		}
		r.show(v)
	}
}

// trimmed returns the object that an informer's transform returned. It panics if the transform failed.
func trimmed[T any](object any, err error) T {
	if err != nil {
		panic(err)
	}
	return object.(T)
}

// show puts one version of an object into the cache of its kind, after the transform of the informer.
func (r *replica) show(v *apiserver.Version) {
	key := v.Kind + " " + v.Name
	old := r.shown[key]
	delete(r.shown, key)
	if !v.Deleted {
		r.seen[key] = string(v.Object.GetUID())
	} else {
		delete(r.seen, key)
	}
	switch o := v.Object.(type) {
	case *appsv1.Deployment:
		t := trimmed[*cache.Target](cache.TrimDeployment(o))
		if v.Deleted {
			r.cache.DropTarget(t.Ref)
			return
		}
		r.cache.PutTarget(t)
	case *corev1.Pod:
		if v.Deleted {
			r.cache.DropPod(o.Namespace, o.Name)
			return
		}
		r.cache.PutPod(trimmed[*cache.Pod](cache.TrimPod(o)))
	case *corev1.Node:
		if v.Deleted {
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

func (r *replica) showHPA(v *apiserver.Version, old any) {
	h := trimmed[*cache.HPA](cache.TrimHPA(v.Object))
	if v.Deleted {
		r.cache.DropHPA(h)
		return
	}
	before, _ := old.(*cache.HPA)
	r.cache.PutHPA(before, h)
	r.shown[v.Kind+" "+v.Name] = h
}

func (r *replica) showUnstructured(v *apiserver.Version, u *unstructured.Unstructured, old any) {
	switch v.Kind {
	case apiserver.KindNodePool:
		if v.Deleted {
			r.nodes.DeleteNodePool(u.GetName())
			return
		}
		r.nodes.PutNodePool(u)
	case apiserver.KindNodeClaim:
		if v.Deleted {
			r.nodes.DeleteNodeClaim(karpenter.DecodeNodeClaim(u))
			return
		}
		r.nodes.PutNodeClaim(karpenter.DecodeNodeClaim(u))
	case apiserver.KindScaledObject:
		s := trimmed[*cache.ScaledObject](cache.TrimScaledObject(u))
		if v.Deleted {
			r.cache.DropScaledObject(s)
			return
		}
		before, _ := old.(*cache.ScaledObject)
		r.cache.PutScaledObject(before, s)
		r.shown[v.Kind+" "+v.Name] = s
	}
}
