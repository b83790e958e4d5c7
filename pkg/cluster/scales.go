package cluster

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// scales reads /scale of kinds that are known by configuration only. Where their replicas and selector stand is written in their
// CRD and nowhere in the object, so /scale is asked after each change of one; the last answer stands until the next.
type scales struct {
	cluster *Cluster
	queue   workqueue.TypedRateLimitingInterface[ref]

	mu   sync.Mutex
	seen map[ref]*targetFacts
}

func newScales(c *Cluster) *scales {
	return &scales{
		cluster: c, seen: map[ref]*targetFacts{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ref]()),
	}
}

func (s *scales) handler() cache.ResourceEventHandler {
	return on(
		func(_, f *targetFacts) {
			s.mu.Lock()
			s.seen[f.ref] = f
			s.mu.Unlock()
			s.queue.Add(f.ref)
		},
		func(f *targetFacts) {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.seen, f.ref)
			s.queue.Forget(f.ref)
			s.cluster.world.dropTarget(f.ref)
		},
	)
}

func (s *scales) run(ctx context.Context) {
	defer context.AfterFunc(ctx, s.queue.ShutDown)()
	for {
		r, stop := s.queue.Get()
		if stop {
			return
		}
		if err := s.read(ctx, r); err != nil && ctx.Err() == nil {
			if s.queue.NumRequeues(r) == 0 {
				s.cluster.log.Warn("cannot read /scale", "object", r.String(), "error", err)
			}
			s.queue.AddRateLimited(r)
		} else {
			s.queue.Forget(r)
		}
		s.queue.Done(r)
	}
}

func (s *scales) read(ctx context.Context, r ref) error {
	s.mu.Lock()
	facts := s.seen[r]
	s.mu.Unlock()
	resource, served := s.cluster.resourceOf(r)
	if facts == nil || !served {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, activateTimeout)
	defer cancel()
	scale, err := s.cluster.dynamic.Resource(resource).Namespace(r.namespace).Get(ctx, r.name, metav1.GetOptions{}, "scale")
	if apierrors.IsNotFound(err) && !s.has(r) {
		return nil // it was deleted meanwhile
	}
	if err != nil {
		return err
	}
	scaled, err := withScale(facts, scale)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[r] != nil { // a newer version is in the queue already; this one is no worse than what stands
		s.cluster.world.putTarget(scaled)
	}
	return nil
}

func (s *scales) has(r ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[r] != nil
}

// withScale completes what was seen of an object by what its /scale says.
func withScale(f *targetFacts, scale *unstructured.Unstructured) (*targetFacts, error) {
	replicas, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	if err != nil || replicas < 0 || replicas > maxReplicas {
		return nil, fmt.Errorf("spec.replicas of /scale is %v", scale.Object["spec"])
	}
	text, _, _ := unstructured.NestedString(scale.Object, "status", "selector")
	if text == "" {
		return nil, fmt.Errorf("/scale names no selector: the CRD lacks labelSelectorPath, so its pods cannot be told from others")
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("status.selector of /scale: %w", err)
	}
	exist, _, _ := unstructured.NestedInt64(scale.Object, "status", "replicas")
	full := *f
	full.replicas, full.selector = int32(replicas), selector
	full.scaled, full.exist = true, int32(min(max(exist, 0), maxReplicas))
	return &full, nil
}
