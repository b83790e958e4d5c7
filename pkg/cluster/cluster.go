package cluster

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/activation"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/configmaps"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/findings"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodepoolwriter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/policystatus"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/rejections"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/rounds"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/scale"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/transitions"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Annotated receives the policies in the annotations of HPAs and ScaledObjects. The policy store implements it.
type Annotated interface {
	SetObject(store.Object) []policy.Problem
	DeleteObject(kind, namespace, name string)
	ObjectProblems(kind, namespace, name string) []policy.Problem
}

// Options configure a Cluster. The zero value is valid.
type Options struct {
	// Kinds are additional kinds with a scale subresource that a policy, an HPA or a ScaledObject can have as its scale target. The service
	// account needs the verbs list and watch on each kind, and get on its /scale. Activation from zero also needs update on /scale.
	Kinds []cache.ScaleKind
	// Policies are the workloads for which targets are computed. The checks of HPAs and ScaledObjects compare them with these policies.
	// nil: the checks use only the HPA or ScaledObject itself.
	Policies engine.Policies
	// Annotated receives the policies in annotations of HPAs and ScaledObjects. nil: only the annotations for pauses and manual overrides are
	// read.
	Annotated Annotated
	// ConfigMaps receives the ConfigMaps with policies in the namespaces ConfigMapsIn. nil: no ConfigMap is read.
	ConfigMaps   configmaps.Policies
	ConfigMapsIn []string
	// PolicyStatuses returns the statuses that are written into the annotation gpuscaler.io/policy-status of objects in the namespaces
	// PolicyStatusIn. nil: the annotation is not written.
	PolicyStatuses policystatus.Policies
	PolicyStatusIn []string
	// ActivateIn are the namespaces in which gpuscaler may write /scale between zero and one replica. Empty: none.
	ActivateIn []string
	// Groups are the capacity groups, whose NodePools are read and overridden. nil: no node is read.
	Groups engine.Groups
	// SkipNodePools excludes Karpenter: its objects are neither read nor written, even if the API server serves them. Capacity groups with a
	// nodeSelector are not affected.
	SkipNodePools bool
	// Hourly returns the price of an instance per hour, 0 if it is unknown. nil: no price is known.
	Hourly func(cost.Offer) float64
	// SourceLimits returns the namespaces that exceed a limit of a data source, such as its number of queries. An Event is sent for each
	// namespace. nil: no such Event is sent.
	SourceLimits func() []findings.SourceLimit
	// Leading reports whether this process is the leader and may write. A standby only reads. nil: this process may always write.
	Leading func() bool
	// Release is the Lease of this Helm release, NAMESPACE/NAME. gpuscaler writes the Lease name to each overridden NodePool, beside the
	// annotation with the original values, so that another release of gpuscaler does not override the same NodePool. Empty: the name is not
	// written, and overrides by other releases are not detected.
	Release string
	// ClusterName returns the cluster's name, for an annotation of every Event. nil or an empty name: no annotation.
	ClusterName func() string
	// Instance is the name of this process in Events: the name of its pod.
	Instance string
	// DiscoveryPeriod is the interval at which gpuscaler checks which kinds the API server serves; 0 means 10 seconds.
	DiscoveryPeriod time.Duration
	Log             *slog.Logger          // nil: slog.Default()
	Metrics         prometheus.Registerer // nil: no metric is registered

	schemas func() (karpenter.Schema, error) // a test replaces the read of the NodePool schema; nil: the schema is read from the API server
}

// Cluster implements the engine's interfaces for a Kubernetes cluster. It is safe for concurrent use.
type Cluster struct {
	options  Options
	log      *slog.Logger
	typed    kubernetes.Interface
	dynamic  dynamic.Interface
	cache    *cache.Cache
	policies *cache.Policies
	crds     *informer.CRDs
	scales   *scale.Reader
	writes   *prometheus.CounterVec // number of writes for capacity groups, by object and result
	synced   atomic.Bool

	events      events.Sender
	recorder    *events.Recorder
	transitions *transitions.Reporter
	activator   *activation.Activator
	reporter    *findings.Reporter
	served      activation.Served
	releases    *leader.Releases
	nodes       *nodeAdapter         // nil if Options.Groups is nil
	configMaps  *configmaps.Reader   // nil if no ConfigMap is read
	statuses    *policystatus.Writer // nil if the annotation is not written
}

