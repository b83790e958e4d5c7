package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing/fstest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/prometheus"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/buffers"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/deviceclaims"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodepoolwriter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodes"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/metrics"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry"
)

// pollInterval is the interval between two polls of Prometheus.
const pollInterval = 15 * time.Second

// controller is one process of gpuscaler that always leads. Its components are the product's own code.
type controller struct {
	load     *load
	policies *store.Store
	poller   *telemetry.Poller
	cache    *cache.Cache
	nodes    *nodes.Cache
	writer   *nodepoolwriter.Writer
	engine   *engine.Engine
	served   *externalmetrics.Provider
	registry *prom.Registry

	cursor int // index in the API server's log of the change that the watches deliver next
	polled time.Time
	nodeOf map[string]*nodes.Node // the Nodes that the watch delivered
	hpaOf  map[string]*cache.HPA
	writes int // number of requests to write NodePools
}

func newController(l *load) *controller {
	c := &controller{load: l, registry: prom.NewRegistry(), cache: cache.New(36), nodeOf: map[string]*nodes.Node{},
		hpaOf: map[string]*cache.HPA{}}
	log := slog.New(slog.DiscardHandler)
	c.policies = store.New(store.Options{Clock: time.Now, Prepare: func(all []*policy.Compiled, platform *policy.Platform) {
		c.poller.SetPolicies(all, platform)
	}})
	var err error
	c.poller, err = telemetry.New(telemetry.Options{Pods: c.cache, Transport: queries{c}, Registerer: c.registry, Logger: log})
	if err != nil {
		panic(err)
	}
	changed := func() { c.nodes.Changed() }
	claims := deviceclaims.New(changed)
	c.cache.SetClaims(claims.Count)
	c.nodes = nodes.New(nodes.Options{
		Workloads: cluster.NodeWorkloads{Cache: c.cache}, WorkloadsSynced: func() bool { return true }, Groups: c.policies, Claims: claims,
		Log: log, Buffers: buffers.New(buffers.Options{
			Allowed:   func(context.Context, string) (bool, error) { return false, nil },
			Requested: func() bool { return false }, Changed: changed, Log: log,
		}),
	})
	c.nodes.SetSchema(karpenter.Schema{Known: true, Limits: true, Weight: true, ConsolidateAfter: true, ConsolidationPolicy: true,
		Budgets: true})
	written := nodepoolwriter.NewWritesMetric()
	c.writer = nodepoolwriter.New(nodepoolwriter.Options{
		Client: client{controller: c}, Release: "gpuscaler-system/gpuscaler", Leading: func() bool { return true }, Current: c.nodes.NodePool,
		OverriddenByOther: func(context.Context, *karpenter.NodePool) string { return "" },
		Event:             func(corev1.ObjectReference, string, string, string) {}, Writes: written, Log: log,
	})
	c.engine = engine.New(c.policies, c.poller, view{c.cache}, engine.Options{Groups: c.policies, Nodes: nodeWrites{c.nodes, c}})
	c.served = externalmetrics.NewProvider(c.engine.Decisions(), time.Now)
	c.registry.MustRegister(written, metrics.NewGroupCollector(c.engine.Decisions(), func() []string { return nil }))
	c.registry.MustRegister(metrics.NewPolicyCollectors(c.engine.Decisions())...)
	return c
}

// read loads the policy files, whose text is the parameter.
func (c *controller) read(text string) {
	c.policies.LoadFS(fstest.MapFS{"policies.yaml": {Data: []byte(text)}})
}

// second runs one second of the process: the watches, a poll if it is due, and a tick.
func (c *controller) second(now time.Time) {
	c.watch()
	if now.Sub(c.polled) >= pollInterval {
		c.polled = now
		c.poller.PollOnce(context.Background())
	}
	c.policies.Publish()
	if out := c.engine.Tick(context.Background(), now); len(out.Errors) > 0 {
		panic(out.Errors[0])
	}
}

// target returns the target that the external metrics API serves for a policy.
func (c *controller) target(namespace, policy string) (replicas int32, known bool) {
	selector := labels.SelectorFromSet(labels.Set{externalmetrics.PolicyLabel: policy})
	list, err := c.served.GetExternalMetric(context.Background(), namespace, selector,
		provider.ExternalMetricInfo{Metric: externalmetrics.MetricName})
	if err != nil {
		return 0, false
	}
	return int32(list.Items[0].Value.Value()), true
}

