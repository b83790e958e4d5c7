// Package scale reads the scale subresource (/scale) of the additional kinds of custom resources that gpuscaler's configuration names.
//
// A Reader reads /scale after each change of an object and puts the result into the cache of the cluster.
package scale

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
)

const readTimeout = 5 * time.Second

// Targets stores the scale targets that a Reader has read.
type Targets interface {
	PutTarget(*cache.Target)
	DropTarget(cache.Ref)
}

// Reader reads /scale of custom resources. It does not read the replicas and the selector from the objects themselves, because only their
// CRD specifies which fields contain them. It reads /scale after each change of an object and keeps the result until the next change.
type Reader struct {
	targets  Targets
	dynamic  dynamic.Interface
	resource func(schema.GroupKind) (schema.GroupVersionResource, bool)
	log      *slog.Logger
	queue    workqueue.TypedRateLimitingInterface[cache.Ref]

	mu      sync.Mutex
	objects map[cache.Ref]*cache.Target // the objects as the informer read them, without the values of /scale
}

// NewReader returns a Reader. The function resource returns the resource of a kind, or false if the API server does not serve the kind.
func NewReader(targets Targets, objects dynamic.Interface, resource func(schema.GroupKind) (schema.GroupVersionResource, bool),
	log *slog.Logger) *Reader {
	return &Reader{
		targets: targets, dynamic: objects, resource: resource, log: log, objects: map[cache.Ref]*cache.Target{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.Ref]()),
	}
}

// Handler returns the event handler for the informers of the custom resources. It queues each changed object for Run.
func (r *Reader) Handler() toolscache.ResourceEventHandler {
	return informer.Handler(
		func(_, t *cache.Target) {
			r.mu.Lock()
			r.objects[t.Ref] = t
			r.mu.Unlock()
			r.queue.Add(t.Ref)
		},
		func(t *cache.Target) {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.objects, t.Ref)
			r.queue.Forget(t.Ref)
			r.targets.DropTarget(t.Ref)
		},
	)
}

// Run reads /scale of changed objects until ctx ends.
func (r *Reader) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, r.queue.ShutDown)()
	for {
		ref, stop := r.queue.Get()
		if stop {
			return
		}
		if err := r.read(ctx, ref); err != nil && ctx.Err() == nil {
			if r.queue.NumRequeues(ref) == 0 {
				r.log.Warn("cannot read /scale; trying again", "object", ref.String(), "error", err)
			}
			r.queue.AddRateLimited(ref)
		} else {
			r.queue.Forget(ref)
		}
		r.queue.Done(ref)
	}
}

func (r *Reader) read(ctx context.Context, ref cache.Ref) error {
	object := r.object(ref)
	resource, served := r.resource(schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
	if object == nil || !served {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	scale, err := r.dynamic.Resource(resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{}, "scale")
	if apierrors.IsNotFound(err) && r.object(ref) == nil {
		return nil // the object was deleted in the meantime
	}
	notFound := apierrors.IsNotFound(err)
	if err != nil && !notFound {
		return err // the error may be temporary, so the cache keeps the previous result
	}
	var target *cache.Target
	if err == nil {
		target, err = object.WithScale(scale)
	}
	if err != nil {
		target = object.WithoutScale(notFound, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// if the object has changed again in the meantime, Run reads it again later, but this result is newer than the stored result
	if r.objects[ref] != nil {
		r.targets.PutTarget(target)
	}
	return err
}

func (r *Reader) object(ref cache.Ref) *cache.Target {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objects[ref]
}
