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

// client is the dynamic client of one call of the writer. It implements the requests that nodepoolwriter sends; any other request panics.
type client struct {
	dynamic.Interface
	caller *caller
}

// Resource implements dynamic.Interface.
func (c client) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return nodePools{caller: c.caller}
}

type nodePools struct {
	dynamic.NamespaceableResourceInterface
	caller *caller
}

// errNotAnswered is returned to the writer for a request that has no answer yet, to end the call of the writer.
var errNotAnswered = errors.New("the request has no answer yet")

// Apply implements dynamic.ResourceInterface.
func (n nodePools) Apply(_ context.Context, _ string, desired *unstructured.Unstructured, o metav1.ApplyOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	return n.caller.send(&apiserver.Request{Apply: desired, Manager: o.FieldManager, Force: o.Force})
}

// Patch implements dynamic.ResourceInterface.
//
//nolint:revive // the interface has six arguments
func (n nodePools) Patch(_ context.Context, _ string, _ types.PatchType, body []byte, o metav1.PatchOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	return n.caller.send(&apiserver.Request{Patch: body, Manager: o.FieldManager})
}

// List implements dynamic.ResourceInterface. The writer lists NodePools only to choose the message about an invalid patch, so the list can
// be empty.
func (n nodePools) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return &unstructured.UnstructuredList{}, nil
}

var (
	nodePoolResource = karpenter.NodePools.GroupResource()
	errModified      = errors.New("the object has been modified")
)

// send returns the answer to a request. If the request has no answer yet, send ends the call of the writer.
func (c *caller) send(r *apiserver.Request) (*unstructured.Unstructured, error) {
	if len(c.inputs) == 0 {
		if c.sent == nil {
			c.sent = r
		}
		return nil, errNotAnswered
	}
	answer := c.inputs[0]
	c.inputs = c.inputs[1:]
	switch answer.kind {
	case answerObject:
		return c.model.object(answer.version).DeepCopy(), nil
	case answerConflict:
		return nil, apierrors.NewConflict(nodePoolResource, poolName, errModified)
	case answerNotFound:
		return nil, apierrors.NewNotFound(nodePoolResource, poolName)
	case answerInvalid:
		return nil, apierrors.NewInvalid(karpenter.NodePoolKind.GroupKind(), poolName, nil)
	case answerTimeout:
		return nil, context.DeadlineExceeded
	}
	panic("the writer did not read the cache again")
}

// received identifies one execution of a request by the API server.
type received struct {
	request *apiserver.Request
	live    version
}

// execute returns the API server's answer to a request. If the request changes the object, the serial of the new version is live.serial +
// 1.
func (m *model) execute(r *apiserver.Request, live version) input {
	if !live.exists() {
		return input{kind: kindOf(r.Missing(karpenter.NodePoolKind, poolName))}
	}
	return m.writes.get(received{r, live}, func() input {
		f := m.managed.Get().(*apiserver.FieldManagers)
		defer m.managed.Put(f)
		before := m.object(live)
		after, err := r.Result(f, before)
		if err != nil {
			return input{kind: kindOf(err)}
		}
		return input{answerObject, m.successor(live, before, after)}
	})
}

// kindOf returns the value of input.kind for an error of the API server.
func kindOf(err error) uint8 {
	switch {
	case apierrors.IsConflict(err):
		return answerConflict
	case apierrors.IsInvalid(err):
		return answerInvalid
	case apierrors.IsNotFound(err):
		return answerNotFound
	}
	panic(err)
}

// successor returns the version that results if the object after replaces the object before. If the two objects are equal, it returns v,
// the version of before.
func (m *model) successor(v version, before, after *unstructured.Unstructured) version {
	id := m.intern(after)
	if id == v.content {
		return v
	}
	next := version{content: id, serial: v.serial + 1, generation: v.generation, uid: v.uid}
	if apiserver.FieldText(before, "spec") != apiserver.FieldText(after, "spec") {
		next.generation++
	}
	return next
}