var (
	_ engine.Cluster  = (*Cluster)(nil)
	_ engine.Pods     = (*Cluster)(nil)
	_ engine.Requests = (*Cluster)(nil)
)

// New returns a Cluster. It reads nothing before Run.
func New(cfg *rest.Config, o Options) (*Cluster, error) {
	clients, objects, err := newClients(cfg)
	if err != nil {
		return nil, err
	}
	return newCluster(clients, objects, o), nil
}

func newCluster(typed kubernetes.Interface, objects dynamic.Interface, o Options) *Cluster {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.DiscoveryPeriod <= 0 {
		o.DiscoveryPeriod = 10 * time.Second
	}
	c := &Cluster{
		options: o, log: o.Log, typed: typed, dynamic: objects,
		cache: cache.New(0), policies: cache.NewPolicies(o.Policies), writes: nodepoolwriter.NewWritesMetric(),
	}
	if o.Metrics != nil {
		o.Metrics.MustRegister(c.writes)
	}
	c.recorder = events.NewRecorder(typed.EventsV1(), events.Options{
		Instance: o.Instance, ClusterName: o.ClusterName, Log: c.log, Metrics: o.Metrics,
	})
	c.events = c.recorder
	c.transitions = transitions.New(c.events, func(w *scaling.Workload) (corev1.ObjectReference, bool) {
		return c.cache.Reference(cache.RefOfWorkload(w))
	})
	c.activator = activation.New(c.activationOptions(o.Metrics))
	c.releases = leader.NewReleases(typed, o.Release)
	c.crds = informer.NewCRDs(informer.CRDOptions{
		Discovery: typed.Discovery(), Dynamic: objects, Period: o.DiscoveryPeriod, Log: c.log, Metrics: o.Metrics,
	})
	c.scales = scale.NewReader(c.cache, objects, c.resource, c.log)
	if o.Groups != nil {
		c.nodes = newNodeAdapter(c)
	}
	c.readPolicies()
	c.addKinds()
	return c
}

// readPolicies creates the reader of ConfigMaps with policies and the writer of the annotation gpuscaler.io/policy-status.
func (c *Cluster) readPolicies() {
	o := &c.options
	if o.PolicyStatuses != nil && len(o.PolicyStatusIn) > 0 {
		c.statuses = policystatus.New(policystatus.Options{
			Namespaces: o.PolicyStatusIn, Policies: o.PolicyStatuses, Events: c.events, Leading: c.leading, Log: c.log, Metrics: o.Metrics,
			Apply: func(ctx context.Context, about corev1.ObjectReference, text string) error {
				return policystatus.Apply(ctx, c.dynamic, about, text)
			},
		})
	}
	if o.ConfigMaps != nil && len(o.ConfigMapsIn) > 0 {
		c.configMaps = configmaps.New(configmaps.Options{
			Client: c.typed, Namespaces: o.ConfigMapsIn, Policies: o.ConfigMaps, Events: c.events, Leading: c.leading, Status: c.statuses,
			Log: c.log,
		})
	}
}

func (c *Cluster) activationOptions(metrics prometheus.Registerer) activation.Options {
	return activation.Options{
		Cache: c.cache, Policies: c.policies, Namespaces: c.options.ActivateIn, Resource: c.resource, Dynamic: c.dynamic, Events: c.events,
		Leading: func() bool { return c.leading() && c.Synced() }, Log: c.log, Metrics: metrics,
	}
}

// Activate sets the source of the targets by which the Activator scales workloads with activate: true between zero and one replica. It must
// be called before Run. Without Activate or without Options.Policies, /scale is never written.
func (c *Cluster) Activate(served activation.Served) {
	c.served = served
	c.activator.Serve(served)
	c.reporter = c.newReporter() // create the reporter here or in Run, but only once, because newReporter registers a metric
}

