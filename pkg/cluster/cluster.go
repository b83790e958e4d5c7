// Package cluster is Kubernetes: it reads workloads, their pods and whoever scales them into memory, and carries out what was
// decided (Events, activation from zero). Every read is answered from views that informers keep up to date; nothing here decides.
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// fieldManager owns every field that we write on an object that is not ours.
const fieldManager = ownership.Manager

// Options tune a Cluster. The zero value is ready to use.
type Options struct {
	// Kinds lists further kinds with /scale whose objects may be a scaleTargetRef. The service account must be allowed to list and
	// watch them and to get (and, to activate from zero, update) their /scale.
	Kinds []schema.GroupVersionKind
	// Policies are the workloads that are decided for; the linter compares HPAs with them. nil: it judges each HPA alone.
	Policies engine.Policies
	// Annotated takes the policies that HPAs and ScaledObjects carry; nil: annotations other than an operator's are not read.
	Annotated Annotated
	// ActivateIn are the namespaces in which /scale may be written between zero and one replica; empty: nowhere.
	ActivateIn []string
	// Groups are the capacity groups, whose NodePools are read and nudged; nil: no node is looked at.
	Groups engine.Groups
	// Hourly is what an instance costs an hour, 0 where nobody knows; nil: nobody does.
	Hourly func(cost.Offer) float64
	// SourceLimits lists the namespaces that exceed a limit at a data source; an Event names each. nil: there are none.
	SourceLimits func() []SourceLimit
	// Leading reports whether this process may write; standbys read only. nil: it always may.
	Leading func() bool
	// Release names our Lease, NAMESPACE/NAME. It is written beside each record, so that another release does not write the same
	// NodePools. Empty: nothing is written, and other releases are not looked for.
	Release string
	// ClusterName returns the cluster's name, for an annotation of every Event; nil or empty: none.
	ClusterName func() string
	// Instance names this process in Events; the pod's name.
	Instance string
	// DiscoveryPeriod is how often kinds that may be installed later are looked for; 0 means 10 seconds.
	DiscoveryPeriod time.Duration
	Log             *slog.Logger          // nil: slog.Default()
	Metrics         prometheus.Registerer // nil: nothing is registered

	schemas func() (karpenter.Schema, error) // nil: the API server is asked; tests know
}

// Cluster is the live cluster behind the engine's ports. View, Pods and Apply are safe for concurrent use.
type Cluster struct {
	options Options
	log     *slog.Logger
	typed   kubernetes.Interface
	dynamic dynamic.Interface
	world   *world
	late    *lateKinds
	scales  *scales
	metrics *metrics
	synced  atomic.Bool

	events      events.Sender
	recorder    *events.Recorder
	transitions *transitions
	activator   *activator
	releases    *leader.Releases
	nodes       *nodePort // nil where Options.Groups is

	decidersMu  sync.Mutex
	decidersOf  []scaling.Workload
	decidersNow *deciders
}

var (
	_ engine.Cluster = (*Cluster)(nil)
	_ engine.Pods    = (*Cluster)(nil)
)

// New prepares a Cluster; nothing is read before Run.
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
		world: newWorld(), metrics: newMetrics(o.Metrics),
	}
	c.recorder = events.NewRecorder(typed.EventsV1(), events.Options{
		Instance: o.Instance, ClusterName: o.ClusterName, Log: c.log, Metrics: o.Metrics,
	})
	c.events = c.recorder
	c.transitions, c.activator = newTransitions(c), newActivator(c)
	c.releases = leader.NewReleases(typed, o.Release)
	c.scales = newScales(c)
	if o.Groups != nil {
		c.nodes = newNodePort(c)
	}
	c.late = newLateKinds(c)
	return c
}

// Activate lets workloads that opted in be taken between zero and one replica, by the numbers that are served. It is called
// before Run; without it, and without Options.Policies, /scale is never written.
func (c *Cluster) Activate(numbers Numbers) { c.activator.numbers = numbers }

func (c *Cluster) leading() bool { return c.options.Leading == nil || c.options.Leading() }

// Run reads the cluster until ctx ends. It returns nil then, or an error where it could not begin.
func (c *Cluster) Run(ctx context.Context) error {
	c.world.minor = c.serverMinor()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.late.run(ctx) })
	running.Go(func() { c.scales.run(ctx) })
	running.Go(func() { c.recorder.Run(ctx) })
	running.Go(func() { c.transitions.run(ctx) })
	if c.nodes != nil {
		running.Go(func() { c.nodes.run(ctx) })
	}

	// Targets before pods: a pod then finds its target at once, where a target that comes later looks through a namespace of pods.
	for _, inform := range []func(context.Context, *sync.WaitGroup) error{c.informTargets, c.informPods} {
		if err := inform(ctx, &running); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	if !c.late.waitForSync(ctx) {
		return nil
	}
	if c.nodes != nil {
		c.nodes.WaitForSync(ctx, c.late.patience)
	}
	running.Go(func() { (&linter{cluster: c, told: map[complaint]time.Time{}}).run(ctx) })
	if c.activator.numbers != nil && c.options.Policies != nil {
		running.Go(func() { c.activator.run(ctx) })
		running.Go(func() { (&managing{cluster: c, failed: map[ref]failure{}}).run(ctx) })
	}
	c.synced.Store(true)
	c.log.Info("cluster caches synced")
	<-ctx.Done()
	return nil
}

// each calls round once per period until ctx ends; a round that takes longer makes the next one late.
func each(ctx context.Context, period time.Duration, round func(now time.Time)) {
	ticker := time.NewTicker(period) // I/O edge: paces rounds
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			round(now)
		}
	}
}

// Synced reports whether everything that exists was read once. Before that no view is handed out.
func (c *Cluster) Synced() bool { return c.synced.Load() }

// View returns the newest view of a workload's target. It does no I/O and allocates nothing.
func (c *Cluster) View(w *scaling.Workload) (engine.View, bool) {
	if !c.synced.Load() {
		return engine.View{}, false
	}
	return c.world.view(w)
}

// Refusal returns why a workload's scale target has no view although it exists; empty where it has one, or does not exist.
func (c *Cluster) Refusal(w *scaling.Workload) string { return c.world.refusal(w) }

// TargetUID returns the UID of a workload's scale target. It does no I/O and allocates nothing.
func (c *Cluster) TargetUID(w *scaling.Workload) (string, bool) {
	if !c.synced.Load() {
		return "", false
	}
	return c.world.uid(w)
}

// Pods lists the pods of a workload's target that have not finished and do not terminate, by name. The slice is shared: do not
// write to it.
func (c *Cluster) Pods(w *scaling.Workload) []engine.Pod { return c.world.podsOf(w) }

// Apply tells of what a tick decided, by Events, and wakes the activator. It only hands over: it neither blocks nor does I/O.
func (c *Cluster) Apply(ctx context.Context, changes []engine.Change) error {
	c.transitions.note(changes)
	c.activator.kick()
	return ctx.Err()
}

// serverMinor is the API server's minor version, 0 where it does not say.
func (c *Cluster) serverMinor() int {
	v, err := c.typed.Discovery().ServerVersion()
	if err != nil {
		c.log.Warn("the API server did not tell its version; HPAs are judged as on the newest", "error", err)
		return 0
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if err != nil {
		return 0
	}
	return minor
}

var errNotSynced = errors.New("stopped before the caches were synced")
