package cluster

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// watched is one informer and what is done with its objects, which are our own trimmed ones.
type watched struct {
	informer cache.SharedIndexInformer
	trim     cache.TransformFunc
	on       cache.ResourceEventHandler
}

// start runs an informer and returns when its first list has reached the world.
func (c *Cluster) start(ctx context.Context, running *sync.WaitGroup, all ...watched) error {
	var synced []cache.InformerSynced
	for _, w := range all {
		if err := w.informer.SetTransform(w.trim); err != nil {
			return fmt.Errorf("informer: %w", err)
		}
		handler, err := w.informer.AddEventHandler(w.on)
		if err != nil {
			return fmt.Errorf("informer: %w", err)
		}
		synced = append(synced, handler.HasSynced)
		running.Go(func() { w.informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return errNotSynced
	}
	return nil
}

func (c *Cluster) informTargets(ctx context.Context, running *sync.WaitGroup) error {
	all, none := metav1.NamespaceAll, cache.Indexers{}
	return c.start(ctx, running,
		watched{appsinformers.NewDeploymentInformer(c.typed, all, 0, none), trimDeployment, c.onTarget()},
		watched{appsinformers.NewStatefulSetInformer(c.typed, all, 0, none), trimStatefulSet, c.onTarget()},
		watched{autoscalinginformers.NewHorizontalPodAutoscalerInformer(c.typed, all, 0, none), trimHPA, c.onHPA()},
	)
}

// informPods leaves finished pods on the server: a batch namespace keeps thousands of them.
func (c *Cluster) informPods(ctx context.Context, running *sync.WaitGroup) error {
	unfinished := func(o *metav1.ListOptions) {
		o.FieldSelector = "status.phase!=" + string(corev1.PodSucceeded) + ",status.phase!=" + string(corev1.PodFailed)
	}
	informer := coreinformers.NewFilteredPodInformer(c.typed, metav1.NamespaceAll, 0, cache.Indexers{}, unfinished)
	return c.start(ctx, running, watched{informer, trimPod, on(
		func(_, p *podFacts) { c.world.putPod(p) },
		func(p *podFacts) { c.world.dropPod(p.Namespace, p.Name) },
	)})
}

func (c *Cluster) onTarget() cache.ResourceEventHandler {
	return on(
		func(_, f *targetFacts) { c.world.putTarget(f) },
		func(f *targetFacts) { c.world.dropTarget(f.ref) },
	)
}

func (c *Cluster) onHPA() cache.ResourceEventHandler {
	return on(
		func(old, h *hpaFacts) { c.world.putHPA(old, h); c.carryHPA(h) },
		func(h *hpaFacts) { c.world.dropHPA(h); c.dropCarrier(kindHPA, h.Namespace, h.Name) },
	)
}

func (c *Cluster) onScaledObject() cache.ResourceEventHandler {
	return on(
		func(old, s *scaledObjectFacts) { c.world.putScaledObject(old, s); c.carryScaledObject(s) },
		func(s *scaledObjectFacts) {
			c.world.dropScaledObject(s)
			c.dropCarrier(kindScaledObject, s.Namespace, s.Name)
		},
	)
}

// on is a handler of our own trimmed objects. old is nil for an object that is new.
func on[T any](put func(old, object *T), drop func(object *T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if object, ok := obj.(*T); ok {
				put(nil, object)
			}
		},
		UpdateFunc: func(before, obj any) {
			old, _ := before.(*T)
			if object, ok := obj.(*T); ok {
				put(old, object)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if object, ok := obj.(*T); ok {
				drop(object)
			}
		},
	}
}
