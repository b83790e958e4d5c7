package informer

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// syncTimeout limits how long the start waits for a kind that the API server serves but cannot list (because of missing RBAC or a failing
// conversion webhook). After that time gpuscaler starts without that kind: it serves no targets for workloads of that kind, and their HPAs
// keep their replicas. Other workloads are not affected.
const syncTimeout = 20 * time.Second

// Kind is a kind whose CustomResourceDefinition can be installed or removed while the controller runs. It implements CRD.
type Kind struct {
	GVK     schema.GroupVersionKind
	Trim    cache.TransformFunc
	Handler cache.ResourceEventHandler
	// Allowed reports whether gpuscaler may watch the kind. nil: it may watch the kind whenever the API server serves it.
	Allowed func(context.Context) bool
	// Required makes WaitForSync wait without a time limit while the kind is served.
	Required bool

	mu       sync.Mutex
	resource schema.GroupVersionResource // resource of the kind while it is served
	running  *runningInformer            // nil while the kind is not served
}

type runningInformer struct {
	store  cache.Store
	synced cache.InformerSynced
	stop   context.CancelFunc
	done   chan struct{}
}

// CRDs watches kinds whose CustomResourceDefinitions can be installed or removed while the controller runs.
type CRDs struct {
	discovery discovery.DiscoveryInterface
	dynamic   dynamic.Interface
	period    time.Duration // time between two checks whether kinds are served
	log       *slog.Logger
	watched   *prometheus.GaugeVec
	timeout   time.Duration

	kinds   []*Kind
	checked chan struct{} // closed after every kind was checked once
}

// CRDOptions configures CRDs.
type CRDOptions struct {
	Discovery discovery.DiscoveryInterface
	Dynamic   dynamic.Interface
	Period    time.Duration // time between two checks whether kinds are served
	Log       *slog.Logger
	Metrics   prometheus.Registerer // nil: no metric is registered
}

// NewCRDs returns CRDs without kinds.
func NewCRDs(o CRDOptions) *CRDs {
	c := &CRDs{
		discovery: o.Discovery, dynamic: o.Dynamic, period: o.Period, log: o.Log, timeout: syncTimeout, checked: make(chan struct{}),
		watched: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gpuscaler_kind_watched",
			Help: "1 while objects of a kind with a CRD are watched, 0 while the API server does not serve the kind.",
		}, []string{"group", "kind"}),
	}
	if o.Metrics != nil {
		o.Metrics.MustRegister(c.watched)
	}
	return c
}

// SetSyncTimeout replaces the time limit of WaitForSync. It must be called before Run.
func (c *CRDs) SetSyncTimeout(d time.Duration) { c.timeout = d }

// SyncTimeout returns the time limit of WaitForSync.
func (c *CRDs) SyncTimeout() time.Duration { return c.timeout }

// Checked returns a channel that is closed after Run has checked once for every kind whether the API server serves it.
func (c *CRDs) Checked() <-chan struct{} { return c.checked }

// Add adds kinds. It must be called before Run.
func (c *CRDs) Add(kinds ...*Kind) { c.kinds = append(c.kinds, kinds...) }

// Run watches the kinds while the API server serves them, until ctx ends.
func (c *CRDs) Run(ctx context.Context) {
	ticker := time.NewTicker(c.period) // may use the clock: paces discovery
	defer ticker.Stop()
	for first := true; ; first = false {
		for _, k := range c.kinds {
			c.check(ctx, k)
		}
		if first {
			close(c.checked)
		}
		select {
		case <-ctx.Done():
			for _, k := range c.kinds {
				k.halt()
			}
			return
		case <-ticker.C:
		}
	}
}

// check starts or stops watching a kind. If the API server does not respond, check changes nothing.
func (c *CRDs) check(ctx context.Context, k *Kind) {
	resources, err := c.discovery.ServerResourcesForGroupVersion(k.GVK.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		c.log.Debug("discovery failed", "kind", k.GVK.String(), "error", err)
		return
	}
	plural := PluralOf(resources, k.GVK.Kind)
	switch {
	case plural == "" && k.running != nil:
		c.log.Warn("the API server does not serve the kind any more; its objects are dropped", "kind", k.GVK.String())
		k.halt()
		c.watched.WithLabelValues(k.GVK.Group, k.GVK.Kind).Set(0)
	case plural != "" && k.running == nil && (k.Allowed == nil || k.Allowed(ctx)):
		c.log.Info("watching kind", "kind", k.GVK.String())
		if err := k.start(ctx, c.dynamic, plural); err != nil {
			c.log.Error("cannot watch kind", "kind", k.GVK.String(), "error", err)
			return
		}
		c.watched.WithLabelValues(k.GVK.Group, k.GVK.Kind).Set(1)
	}
}

// PluralOf returns the plural resource name of a kind, such as "nodepools", from a discovery list of the API server. It returns an empty
// string if the list does not contain the kind.
func PluralOf(list *metav1.APIResourceList, kind string) string {
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

// Resource returns the resource of a kind. ok is false while the API server does not serve the kind.
func (c *CRDs) Resource(kind schema.GroupKind) (r schema.GroupVersionResource, ok bool) {
	for _, k := range c.kinds {
		if k.GVK.GroupKind() != kind {
			continue
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.resource, k.running != nil
	}
	return schema.GroupVersionResource{}, false
}

func (k *Kind) start(ctx context.Context, objects dynamic.Interface, plural string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resource = k.GVK.GroupVersion().WithResource(plural)
	informer := dynamicinformer.NewFilteredDynamicInformer(objects, k.resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	if err := informer.SetTransform(k.Trim); err != nil {
		return err
	}
	handler, err := informer.AddEventHandler(k.Handler)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	run := &runningInformer{store: informer.GetStore(), synced: handler.HasSynced, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(run.done)
		informer.RunWithContext(ctx)
	}()
	k.running = run
	return nil
}

// halt stops the informer and removes its objects from gpuscaler's caches, because the API server deleted the objects together with the
// CRD.
func (k *Kind) halt() {
	k.mu.Lock()
	run := k.running
	k.running = nil
	k.mu.Unlock()
	if run == nil {
		return
	}
	// k.mu must not be locked here: a handler can wait for a goroutine that calls Synced, which locks k.mu
	run.stop()
	<-run.done
	for _, obj := range run.store.List() {
		k.Handler.OnDelete(obj)
	}
}

// WaitForSync waits until the handlers have received the first list of every served kind. For kinds that are not Required, it stops waiting
// at the time limit. It returns false only if ctx ended.
func (c *CRDs) WaitForSync(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.checked:
	}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for _, k := range c.kinds {
		synced := k.Synced()
		if synced == nil {
			continue
		}
		wait := bounded
		if k.Required {
			wait = ctx
		}
		if !cache.WaitForCacheSync(wait.Done(), synced) && ctx.Err() == nil {
			c.log.Error("the kind cannot be listed; its workloads are not read until it can", "kind", k.GVK.String())
		}
	}
	return ctx.Err() == nil
}

// Synced returns a function that reports whether the handler has received the first list of the kind. It returns nil while the kind is not
// watched.
func (k *Kind) Synced() cache.InformerSynced {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running == nil {
		return nil
	}
	return k.running.synced
}
