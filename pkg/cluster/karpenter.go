package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/buffers"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/deviceclaims"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodepoolwriter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodes"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/restore"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// ReasonYielded is the reason of the Event that is sent when another client edits a field that gpuscaler overrides. gpuscaler then does
// not override the field for some time.
const ReasonYielded = "OverrideYielded"

// nodeAdapter implements engine.Nodes: it connects the cache of nodes and NodePools with the writers of NodePools, pod annotations and
// CapacityBuffers.
type nodeAdapter struct {
	*nodes.Cache
	client  kubernetes.Interface
	groups  engine.Groups
	leading func() bool
	events  events.Sender
	log     *slog.Logger

	claims       *deviceclaims.Cache
	buffers      *buffers.Cache
	bufferWriter *buffers.Writer
	writer       *nodepoolwriter.Writer

	pool    *informer.Kind // informer of NodePools
	claim   *informer.Kind // informer of NodeClaims
	overlay *informer.Kind // informer of NodeOverlays
	buffer  *informer.Kind
	devices []*informer.Kind // informers of the kinds of dynamic resource allocation

	// yielded contains the overridden fields that another client edited. The key is "<NodePool> <field>". The value is the time until which
	// gpuscaler does not override the field, as in the last Event about the field. Only the tick uses the map.
	yielded map[string]time.Time
}

var _ engine.Nodes = (*nodeAdapter)(nil)

func newNodeAdapter(c *Cluster) *nodeAdapter {
	n := &nodeAdapter{
		client: c.typed, groups: c.options.Groups, leading: c.leading, events: c.events, log: c.log, yielded: map[string]time.Time{},
	}
	changed := func() { n.Changed() }
	n.claims = deviceclaims.New(changed)
	c.cache.SetClaims(n.claims.Count)
	n.buffers = buffers.New(buffers.Options{
		Allowed: n.allowed, Requested: n.requestsBuffers, Changed: changed, Log: c.log,
	})
	n.Cache = nodes.New(nodes.Options{
		Workloads: NodeWorkloads{c.cache}, WorkloadsSynced: c.synced.Load, Groups: c.options.Groups, Hourly: c.options.Hourly,
		ReadSchema: c.readSchema, BetaServed: n.betaServed, SkipNodePools: c.options.SkipNodePools, Buffers: n.buffers, Claims: n.claims,
		Log: c.log,
	})
	c.cache.SetNodeStarts(n.nodeStart)
	n.bufferWriter = &buffers.Writer{Client: c.dynamic, Leading: c.leading, Writes: c.writes, Log: c.log}
	n.writer = nodepoolwriter.New(nodepoolwriter.Options{
		Client: c.dynamic, Release: c.options.Release, Leading: c.leading, Current: n.NodePool,
		OverriddenByOther: func(ctx context.Context, p *karpenter.NodePool) string { return OverriddenByOther(ctx, c.releases, p) },
		Event:             c.events.Send, Writes: c.writes, Log: c.log,
	})
	n.newKinds(func(context.Context) bool { return !c.options.SkipNodePools })
	n.Watch(n.pool, n.claim)
	n.buffers.Watch(n.buffer)
	return n
}

// nodeStart converts the times at which a node started to the type of package cache.
func (n *nodeAdapter) nodeStart(node string) cache.NodeStart {
	s := n.StartOf(node)
	return cache.NodeStart{Launched: cache.Stamp(s.Launched), Registered: cache.Stamp(s.Registered), Allocatable: cache.Stamp(s.Initialized)}
}

// newKinds creates the informers of kinds whose CRD can be absent. Karpenter's kinds are watched only if karpenters returns true. The kinds
// of dynamic resource allocation are watched only while NodePools are watched: without NodePools gpuscaler sets no limits, so it does not
// need these kinds and has no permission to read them.
func (n *nodeAdapter) newKinds(karpenters func(context.Context) bool) {
	n.pool = &informer.Kind{GVK: karpenter.NodePoolKind, Trim: untrimmed, Allowed: karpenters, Handler: informer.Handler(
		func(_, u *unstructured.Unstructured) { n.PutNodePool(u) },
		func(u *unstructured.Unstructured) { n.DeleteNodePool(u.GetName()) },
	)}
	n.claim = &informer.Kind{GVK: karpenter.NodeClaimKind, Trim: karpenter.TrimNodeClaim, Allowed: karpenters, Handler: informer.Handler(
		func(_, c *karpenter.NodeClaim) { n.PutNodeClaim(c) }, n.DeleteNodeClaim,
	)}
	n.overlay = &informer.Kind{GVK: karpenter.NodeOverlayKind, Trim: karpenter.TrimNodeOverlay, Allowed: karpenters, Handler: informer.Handler(
		func(_, o *karpenter.NodeOverlay) { n.PutNodeOverlay(o) }, n.DeleteNodeOverlay,
	)}
	n.buffer = &informer.Kind{GVK: buffers.Kind, Trim: buffers.Trim, Allowed: n.buffers.MayWatch, Handler: informer.Handler(
		func(_, b *buffers.Buffer) { n.buffers.Put(b) }, n.buffers.Delete,
	)}
	claims := informer.Handler(func(_, c *deviceclaims.Claim) { n.claims.PutClaim(c) }, n.claims.DeleteClaim)
	classes := informer.Handler(func(_, c *deviceclaims.Class) { n.claims.PutClass(c) }, n.claims.DeleteClass)
	allowed := func(context.Context) bool { return n.pool.Synced() != nil }
	n.devices = []*informer.Kind{
		{GVK: deviceclaims.ClaimKind, Trim: deviceclaims.TrimClaim, Handler: claims, Allowed: allowed},
		{GVK: deviceclaims.TemplateKind, Trim: deviceclaims.TrimClaim, Handler: claims, Allowed: allowed},
		{GVK: deviceclaims.ClassKind, Trim: deviceclaims.TrimClass, Handler: classes, Allowed: allowed},
	}
}

