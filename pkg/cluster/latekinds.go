package cluster

import (
	"context"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// Kinds that come with a CRD, which may be installed after we start, or removed.
var (
	leaderWorkerSetKind = schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}
	scaledObjectKind    = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: kindScaledObject}
)

// lateKinds watches kinds that may come and go with their CRD.
type lateKinds struct {
	cluster  *Cluster
	kinds    []*lateKind
	looked   chan struct{} // closed after the first look at every kind
	patience time.Duration // lateSync; tests have less
}

type lateKind struct {
	kind schema.GroupVersionKind
	trim cache.TransformFunc
	on   cache.ResourceEventHandler
	// allowed tells whether our roles let us watch it; nil: they do wherever the kind is served.
	allowed func(context.Context) bool

	mu       sync.Mutex
	resource schema.GroupVersionResource // set while it is served
	running  *lateInformer               // nil while it is not served
}

type lateInformer struct {
	store  cache.Store
	synced cache.InformerSynced
	stop   context.CancelFunc
	done   chan struct{}
}

func newLateKinds(c *Cluster) *lateKinds {
	l := &lateKinds{cluster: c, looked: make(chan struct{}), patience: lateSync}
	l.kinds = append(l.kinds,
		&lateKind{kind: leaderWorkerSetKind, trim: trimLeaderWorkerSet, on: c.onTarget()},
		&lateKind{kind: scaledObjectKind, trim: trimScaledObject, on: c.onScaledObject()},
	)
	if c.nodes != nil {
		l.kinds = append(l.kinds, c.nodes.pool, c.nodes.claim, c.nodes.buffer)
		l.kinds = append(l.kinds, c.nodes.devices...)
	}
	for _, k := range c.options.Kinds {
		if k.GroupKind() == leaderWorkerSetKind.GroupKind() || k.Group == "apps" && (k.Kind == "Deployment" || k.Kind == "StatefulSet") {
			continue // known by itself
		}
		l.kinds = append(l.kinds, &lateKind{kind: k, trim: trimScalable, on: c.scales.handler()})
	}
	return l
}

func (l *lateKinds) run(ctx context.Context) {
	ticker := time.NewTicker(l.cluster.options.DiscoveryPeriod) // I/O edge: paces discovery
	defer ticker.Stop()
	for first := true; ; first = false {
		for _, k := range l.kinds {
			l.look(ctx, k)
		}
		if first {
			close(l.looked)
		}
		select {
		case <-ctx.Done():
			for _, k := range l.kinds {
				k.halt()
			}
			return
		case <-ticker.C:
		}
	}
}

// look starts or stops watching a kind as the API server serves it. An answer that says neither changes nothing.
func (l *lateKinds) look(ctx context.Context, k *lateKind) {
	resources, err := l.cluster.typed.Discovery().ServerResourcesForGroupVersion(k.kind.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		l.cluster.log.Debug("discovery failed", "kind", k.kind.String(), "error", err)
		return
	}
	plural := pluralOf(resources, k.kind.Kind)
	switch {
	case plural == "" && k.running != nil:
		l.cluster.log.Warn("kind is no longer served; its objects are forgotten", "kind", k.kind.String())
		k.halt()
		l.cluster.metrics.kindsWatched.WithLabelValues(k.kind.Group, k.kind.Kind).Set(0)
	case plural != "" && k.running == nil && (k.allowed == nil || k.allowed(ctx)):
		l.cluster.log.Info("watching kind", "kind", k.kind.String())
		if err := k.begin(ctx, l.cluster, plural); err != nil {
			l.cluster.log.Error("cannot watch kind", "kind", k.kind.String(), "error", err)
			return
		}
		l.cluster.metrics.kindsWatched.WithLabelValues(k.kind.Group, k.kind.Kind).Set(1)
	}
}

func pluralOf(list *metav1.APIResourceList, kind string) string {
	if list == nil {
		return ""
	}
	for _, r := range list.APIResources {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			return r.Name
		}
	}
	return ""
}

// resourceOf is where objects of a kind live in the API; ok is false while it is not served.
func (l *lateKinds) resourceOf(r ref) (schema.GroupVersionResource, bool) {
	for _, k := range l.kinds {
		if k.kind.Group != r.group || k.kind.Kind != r.kind {
			continue
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.resource, k.running != nil
	}
	return schema.GroupVersionResource{}, false
}

func (k *lateKind) begin(ctx context.Context, c *Cluster, plural string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resource = k.kind.GroupVersion().WithResource(plural)
	informer := dynamicinformer.NewFilteredDynamicInformer(c.dynamic, k.resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	if err := informer.SetTransform(k.trim); err != nil {
		return err
	}
	handler, err := informer.AddEventHandler(k.on)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	run := &lateInformer{store: informer.GetStore(), synced: handler.HasSynced, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(run.done)
		informer.RunWithContext(ctx)
	}()
	k.running = run
	return nil
}

// halt stops watching and forgets what was seen: the objects went with their CRD.
func (k *lateKind) halt() {
	k.mu.Lock()
	run := k.running
	k.running = nil
	k.mu.Unlock()
	if run == nil {
		return
	}
	// Outside of the lock: who handles an object may wait for somebody who asks whether the kind is synced.
	run.stop()
	<-run.done
	for _, obj := range run.store.List() {
		k.on.OnDelete(obj)
	}
}

// lateSync bounds how long a kind that is served but cannot be listed (no RBAC, a broken conversion webhook) delays everybody:
// its own workloads are not seen and their HPAs hold, the others go on. ScaledObjects are waited for without end: where they are
// not known, the activator would write beside KEDA.
const lateSync = 20 * time.Second

// waitForSync waits for the kinds that are served at start-up; one that comes later delays nobody.
func (l *lateKinds) waitForSync(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-l.looked:
	}
	bounded, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	for _, k := range l.kinds {
		synced := k.synced()
		if synced == nil {
			continue
		}
		wait := bounded
		if k.kind == scaledObjectKind {
			wait = ctx
		}
		if !cache.WaitForCacheSync(wait.Done(), synced) && ctx.Err() == nil {
			l.cluster.log.Error("kind cannot be listed; its workloads are not seen until it can", "kind", k.kind.String())
		}
	}
	return ctx.Err() == nil
}

// synced is nil while the kind is not served.
func (k *lateKind) synced() cache.InformerSynced {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running == nil {
		return nil
	}
	return k.running.synced
}
