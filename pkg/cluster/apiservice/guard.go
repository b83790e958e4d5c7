// Package apiservice registers this release as the server of external metrics. It writes the APIService v1beta1.external.metrics.k8s.io,
// updates its CA bundle, and reports when the APIService names the Service of another adapter (a server of external metrics).
//
// A Guard watches the APIService and compares it with the APIService that this release needs, after each change. Only the Guard of the
// leader writes the APIService.
package apiservice

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
)

// Name is the name of the APIService for external metrics. A cluster has only one APIService of this name, and the APIService refers to one
// Service. All HPAs read their external metrics from that Service.
const Name = "v1beta1.external.metrics.k8s.io"

// Resource is the resource of APIServices.
var Resource = apiregistration.SchemeGroupVersion.WithResource("apiservices")

// Mode determines when the release writes the APIService.
type Mode string

const (
	// Auto writes the APIService only if it does not exist or refers to this release. It does not replace another adapter, such as KEDA.
	Auto Mode = "auto"
	// Owner writes the APIService in the same cases as Auto. While another adapter is registered, Owner always sets the metric
	// gpuscaler_apiservice_conflict to 1. Auto sets the metric to 1 only if this release was registered earlier.
	Owner Mode = "owner"
	// Off neither reads nor writes the APIService.
	Off Mode = "off"
)

// Options configure a Guard.
type Options struct {
	Mode    Mode                 // empty: Auto
	Service types.NamespacedName // Service of this release, which selects the leader's pod
	Port    int32                // port of the Service; 0: 443
	// CABundle returns the CA certificates, in PEM, with which the API server verifies the certificate of this release. The Guard calls it in
	// each check, because the CA can be renewed.
	CABundle func() []byte
	// Registered is called in each check in which the APIService refers to this release. bundle is spec.caBundle of the APIService. Registered
	// can be nil.
	Registered func(bundle []byte)
	Leading    func() bool // nil: this process may always write
	Instance   string      // name of the pod, for Events
	// ClusterName returns the cluster's name, for an annotation of every Event. nil or an empty name: no annotation.
	ClusterName func() string
	Log         *slog.Logger          // nil: slog.Default() is used
	Metrics     prometheus.Registerer // nil: no metric is registered
	// OwnerRole is the name of a ClusterRole of this release. The ClusterRole becomes the owner of the APIService, so that an uninstallation,
	// which deletes the ClusterRole, also deletes the APIService. An APIService without a server makes API discovery fail, and then no
	// namespace can be deleted. Empty: the APIService has no owner.
	OwnerRole string
}

const (
	// checkInterval is the longest time between two checks. The Guard also checks after each change of the APIService. The interval is needed
	// because the renewal of a CA certificate does not change the APIService.
	checkInterval = 10 * time.Second
	// leaderCheckInterval is how often a standby checks whether it has become the leader. If each pod of gpuscaler signs its own certificate,
	// the API server rejects the certificate of a new leader until the APIService contains the new leader's CA. HPAs cannot read their metrics
	// during this time.
	leaderCheckInterval = 200 * time.Millisecond
	writeTimeout        = 5 * time.Second
)

// Guard registers this release in the APIService of external metrics and keeps that registration up to date.
type Guard struct {
	options  Options
	log      *slog.Logger
	objects  dynamic.ResourceInterface
	watch    dynamic.Interface
	roles    rbacclient.ClusterRoleInterface
	events   events.Sender
	recorder *events.Recorder
	owned    prometheus.Gauge
	conflict prometheus.Gauge

	last     registration // the registration at the last call of report
	wasOurs  bool         // whether the APIService has named this release since the start
	lastFail string       // the last failure that was logged
}

// New returns a Guard. It reads and writes nothing before Run.
func New(cfg *rest.Config, o Options) (*Guard, error) {
	switch o.Mode {
	case "", Auto, Owner, Off:
	default:
		return nil, fmt.Errorf("external metrics mode %q: allowed are auto, owner and off", o.Mode)
	}
	typed, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("dynamic client: %w", err)
	}
	return newGuard(typed, objects, o), nil
}

func newGuard(typed kubernetes.Interface, objects dynamic.Interface, o Options) *Guard {
	if o.Mode == "" {
		o.Mode = Auto
	}
	if o.Port == 0 {
		o.Port = 443
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Leading == nil {
		o.Leading = func() bool { return true }
	}
	if o.CABundle == nil {
		o.CABundle = func() []byte { return nil }
	}
	recorder := events.NewRecorder(typed.EventsV1(), events.Options{Instance: o.Instance, ClusterName: o.ClusterName, Log: o.Log,
		Metrics: o.Metrics})
	g := &Guard{
		options: o, log: o.Log, watch: objects, objects: objects.Resource(Resource), roles: typed.RbacV1().ClusterRoles(),
		events: recorder, recorder: recorder,
		owned: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gpuscaler_apiservice_owned", Help: "1 while the API server reads external metrics from this release.",
		}),
		conflict: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gpuscaler_apiservice_conflict",
			Help: "1 while the APIService of external metrics names the Service of another adapter. HPAs then do not read this release.",
		}),
	}
	if o.Metrics != nil {
		o.Metrics.MustRegister(g.owned, g.conflict)
	}
	return g
}

