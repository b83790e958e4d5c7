package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// client is the dynamic client of one replica. It implements the requests that nodepoolwriter sends; any other request panics.
type client struct {
	dynamic.Interface
	replica *replica
}

// Resource implements dynamic.Interface.
func (c client) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	kind := kindNodePool
	if r.Resource == "pods" {
		kind = kindPod
	}
	return resourceClient{replica: c.replica, kind: kind}
}

type resourceClient struct {
	dynamic.NamespaceableResourceInterface
	replica   *replica
	kind      string
	namespace string
}

// Namespace implements dynamic.NamespaceableResourceInterface.
func (c resourceClient) Namespace(namespace string) dynamic.ResourceInterface {
	c.namespace = namespace
	return c
}

// Apply implements dynamic.ResourceInterface.
func (c resourceClient) Apply(_ context.Context, name string, desired *unstructured.Unstructured, o metav1.ApplyOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	return c.write(name, "apply", desired.GetResourceVersion(), func(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if uid := desired.GetUID(); uid != "" && uid != live.GetUID() {
			return nil, apierrors.NewConflict(resources[c.kind], name, errTimeout)
		}
		return c.replica.sim.api.managed.apply(live, desired, o.FieldManager, o.Force)
	})
}

// Patch implements dynamic.ResourceInterface.
//
//nolint:revive // the interface has six arguments
func (c resourceClient) Patch(_ context.Context, name string, _ types.PatchType, body []byte, o metav1.PatchOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	return c.write(name, "patch", "", func(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		next, err := patch(live, body)
		if err != nil {
			return nil, err
		}
		if next.GetResourceVersion() != live.GetResourceVersion() {
			return nil, apierrors.NewConflict(resources[c.kind], name, errTimeout)
		}
		return c.replica.sim.api.managed.update(live, next, o.FieldManager), nil
	})
}

// write sends one request through the faults of the run.
func (c resourceClient) write(name, verb, base string,
	change func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	r, sim := c.replica, c.replica.sim
	if c.namespace != "" {
		name = c.namespace + "/" + name
	}
	v := sim.judge(r, c.kind)
	if err := failure(v, c.kind, name); err != nil {
		sim.trace("%s: %s %s %s: %s", r.name, verb, c.kind, name, verdictNames[v])
		if v == killBefore {
			r.kill()
		}
		return nil, err
	}
	live, err := c.read(name)
	if err != nil {
		return nil, err
	}
	if base != "" && base != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(resources[c.kind], name, errTimeout)
	}
	next, err := change(live)
	if err != nil {
		sim.trace("%s: %s %s %s: %v", r.name, verb, c.kind, name, err)
		return nil, err
	}
	stored := c.store(live, next)
	sim.wrote(r, c.kind, name, live, stored)
	switch v {
	case lostResponse:
		return nil, errTimeout
	case killAfter:
		r.kill()
		return nil, errTimeout
	}
	return stored.DeepCopy(), nil
}

// read returns an object in the form that the field manager needs.
func (c resourceClient) read(name string) (*unstructured.Unstructured, error) {
	switch o := c.replica.sim.api.get(c.kind, name).(type) {
	case *unstructured.Unstructured:
		return o, nil
	case *corev1.Pod:
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: kindPod})
		return u, nil
	}
	return nil, apierrors.NewNotFound(resources[c.kind], name)
}

func (c resourceClient) store(live, next *unstructured.Unstructured) *unstructured.Unstructured {
	api := c.replica.sim.api
	if c.kind != kindPod {
		return api.store(c.kind, live, next)
	}
	if sameWithoutTimes(live, next) {
		return live
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(next.Object, pod); err != nil {
		panic(err)
	}
	api.put(kindPod, pod)
	return next
}