func (c *Cluster) leading() bool { return c.options.Leading == nil || c.options.Leading() }

// Run reads objects from the API server until ctx ends, and then returns nil. It returns an error if an informer could not start.
func (c *Cluster) Run(ctx context.Context) error {
	c.cache.SetServerMinor(c.serverMinor())
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.crds.Run(ctx) })
	running.Go(func() { c.scales.Run(ctx) })
	running.Go(func() { c.recorder.Run(ctx) })
	running.Go(func() { c.transitions.Run(ctx, c.leading) })
	if c.configMaps != nil {
		running.Go(func() { c.configMaps.Run(ctx) })
	}
	if c.nodes != nil {
		running.Go(func() { c.nodes.Run(ctx, c.typed, c.crds.Checked(), c.options.DiscoveryPeriod) })
	}

	// Scale targets are read before pods. Otherwise each new target would search all pods of its namespace.
	for _, start := range []func(context.Context, *sync.WaitGroup) error{c.informTargets, c.informPods} {
		if err := start(ctx, &running); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	if !c.crds.WaitForSync(ctx) {
		return nil
	}
	if c.nodes != nil {
		c.nodes.WaitForSync(ctx, c.crds.SyncTimeout())
	}
	if c.configMaps != nil {
		c.configMaps.WaitForSync(ctx, c.crds.SyncTimeout())
	}
	if c.reporter == nil {
		c.reporter = c.newReporter()
	}
	running.Go(func() { c.reporter.Run(ctx) })
	if c.statuses != nil {
		running.Go(func() { c.statuses.Run(ctx) })
	}
	running.Go(func() { rejections.New(c.typed.CoreV1(), c.cache, c.policies, c.log).Run(ctx) })
	if c.activator.Enabled() {
		running.Go(func() { c.activator.Run(ctx) })
		running.Go(func() { c.manageKEDA(ctx) })
	}
	c.synced.Store(true)
	c.log.Info("the caches of the cluster are synced")
	<-ctx.Done()
	return nil
}

// manageKEDA sets KEDA's annotations force-activation and paused-scale-in on ScaledObjects that allow it, until ctx ends.
func (c *Cluster) manageKEDA(ctx context.Context) {
	o := c.activationOptions(nil)
	manager := activation.NewKEDAManager(o, c.served)
	rounds.Every(ctx, time.Second, func(now time.Time) {
		if o.Leading() {
			manager.Round(ctx, now)
		}
	})
}

// newReporter returns the reporter of configuration errors of objects.
func (c *Cluster) newReporter() *findings.Reporter {
	o := findings.Options{
		Cache: c.cache, Policies: c.policies, RefusedActivations: c.activator.Refused, SourceLimits: c.options.SourceLimits,
		SharesGPUs: c.SharesGPUs, Events: c.events, Leading: c.leading, Dynamic: c.dynamic, Discovery: c.typed.Discovery(),
		Log: c.log, Metrics: c.options.Metrics,
	}
	if c.options.Annotated != nil {
		o.PolicyProblems = c.options.Annotated
	}
	if c.configMaps != nil {
		o.ConfigMapProblems = c.configMaps.Problems
	}
	return findings.New(o)
}

// serverMinor returns the API server's minor version, 0 if it is unknown.
func (c *Cluster) serverMinor() int {
	v, err := c.typed.Discovery().ServerVersion()
	if err != nil {
		c.log.Warn("the API server did not report its version; HPAs are checked as with the newest version", "error", err)
		return 0
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if err != nil {
		return 0
	}
	return minor
}

// resource returns the resource of a kind. ok is false if the API server does not serve it.
func (c *Cluster) resource(kind schema.GroupKind) (r schema.GroupVersionResource, ok bool) {
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, true
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, true
	}
	return c.crds.Resource(kind)
}

var errNotSynced = errors.New("stopped before the caches were synced")
