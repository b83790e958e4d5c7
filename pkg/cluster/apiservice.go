package cluster

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
)

// ExternalMetricsAPIService is the one registration behind which every HPA's external metrics are asked for. There is one per
// cluster: whoever is named in it answers for all.
const ExternalMetricsAPIService = "v1beta1.external.metrics.k8s.io"

// APIServiceMode says whether we register ourselves for external metrics.
type APIServiceMode string

const (
	// APIServiceAuto registers where nobody is registered, and leaves the place to anybody else who is (KEDA, an adapter).
	APIServiceAuto APIServiceMode = "auto"
	// APIServiceOwner expects to be registered and raises an alarm where somebody else is. It takes the place from nobody either.
	APIServiceOwner APIServiceMode = "owner"
	// APIServiceOff neither reads nor writes the registration.
	APIServiceOff APIServiceMode = "off"
)

// APIServiceOptions say how we want to be reached.
type APIServiceOptions struct {
	Mode    APIServiceMode       // empty means auto
	Service types.NamespacedName // ours, in front of the leader
	Port    int32                // 0 means 443
	// CABundle is the PEM by which the API server checks our certificate. It is asked again at each look, so it may be renewed.
	CABundle func() []byte
	// Registered is told the CA bundle of our registration as it stands, at each look; nil: nobody.
	Registered func(bundle []byte)
	Leading    func() bool // nil: this process may always write
	Instance   string      // this pod, in Events
	// ClusterName returns the cluster's name, for an annotation of every Event; nil or empty: none.
	ClusterName func() string
	Log         *slog.Logger          // nil: slog.Default()
	Metrics     prometheus.Registerer // nil: nothing is registered
	// OwnerRole is a ClusterRole with which a registration of ours goes away, by Kubernetes' garbage collection: left behind by an
	// uninstall it would break discovery, and with it the deletion of every namespace. Empty: the registration stays.
	OwnerRole string
}

const (
	// apiServiceEvery is how often the registration is looked at beside the watch: the CA may be renewed.
	apiServiceEvery = 10 * time.Second
	// leadingEvery is how soon a new leader looks. Until its CA stands there the API server does not believe its certificate,
	// where each replica has signed its own, and every HPA holds.
	leadingEvery = 200 * time.Millisecond
)

// APIService guards the registration of external metrics.
type APIService struct {
	options APIServiceOptions
	log     *slog.Logger
	objects dynamic.ResourceInterface
	watch   dynamic.Interface
	roles   rbacclient.ClusterRoleInterface
	events  *recorder
	owned   prometheus.Gauge
	stolen  prometheus.Gauge

	was    standingOf // what was said last
	had    bool       // it was ours at some time
	failed string     // the last failure that was logged
}

var apiServices = apiregistration.SchemeGroupVersion.WithResource("apiservices")

// NewAPIService prepares the guard; nothing is read before Run.
func NewAPIService(cfg *rest.Config, o APIServiceOptions) (*APIService, error) {
	switch o.Mode {
	case "", APIServiceAuto, APIServiceOwner, APIServiceOff:
	default:
		return nil, fmt.Errorf("external metrics mode %q is none of auto, owner, off", o.Mode)
	}
	typed, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("dynamic client: %w", err)
	}
	return newAPIService(typed, objects, o), nil
}

func newAPIService(typed kubernetes.Interface, objects dynamic.Interface, o APIServiceOptions) *APIService {
	if o.Mode == "" {
		o.Mode = APIServiceAuto
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
	g := &APIService{
		options: o, log: o.Log, watch: objects, objects: objects.Resource(apiServices), roles: typed.RbacV1().ClusterRoles(),
		owned: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gpuscaler_apiservice_owned", Help: "1 while the API server asks us for external metrics.",
		}),
		stolen: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gpuscaler_apiservice_conflict",
			Help: "1 while somebody else serves external metrics where we did, or where mode owner says we should.",
		}),
	}
	g.events = newRecorder(typed.EventsV1(), o.Instance, o.Log, newMetrics(nil))
	g.events.cluster = o.ClusterName
	if o.Metrics != nil {
		o.Metrics.MustRegister(g.owned, g.stolen)
	}
	return g
}

