package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cluster"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/findings"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/learned"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/replay/record"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry"
)

// controller connects all packages of `gpuscaler run`.
type controller struct {
	options  runOptions
	log      *slog.Logger
	kube     *rest.Config
	registry *prometheus.Registry   // metrics about the process, its data sources and its writes
	families []*prometheus.Registry // one registry for each collector of metrics about policies, capacity groups and cost
	closed   *prometheus.CounterVec // number of connections that were closed because of the limit of a port

	refusedCalls prometheus.Counter // number of KEDA's calls that the external scaler refused because of its limits

	policies *store.Store
	paths    []store.Path // the paths of policies and of the PlatformConfig
	cluster  *cluster.Cluster
	poller   *telemetry.Poller
	engine   *engine.Engine
	learned  *learned.Store // nil without --learned-configmap
	leader   *leader.Candidate
	loop     *loop
	spending *spending
	metrics  atomic.Pointer[externalmetrics.Server] // the external metrics API; nil until it serves
	stopping <-chan struct{}                        // closed when the process begins to exit
	// failed receives the error with which a leader stopped. The process then exits. Without the exit, the process would hold the Lease but
	// make no decisions.
	failed chan error
	// loggedGroups contains the names of the capacity groups that were disabled at the last change of the policies. Only report uses it.
	loggedGroups []string
}

