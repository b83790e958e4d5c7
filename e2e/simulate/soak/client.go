package main

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// client is the dynamic client of the controller. It implements the requests for NodePools; any other request panics.
type client struct {
	dynamic.Interface
	controller *controller
}

// Resource implements dynamic.Interface.
func (c client) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return nodePools{controller: c.controller}
}

type nodePools struct {
	dynamic.NamespaceableResourceInterface
	controller *controller
}

var errModified = errors.New("the object has been modified")

// Apply implements dynamic.ResourceInterface.
func (n nodePools) Apply(_ context.Context, name string, desired *unstructured.Unstructured, o metav1.ApplyOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	api := n.controller.load.api
	live := api.Get(apiserver.KindNodePool, name).(*unstructured.Unstructured)
	if live.GetResourceVersion() != desired.GetResourceVersion() {
		return nil, apierrors.NewConflict(karpenter.NodePools.GroupResource(), name, errModified)
	}
	next, err := api.Managed.Apply(live, desired, o.FieldManager, o.Force)
	return n.store(live, next, err)
}

// Patch implements dynamic.ResourceInterface.
//
//nolint:revive // the interface has six arguments
func (n nodePools) Patch(_ context.Context, name string, _ types.PatchType, body []byte, o metav1.PatchOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	api := n.controller.load.api
	live := api.Get(apiserver.KindNodePool, name).(*unstructured.Unstructured)
	next, err := apiserver.Patch(live, body)
	if err != nil {
		return nil, err
	}
	if next.GetResourceVersion() != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(karpenter.NodePools.GroupResource(), name, errModified)
	}
	return n.store(live, api.Managed.Update(live, next, o.FieldManager), nil)
}

func (n nodePools) store(live, next *unstructured.Unstructured, err error) (*unstructured.Unstructured, error) {
	if err != nil {
		return nil, err
	}
	n.controller.writes++
	return n.controller.load.api.Store(apiserver.KindNodePool, live, next).DeepCopy(), nil
}
