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
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
)

// watched is an informer, the transform that trims its objects, and the handler that receives the trimmed objects.
type watched struct {
	informer toolscache.SharedIndexInformer
	trim     toolscache.TransformFunc
	handler  toolscache.ResourceEventHandler
}

// start runs informers. It returns after their handlers have received all objects of the first lists.
func (c *Cluster) start(ctx context.Context, running *sync.WaitGroup, all ...watched) error {
	var synced []toolscache.InformerSynced
	for _, w := range all {
		if err := w.informer.SetTransform(w.trim); err != nil {
			return fmt.Errorf("informer: %w", err)
		}
		handler, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return fmt.Errorf("informer: %w", err)
		}
		synced = append(synced, handler.HasSynced)
		running.Go(func() { w.informer.RunWithContext(ctx) })
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return errNotSynced
	}
	return nil
}

func (c *Cluster) informTargets(ctx context.Context, running *sync.WaitGroup) error {
	all, none := metav1.NamespaceAll, toolscache.Indexers{}
	return c.start(ctx, running,
		watched{appsinformers.NewDeploymentInformer(c.typed, all, 0, none), cache.TrimDeployment, c.targetHandler()},
		watched{appsinformers.NewStatefulSetInformer(c.typed, all, 0, none), cache.TrimStatefulSet, c.targetHandler()},
		watched{autoscalinginformers.NewHorizontalPodAutoscalerInformer(c.typed, all, 0, none), cache.TrimHPA, c.hpaHandler()},
	)
}

// informPods runs the informer of pods. It excludes pods that have finished, because a namespace with batch jobs can contain thousands of
// them.
func (c *Cluster) informPods(ctx context.Context, running *sync.WaitGroup) error {
	unfinished := func(o *metav1.ListOptions) {
		o.FieldSelector = "status.phase!=" + string(corev1.PodSucceeded) + ",status.phase!=" + string(corev1.PodFailed)
	}
	pods := coreinformers.NewFilteredPodInformer(c.typed, metav1.NamespaceAll, 0, toolscache.Indexers{}, unfinished)
	return c.start(ctx, running, watched{pods, cache.WithSizes(c.options.Kinds), informer.Handler(
		func(_, p *cache.Pod) { c.cache.PutPod(p) },
		func(p *cache.Pod) { c.cache.DropPod(p.Namespace, p.Name) },
	)})
}

// addKinds adds the informers of kinds that a CRD defines.
func (c *Cluster) addKinds() {
	c.crds.Add(
		&informer.Kind{GVK: cache.LeaderWorkerSetKind, Trim: cache.TrimLeaderWorkerSet, Handler: c.targetHandler()},
		// Required: without the ScaledObjects, the Activator could write /scale of a workload that KEDA scales
		&informer.Kind{GVK: cache.ScaledObjects, Trim: cache.TrimScaledObject, Handler: c.scaledObjectHandler(), Required: true},
	)
	if c.nodes != nil {
		c.crds.Add(c.nodes.pool, c.nodes.claim, c.nodes.overlay, c.nodes.buffer)
		c.crds.Add(c.nodes.devices...)
	}
	for _, k := range c.options.Kinds {
		if k.GroupKind() == cache.LeaderWorkerSetKind.GroupKind() || k.Group == "apps" && (k.Kind == "Deployment" || k.Kind == "StatefulSet") {
			continue // these kinds have their own informers
		}
		c.crds.Add(&informer.Kind{GVK: k.GroupVersionKind, Trim: k.Trim, Handler: c.scales.Handler()})
	}
}

func (c *Cluster) targetHandler() toolscache.ResourceEventHandler {
	return informer.Handler(
		func(_, t *cache.Target) { c.cache.PutTarget(t) },
		func(t *cache.Target) { c.cache.DropTarget(t.Ref) },
	)
}

func (c *Cluster) hpaHandler() toolscache.ResourceEventHandler {
	return informer.Handler(
		func(old, h *cache.HPA) {
			c.cache.PutHPA(old, h)
			if o, ok := h.PolicyObject(); ok && c.options.Annotated != nil {
				c.options.Annotated.SetObject(o)
			}
			if c.statuses != nil && h.ScaledObject == "" {
				c.statuses.Put(h.Reference(), h.PolicyStatus)
			}
		},
		func(h *cache.HPA) {
			c.cache.DropHPA(h)
			c.dropPolicyStatus(h.Reference())
			c.dropPolicyObject(cache.HPAKind, h.Namespace, h.Name)
		},
	)
}

func (c *Cluster) scaledObjectHandler() toolscache.ResourceEventHandler {
	return informer.Handler(
		func(old, s *cache.ScaledObject) {
			c.cache.PutScaledObject(old, s)
			if c.options.Annotated != nil {
				c.options.Annotated.SetObject(s.PolicyObject())
			}
			if c.statuses != nil {
				c.statuses.Put(s.Reference(), s.PolicyStatus)
			}
		},
		func(s *cache.ScaledObject) {
			c.cache.DropScaledObject(s)
			c.dropPolicyStatus(s.Reference())
			c.dropPolicyObject(cache.ScaledObjectKind, s.Namespace, s.Name)
		},
	)
}

func (c *Cluster) dropPolicyStatus(about corev1.ObjectReference) {
	if c.statuses != nil {
		c.statuses.Delete(about)
	}
}

func (c *Cluster) dropPolicyObject(kind, namespace, name string) {
	if c.options.Annotated != nil {
		c.options.Annotated.DeleteObject(kind, namespace, name)
	}
}
