package agreement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// poolClient is the dynamic client of a replica. It implements the requests that nodepoolwriter sends; any other request panics.
type poolClient struct {
	dynamic.NamespaceableResourceInterface
	story   *poolStory
	replica *replica
}

// Resource implements dynamic.Interface.
func (c poolClient) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return c
}

// Apply implements dynamic.ResourceInterface.
func (c poolClient) Apply(_ context.Context, _ string, desired *unstructured.Unstructured, o metav1.ApplyOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	return c.story.request(c.replica, "apply", &apiserver.Request{Apply: desired, Manager: o.FieldManager, Force: o.Force})
}

// Patch implements dynamic.ResourceInterface.
//
//nolint:revive // the interface has six arguments
func (c poolClient) Patch(_ context.Context, _ string, _ types.PatchType, body []byte, o metav1.PatchOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	return c.story.request(c.replica, "patch", &apiserver.Request{Patch: body, Manager: o.FieldManager})
}

// List implements dynamic.ResourceInterface. The writer lists one NodePool to find out why the API server rejected a patch.
func (c poolClient) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	live, err := c.story.api.Get(c.story.pool)
	if err == nil {
		list.Items = append(list.Items, *live)
	}
	return list, nil
}

// modelPools contains the NodePools of the model of the API server.
type modelPools struct{ *apiserver.Client }

func newModelPools() modelPools {
	return modelPools{&apiserver.Client{Server: apiserver.New(time.Now), Kind: karpenter.NodePoolKind}}
}

// Create implements the interface nodePools.
func (m modelPools) Create(u *unstructured.Unstructured, manager string) error {
	_, err := m.Client.Create(u, metav1.CreateOptions{FieldManager: manager})
	return err
}

// Events implements the interface nodePools.
func (m modelPools) Events(name string) (events []string, err error) {
	exists := false
	for _, v := range m.Server.Log {
		kind := watch.Added
		if exists {
			kind = watch.Modified
		}
		if exists = !v.Deleted; v.Deleted {
			kind = watch.Deleted
		}
		if v.Name == name {
			events = append(events, event(kind, v.Object))
		}
	}
	return events, nil
}

func event(kind watch.EventType, o metav1.Object) string {
	return fmt.Sprintf("%s %d", strings.ToLower(string(kind)), o.GetGeneration())
}

// realPools contains the NodePools of kube-apiserver, without a running Karpenter.
type realPools struct {
	ctx     context.Context
	client  dynamic.ResourceInterface
	watched map[string]*watched
}

// watched contains the events of a watch.
type watched struct {
	mu      sync.Mutex
	events  []string
	version string // resourceVersion of the last event
	deleted bool   // whether the last event was a deletion
}

func newRealPools(ctx context.Context, s *stack.Stack) (*realPools, error) {
	c, err := dynamic.NewForConfig(s.Config)
	if err != nil {
		return nil, err
	}
	return &realPools{ctx: ctx, client: c.Resource(karpenter.NodePools), watched: map[string]*watched{}}, nil
}

// Create implements the interface nodePools.
func (r *realPools) Create(u *unstructured.Unstructured, manager string) error {
	if err := r.watch(u.GetName()); err != nil {
		return err
	}
	_, err := r.client.Create(r.ctx, u, metav1.CreateOptions{FieldManager: manager})
	return err
}

// watch opens a watch of a NodePool before it is created for the first time.
func (r *realPools) watch(name string) error {
	if r.watched[name] != nil {
		return nil
	}
	w, err := r.client.Watch(r.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return err
	}
	seen := &watched{}
	r.watched[name] = seen
	go func() {
		for e := range w.ResultChan() {
			u, is := e.Object.(*unstructured.Unstructured)
			if !is {
				continue
			}
			seen.mu.Lock()
			seen.events = append(seen.events, event(e.Type, u))
			seen.version, seen.deleted = u.GetResourceVersion(), e.Type == watch.Deleted
			seen.mu.Unlock()
		}
	}()
	return nil
}

// Get implements the interface nodePools.
func (r *realPools) Get(name string) (*unstructured.Unstructured, error) {
	return r.client.Get(r.ctx, name, metav1.GetOptions{})
}

// Send implements the interface nodePools.
func (r *realPools) Send(name string, request *apiserver.Request) (*unstructured.Unstructured, error) {
	switch {
	case request.Apply != nil:
		return r.client.Apply(r.ctx, name, request.Apply, metav1.ApplyOptions{FieldManager: request.Manager, Force: request.Force})
	case request.Patch != nil:
		return r.client.Patch(r.ctx, name, types.JSONPatchType, request.Patch, metav1.PatchOptions{FieldManager: request.Manager})
	}
	return r.client.Update(r.ctx, request.Replace, metav1.UpdateOptions{FieldManager: request.Manager})
}

// Delete implements the interface nodePools.
func (r *realPools) Delete(name string) error {
	return r.client.Delete(r.ctx, name, metav1.DeleteOptions{})
}

// Events implements the interface nodePools. It waits until the watch has delivered the current version of the NodePool.
func (r *realPools) Events(name string) (events []string, err error) {
	seen := r.watched[name]
	err = stack.Poll(r.ctx, time.Minute, func(context.Context) error {
		live, err := r.Get(name)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if current := err == nil && live.GetResourceVersion() == seen.version; !current && (err == nil || !seen.deleted) {
			return fmt.Errorf("the watch has delivered version %s", seen.version)
		}
		events = slices.Clone(seen.events)
		return nil
	})
	return events, err
}