// watch passes the changes of objects to the caches, as informers do.
func (c *controller) watch() {
	for ; c.cursor < len(c.load.api.Log); c.cursor++ {
		c.deliver(&c.load.api.Log[c.cursor])
	}
}

// compact shortens the history of the API server: it removes the changes that the watches have already delivered.
func (c *controller) compact() { c.cursor = c.load.api.Compact(c.cursor) }

// trimmed returns the object that an informer's transform returned. It panics if the transform failed.
func trimmed[T any](object any, err error) T {
	if err != nil {
		panic(err)
	}
	return object.(T)
}

func (c *controller) deliver(v *apiserver.Version) {
	switch o := v.Object.(type) {
	case *appsv1.Deployment:
		target := trimmed[*cache.Target](cache.TrimDeployment(o))
		if v.Deleted {
			c.cache.DropTarget(target.Ref)
			return
		}
		c.cache.PutTarget(target)
	case *corev1.Pod:
		if v.Deleted {
			c.cache.DropPod(o.Namespace, o.Name)
			return
		}
		c.cache.PutPod(trimmed[*cache.Pod](cache.TrimPod(o)))
	case *corev1.Node:
		if v.Deleted {
			delete(c.nodeOf, o.Name)
			c.nodes.DeleteNode(o.Name)
			return
		}
		node := trimmed[*nodes.Node](nodes.TrimNode(o))
		c.nodes.PutNode(c.nodeOf[o.Name], node)
		c.nodeOf[o.Name] = node
	case *unstructured.Unstructured:
		c.deliverNodeObject(v, o)
	default:
		c.deliverHPA(v)
	}
}

func (c *controller) deliverHPA(v *apiserver.Version) {
	h := trimmed[*cache.HPA](cache.TrimHPA(v.Object))
	if v.Deleted {
		delete(c.hpaOf, v.Name)
		c.cache.DropHPA(h)
		return
	}
	c.cache.PutHPA(c.hpaOf[v.Name], h)
	c.hpaOf[v.Name] = h
}

func (c *controller) deliverNodeObject(v *apiserver.Version, u *unstructured.Unstructured) {
	switch {
	case v.Kind == apiserver.KindNodePool:
		c.nodes.PutNodePool(u)
	case v.Deleted:
		c.nodes.DeleteNodeClaim(karpenter.DecodeNodeClaim(u))
	default:
		c.nodes.PutNodeClaim(karpenter.DecodeNodeClaim(u))
	}
}

// queries is the HTTP transport of the poller. Prometheus has one series for each workload.
type queries struct{ controller *controller }

// RoundTrip implements http.RoundTripper.
func (q queries) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.ParseForm(); err != nil {
		return nil, err
	}
	l := q.controller.load
	answer := &prometheus.Server{Now: l.Now(), Usable: func(prometheus.Series, time.Time) {}}
	for _, w := range l.workloads {
		answer.Series = append(answer.Series, prometheus.Series{Namespace: w.namespace, Workload: w.name, Value: w.queue})
	}
	return answer.Answer(request)
}

// view implements engine.Cluster with the product's cache.
type view struct{ cache *cache.Cache }

func (v view) View(w *scaling.Workload) (engine.View, bool)       { return v.cache.View(w) }
func (v view) Refusal(w *scaling.Workload) string                 { return v.cache.Refusal(w) }
func (v view) TargetUID(w *scaling.Workload) (string, bool)       { return v.cache.UID(w) }
func (v view) Apply(ctx context.Context, _ []engine.Change) error { return ctx.Err() }

// nodeWrites implements engine.Nodes with the product's cache and writer.
type nodeWrites struct {
	*nodes.Cache
	controller *controller
}

// Act implements engine.Nodes. The API server answers at once.
func (n nodeWrites) Act(g *capacity.Group, actions []capacity.Action) <-chan struct{} {
	for _, action := range actions {
		patch, is := action.(capacity.NodePoolPatch)
		if !is {
			panic(fmt.Sprintf("an action that the groups of the soak do not need: %s", action.Text()))
		}
		if base := n.PatchBase(g, patch.Pool); base != nil {
			n.controller.writer.Write(patch, base)
		}
	}
	done := make(chan struct{})
	close(done)
	return done
}