// Run watches the APIService and updates it until ctx ends. In mode Off it returns immediately.
func (g *Guard) Run(ctx context.Context) error {
	if g.options.Mode == Off {
		return nil
	}
	go g.recorder.Run(ctx)
	one := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", Name).String()
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(g.watch, Resource, metav1.NamespaceAll, 0, cache.Indexers{}, one).Informer()
	changed := make(chan struct{}, 1)
	notify := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify, UpdateFunc: func(_, o any) { notify(o) }, DeleteFunc: notify,
	}); err != nil {
		return fmt.Errorf("watch %s: %w", Name, err)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); informer.RunWithContext(ctx) }()
	defer func() { <-stopped }()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	for ctx.Err() == nil {
		wasLeading := g.options.Leading()
		g.check(ctx, informer.GetStore())
		g.wait(ctx, changed, wasLeading)
	}
	return nil
}

// wait blocks until the next check is due: after a change of the APIService, after checkInterval, or when this process becomes the leader,
// because the APIService must then contain this process's CA. wait also returns when ctx ends.
func (g *Guard) wait(ctx context.Context, changed <-chan struct{}, wasLeading bool) {
	deadline := time.After(checkInterval)         // may use the clock: paces checks
	ticker := time.NewTicker(leaderCheckInterval) // may use the clock: paces checks of the lease
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			return
		case <-deadline:
			return
		case <-ticker.C:
			if !wasLeading && g.options.Leading() {
				return
			}
		}
	}
}

// check reads the APIService from the store and reports changes since the last check. If this process leads, check writes the APIService if
// necessary.
func (g *Guard) check(ctx context.Context, store cache.Store) {
	obj, exists, _ := store.GetByKey(Name)
	var found *apiregistration.APIService
	if u, ok := obj.(*unstructured.Unstructured); exists && ok {
		found = &apiregistration.APIService{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, found); err != nil {
			g.log.Error("the APIService cannot be decoded", "name", Name, "error", err)
			return
		}
	}
	now := g.compare(found)
	g.report(now)
	if now.ours && g.options.Registered != nil {
		g.options.Registered(found.Spec.CABundle)
	}
	if now.write && g.options.Leading() {
		err := g.apply(ctx, found)
		switch {
		case err == nil:
			g.lastFail = ""
		case ctx.Err() == nil && g.lastFail != err.Error():
			g.lastFail = err.Error()
			g.log.Warn("the APIService of external metrics was not written; trying again", "name", Name, "error", err)
		}
	}
}

// report logs the changes since the last report, sends Events, sets the metrics, and stores the registration for the next comparison.
func (g *Guard) report(now registration) {
	g.owned.Set(gauge(now.ours))
	g.conflict.Set(gauge(now.conflict))
	last := g.last
	g.last, g.wasOurs = now, g.wasOurs || now.ours
	if now.owner == last.owner && now.available == last.available {
		return
	}
	about := corev1.ObjectReference{APIVersion: apiregistration.SchemeGroupVersion.String(), Kind: "APIService", Name: Name}
	note := "external metrics are served by " + now.owner + ", not by " + g.options.Service.String()
	switch {
	case now.ours:
		g.log.Info("the API server reads external metrics from this release",
			"service", now.owner, "available", now.available, "detail", now.detail)
		if last.owner != now.owner && g.options.Leading() {
			g.events.Send(about, corev1.EventTypeNormal, events.APIServiceTaken, "external metrics are served by "+now.owner)
		}
	case now.conflict:
		note += "; HPAs that read gpuscaler's metric keep their replicas. Next: " + NextStep(now.owner)
		g.log.Error("ALARM: "+note, "owner", now.owner, "mode", g.options.Mode)
		reason := events.APIServiceOccupied
		if g.wasOurs {
			reason = events.APIServiceConflict
		}
		if g.options.Leading() {
			g.events.Send(about, corev1.EventTypeWarning, reason, note)
		}
	case now.owner == NoOwner:
		g.log.Info("no service serves external metrics; registering this release", "service", g.options.Service.String())
	default:
		g.log.Info(note+"; not replaced in mode auto. Next: "+NextStep(now.owner), "owner", now.owner)
	}
}

func gauge(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