func newController(o runOptions, log *slog.Logger) (*controller, error) {
	kube, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w; outside a cluster use --kubeconfig", err)
	}
	kube.UserAgent, kube.QPS, kube.Burst = "gpuscaler/"+commandline.Version, 50, 100
	c := &controller{options: o, log: log, kube: kube, registry: prometheus.NewRegistry(), failed: make(chan error, 1)}
	c.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c.closed, c.refusedCalls = newClosedConnections(c.registry), newRefusedCalls(c.registry)
	c.policies = store.New(store.Options{Clock: time.Now, Prepare: func(policies []*policy.Compiled, platform *policy.Platform) {
		c.poller.SetPolicies(policies, platform) // c.poller is set below; this function is first called later, when the policies are loaded
	}})
	kinds, err := o.scaleKinds()
	if err != nil {
		return nil, err
	}
	if c.paths, err = o.policies.With(o.config); err != nil {
		return nil, err
	}
	c.spending = c.newSpending()
	read := cluster.Options{
		Release: o.namespace + "/" + o.lease,
		Kinds:   kinds, ActivateIn: o.activateIn, Policies: c.policies, Annotated: c.policies,
		ConfigMaps: c.policies, ConfigMapsIn: o.configMapsIn, PolicyStatuses: c.policies, PolicyStatusIn: o.policyStatusIn,
		Leading: c.leading, Instance: o.pod, Log: log, Metrics: c.registry,
		ClusterName: c.clusterName,
	}
	read.SourceLimits = c.sourceLimits
	if o.capacity {
		read.Groups, read.Hourly, read.SkipNodePools = c.policies, c.spending.hourly, !o.nodePools
	}
	if c.cluster, err = cluster.New(kube, read); err != nil {
		return nil, err
	}
	c.poller, err = telemetry.New(telemetry.Options{
		Pods: c.cluster, Exporters: c.cluster, Nodes: c.cluster, Triggers: c.cluster, Kubernetes: kube, Leading: c.leading,
		LoopbackPods: o.loopbackPods, Quota: o.quota,
		Registerer: c.registry, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	memory, err := c.memory()
	if err != nil {
		return nil, err
	}
	c.engine = engine.New(c.policies, c.poller, c.cluster, engine.Options{
		Memory:       memory,
		OnTransition: func(r engine.Record) { c.loop.change(r) }, Groups: c.decidedGroups(), Nodes: c.cluster.Nodes(), OnGroup: c.logGroup,
		OnGroupTick: func(g engine.GroupTick) { c.loop.groupDecided(g) },
	})
	c.cluster.Activate(c.engine.Decisions())
	c.loop = newLoop(c.engine, c.cluster.Synced, c.registry, log)
	c.loop.publish, c.loop.transition = c.policies.Publish, c.logTransition
	if o.record != "" {
		if c.loop.recorder, err = record.New(o.record, record.Options{}); err != nil {
			return nil, err
		}
	}
	c.registerFamilies()
	c.leader, err = leader.New(kube, leader.Options{
		Namespace: o.namespace, Lease: o.lease, Pod: o.pod, Log: log,
		Duration: o.leaseDuration, RenewDeadline: o.leaseDuration * 2 / 3, RetryPeriod: o.leaseDuration * 2 / 15,
		OnStartedLeading: c.lead, OnStoppedLeading: c.engine.Reset,
	})
	return c, err
}

// sourceLimits returns the namespaces that exceed a limit at a data source. gpuscaler writes an Event for each of them.
func (c *controller) sourceLimits() (out []findings.SourceLimit) {
	for _, v := range c.poller.LimitViolations() { // c.poller is set, because it is created before the cluster runs
		out = append(out, findings.SourceLimit{Namespace: v.Namespace, Outside: v.Outside, Note: v.String()})
	}
	return out
}

// clusterName returns the cluster's name from the current PlatformConfig.
func (c *controller) clusterName() string { return c.policies.Platform().Cluster }

func (c *controller) leading() bool { return c.leader.Leading() }

// run runs all goroutines of the controller until ctx ends. If one goroutine fails, run ends the others and returns the error.
func (c *controller) run(ctx context.Context) error {
	c.load()
	certificate, err := c.certificate()
	if err != nil {
		return err
	}
	registration, err := c.registration(certificate)
	if err != nil {
		return err
	}
	metricsAPI, err := net.Listen("tcp", c.options.metricsAPIAddress)
	if err != nil {
		return fmt.Errorf("external metrics API: %w", err)
	}
	all, ctx := errgroup.WithContext(ctx)
	c.stopping = ctx.Done()
	// reading ends later than ctx, so that the caches stay current until the Lease is released. The shutdown needs the caches to restore
	// overrides.
	reading, stopReading := context.WithCancel(context.WithoutCancel(ctx))
	all.Go(func() error { return c.cluster.Run(reading) })
	all.Go(func() error { return c.poller.Run(ctx) })
	all.Go(func() error { c.policies.WatchPaths(ctx, time.Second, c.report, c.paths...); return nil })
	all.Go(func() error { return registration.Run(ctx) })
	all.Go(func() error { c.spending.live.Run(ctx); return nil })
	all.Go(func() error { defer stopReading(); return c.campaign(ctx) })
	all.Go(func() error { return c.waitForFailure(ctx) })
	all.Go(func() error { return c.serveMetrics(ctx, metricsAPI, certificate) })
	all.Go(func() error { return c.options.metrics.serve(ctx, c) })
	all.Go(func() error { return c.serveProbes(ctx) })
	all.Go(func() error { return c.servePages(ctx) })
	c.log.Info("started", "version", commandline.Version, "pod", c.options.pod, "policies", len(c.policies.Current()))
	err = all.Wait()
	c.log.Info("stopped")
	return err
}

// lead runs while this process holds the Lease. It starts the loop and KEDA's external scaler. A standby does not listen for KEDA, because
// KEDA opens one connection, keeps it, and must reach the leader.
func (c *controller) lead(ctx context.Context) {
	if err := c.cluster.OtherRelease(ctx); err != nil {
		c.failed <- fmt.Errorf("not leading: %w", err)
		return
	}
	if c.learned != nil {
		c.learned.Load(ctx)
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { c.loop.run(ctx); return nil })
	if c.learned != nil {
		all.Go(func() error { c.learned.Run(ctx, c.engine.Decisions().SavedModels); return nil })
	}
	all.Go(func() error { return c.watchOtherReleases(ctx) })
	if c.options.scalerAddress != "" {
		all.Go(func() error { return c.serveScaler(ctx) })
	}
	err := all.Wait()
	c.saveLearned(ctx)
	c.restoreLimits(ctx, err)
	if err != nil {
		c.failed <- err
	}
}

// ready returns the reason why this replica cannot lead yet, or nil. It checks only the caches and the external metrics API. It does not
// check the Lease, so that a standby is ready during a rollout. It does not check the data sources, so that the replica remains ready if
// one of them fails.
func (c *controller) ready() error {
	if !c.cluster.Synced() {
		return errors.New("the caches are not synced")
	}
	if c.options.externalMetrics == string(apiservice.Off) {
		return nil // in this mode the API server forwards no requests to gpuscaler
	}
	server := c.metrics.Load()
	if server == nil {
		return errors.New("the external metrics API is starting")
	}
	return server.Ready()
}

// campaign competes for the Lease once this replica is ready. A replica that cannot read the cluster leaves the Lease to the other
// replicas.
func (c *controller) campaign(ctx context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for c.ready() != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	c.waitForOtherReleases(ctx)
	return c.leader.Run(ctx)
}

// waitForFailure returns the error of a leader that stopped, or nil when ctx ends.
func (c *controller) waitForFailure(ctx context.Context) error {
	select {
	case err := <-c.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// load reads the policies for the first time. An invalid document does not prevent the other documents from being loaded.
func (c *controller) load() { c.report(c.policies.LoadPaths(c.paths...)) }

func (c *controller) report(r store.Report) {
	for _, p := range slices.Concat(r.Problems, r.Notices, r.Outcomes) {
		level := slog.LevelError
		if p.Warning {
			level = slog.LevelWarn
		}
		fields := []any{"problem", p.String(), "file", p.File, "line", p.Line, "field", p.Field}
		if p.Stack != "" {
			fields = append(fields, "stack", p.Stack)
		}
		c.log.Log(context.Background(), level, "policy", fields...)
	}
	if r.Changed {
		c.log.Info("policies in force", "generation", r.Generation, "policies", len(c.policies.Current()))
		c.reportUnlistedNamespaces(c.policies.Platform())
		c.reportDisabledGroups()
	}
}

// reportUnlistedNamespaces logs the namespaces in which a setting of the PlatformConfig has no effect. The settings that let a team use
// ConfigMaps and policyStatus have an effect only in the namespaces that a flag of gpuscaler lists.
func (c *controller) reportUnlistedNamespaces(p *policy.Platform) {
	for _, namespace := range unlisted(p, c.options.configMapsIn, func(t *policy.Team) bool { return t.ConfigMaps }) {
		c.log.Warn("the PlatformConfig accepts ConfigMaps of a namespace whose ConfigMaps are not read: add it to the chart value "+
			"teamConfigMaps.namespaces (--configmap-namespaces)", "namespace", namespace)
	}
	for _, namespace := range unlisted(p, c.options.policyStatusIn, func(t *policy.Team) bool { return t.PolicyStatus }) {
		c.log.Warn("the PlatformConfig has policyStatus: true for a namespace in which the annotation is not written: add it to the chart "+
			"value policyStatus.namespaces (--policy-status-namespaces)", "namespace", namespace)
	}
}

// unlisted returns the namespaces of each team t with has(t) == true. It omits the namespaces in the parameter listed.
func unlisted(p *policy.Platform, listed []string, has func(*policy.Team) bool) (namespaces []string) {
	for i := range p.Teams {
		for _, namespace := range p.Teams[i].Namespaces {
			if has(&p.Teams[i]) && !slices.Contains(listed, namespace) {
				namespaces = append(namespaces, namespace)
			}
		}
	}
	return namespaces
}

// logTransition logs a change of a target as one JSON line. `gpuscaler explain --from` reads these lines, for example after a restart.
func (c *controller) logTransition(r engine.Record) {
	c.log.Info("transition", "explanation", explain.FromRecord(r, c.policies.Platform().Cluster))
}

// sampleInterval is the time between two points of the web page's timelines.
const sampleInterval = 5 * time.Second

// sample adds points to the web page's timelines until ctx ends.
func sample(ctx context.Context, page *dashboard.Page, clock func() time.Time) {
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		page.Sample(clock())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