// untrimmed is the transform of the NodePool informer. It keeps the whole object, because gpuscaler must be able to restore original values
// exactly. A cluster has few NodePools.
func untrimmed(obj any) (any, error) { return obj, nil }

// readSchema reads the schema of NodePools from the API server.
func (c *Cluster) readSchema() (karpenter.Schema, error) {
	if c.options.schemas != nil {
		return c.options.schemas()
	}
	return karpenter.ReadSchema(c.typed.Discovery())
}

// betaServed reports whether the API server serves NodePools of the unsupported version v1beta1.
func (n *nodeAdapter) betaServed() bool {
	list, err := n.client.Discovery().ServerResourcesForGroupVersion(karpenter.UnsupportedVersion)
	return err == nil && informer.PluralOf(list, karpenter.NodePoolKind.Kind) != ""
}

func (n *nodeAdapter) requestsBuffers() bool {
	for _, g := range n.groups.Groups() {
		if g.Buffer {
			return true
		}
	}
	return false
}

func (n *nodeAdapter) allowed(ctx context.Context, verb string) (bool, error) {
	allowed, err := buffers.AskAllowed(ctx, n.client, verb)
	if err != nil {
		n.log.Debug("the API server did not answer whether CapacityBuffers may be written", "verb", verb, "error", err)
	}
	return allowed, err
}

// Act starts the writes for the actions of a group. The returned channel is closed when all writes have ended. The patch of a NodePool is
// based on the version that the last Observe of the group returned. A standby writes nothing.
func (n *nodeAdapter) Act(g *capacity.Group, actions []capacity.Action) <-chan struct{} {
	done := make(chan struct{})
	if !n.leading() {
		close(done)
		return done
	}
	var running sync.WaitGroup
	for _, action := range actions {
		switch a := action.(type) {
		case capacity.NodePoolPatch:
			if base := n.PatchBase(g, a.Pool); base != nil {
				running.Go(func() { n.writer.Write(a, base) })
			}
		case capacity.PodAnnotation:
			running.Go(func() { n.writer.WriteAnnotation(a) })
		case capacity.Buffer:
			task := n.BufferTask(g, a)
			running.Go(func() { n.bufferWriter.Write(task) })
		}
	}
	go func() {
		running.Wait()
		close(done)
	}()
	return done
}

// Nodes returns the engine.Nodes of this cluster. It returns nil if Options.Groups is nil.
func (c *Cluster) Nodes() engine.Nodes {
	if c.nodes == nil {
		return nil
	}
	return c.nodes
}

// Offers returns the instance type, the capacity type and the location of each GPU node, by node name. It is empty without capacity groups.
func (c *Cluster) Offers() map[string]cost.Offer {
	if c.nodes == nil {
		return map[string]cost.Offer{}
	}
	return c.nodes.Offers()
}

// ReportYields sends an Event for each overridden field that another client has edited, so that the owner of the NodePool learns about the
// conflict. It reports each edit once. Only the tick calls ReportYields, which does not wait for the API server.
func (c *Cluster) ReportYields(r *engine.GroupRecord) {
	if c.nodes != nil {
		c.nodes.reportYields(r)
	}
}

func (n *nodeAdapter) reportYields(r *engine.GroupRecord) {
	if !n.leading() {
		return
	}
	for _, reason := range r.Reasons {
		if reason.Rule != explain.RuleForeignEdit || reason.Pool < 0 || int(reason.Pool) >= len(r.Group.Pools) {
			continue
		}
		pool := r.Group.Pools[reason.Pool].Name
		key := pool + " " + reason.Name
		if n.yielded[key].Equal(reason.Until) {
			continue
		}
		n.yielded[key] = reason.Until
		if p := n.NodePool(pool); p != nil {
			n.events.Send(p.Reference(), corev1.EventTypeWarning, ReasonYielded, reason.Text(r.Group.Names()))
		}
	}
}

// Restore calls restore.Run with clients for the API server that cfg describes.
func Restore(ctx context.Context, cfg *rest.Config, o restore.Options) ([]restore.Result, error) {
	client, objects, err := newClients(cfg)
	if err != nil {
		return nil, err
	}
	return restore.Run(ctx, client, objects, o)
}

// newClients returns the typed and the dynamic client.
func newClients(cfg *rest.Config) (kubernetes.Interface, dynamic.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 { // client-go's default of 5 requests per second would delay many simultaneous activations by minutes
		cfg.QPS, cfg.Burst = 50, 100
	}
	typed := rest.CopyConfig(cfg)
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return nil, nil, fmt.Errorf("kubernetes client: %w", err)
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("dynamic client: %w", err)
	}
	return client, objects, nil
}