// Run guards the registration until ctx ends. In mode off it returns at once.
func (g *APIService) Run(ctx context.Context) error {
	if g.options.Mode == APIServiceOff {
		return nil
	}
	go g.events.run(ctx)
	one := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", ExternalMetricsAPIService).String()
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(g.watch, apiServices, metav1.NamespaceAll, 0, cache.Indexers{}, one).Informer()
	changed := make(chan struct{}, 1)
	kick := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: kick, UpdateFunc: func(_, o any) { kick(o) }, DeleteFunc: kick,
	}); err != nil {
		return fmt.Errorf("watch %s: %w", ExternalMetricsAPIService, err)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); informer.RunWithContext(ctx) }()
	defer func() { <-stopped }()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	for ctx.Err() == nil {
		led := g.options.Leading()
		g.look(ctx, informer.GetStore())
		g.wait(ctx, changed, led)
	}
	return nil
}

// wait returns when it is time to look again: the registration changed, we became the leader (whose certificate is in it), or a
// while has passed.
func (g *APIService) wait(ctx context.Context, changed <-chan struct{}, led bool) {
	deadline := time.After(apiServiceEvery) // I/O edge: paces checks
	ticker := time.NewTicker(leadingEvery)  // I/O edge: paces checks of the lease
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
			if !led && g.options.Leading() {
				return
			}
		}
	}
}

func (g *APIService) look(ctx context.Context, store cache.Store) {
	obj, exists, _ := store.GetByKey(ExternalMetricsAPIService)
	var found *apiregistration.APIService
	if u, ok := obj.(*unstructured.Unstructured); exists && ok {
		found = &apiregistration.APIService{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, found); err != nil {
			g.log.Error("an APIService that cannot be read", "name", ExternalMetricsAPIService, "error", err)
			return
		}
	}
	now := g.judge(found)
	g.tell(now)
	if now.ours && g.options.Registered != nil {
		g.options.Registered(found.Spec.CABundle)
	}
	if now.write && g.options.Leading() {
		err := g.apply(ctx, found)
		switch {
		case err == nil:
			g.failed = ""
		case ctx.Err() == nil && g.failed != err.Error():
			g.failed = err.Error()
			g.log.Warn("cannot register for external metrics; trying again", "error", err)
		}
	}
}

// tell logs what changed, raises or ends the alarm, and remembers.
func (g *APIService) tell(now standingOf) {
	g.owned.Set(gauge(now.ours))
	g.stolen.Set(gauge(now.stolen))
	was := g.was
	g.was, g.had = now, g.had || now.ours
	if now.owner == was.owner && now.available == was.available {
		return
	}
	about := corev1.ObjectReference{APIVersion: apiregistration.SchemeGroupVersion.String(), Kind: "APIService", Name: ExternalMetricsAPIService}
	note := "external metrics are served by " + now.owner + ", not by " + g.options.Service.String()
	switch {
	case now.ours:
		g.log.Info("the API server asks us for external metrics", "service", now.owner, "available", now.available, "detail", now.detail)
		if was.owner != now.owner && g.options.Leading() {
			g.events.send(about, corev1.EventTypeNormal, ReasonAPIServiceTaken, "external metrics are served by "+now.owner)
		}
	case now.stolen:
		g.log.Error("ALARM: "+note+"; HPAs that read our metric hold", "owner", now.owner, "mode", g.options.Mode)
		reason := ReasonAPIServiceOccupied
		if g.had {
			reason = ReasonAPIServiceConflict
		}
		if g.options.Leading() {
			g.events.send(about, corev1.EventTypeWarning, reason, note)
		}
	case now.owner == "nobody":
		g.log.Info("nobody serves external metrics; registering", "service", g.options.Service.String())
	default:
		g.log.Info(note+"; left to it (mode auto)", "owner", now.owner)
	}
}

func gauge(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
