package main

import (
	"context"

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

// Apply implements dynamic.ResourceInterface.
func (n nodePools) Apply(_ context.Context, name string, desired *unstructured.Unstructured, o metav1.ApplyOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	return n.send(name, &apiserver.Request{Apply: desired, Manager: o.FieldManager, Force: o.Force})
}

// Patch implements dynamic.ResourceInterface.
//
//nolint:revive // the interface has six arguments
func (n nodePools) Patch(_ context.Context, name string, _ types.PatchType, body []byte, o metav1.PatchOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	return n.send(name, &apiserver.Request{Patch: body, Manager: o.FieldManager})
}

func (n nodePools) send(name string, request *apiserver.Request) (*unstructured.Unstructured, error) {
	n.controller.writes++
	api := apiserver.Client{Server: n.controller.load.api, Kind: karpenter.NodePoolKind}
	return api.Send(name, request)
}
