package nodes

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

const (
	schemaInterval = 10 * time.Minute // interval between reads of the NodePool schema, in case an upgrade of Karpenter has added fields
	priceInterval  = time.Minute      // interval between updates of prices, even if no object has changed
)

// Watch sets the informers of NodePools and NodeClaims, whose state the Cache reads. It is called once, before Run.
func (n *Cache) Watch(pools, claims informer.CRD) { n.pool, n.claim = pools, claims }

// served reports whether the API server serves NodePools.
func (n *Cache) served() bool { return n.pool != nil && n.pool.Synced() != nil }

// Run watches Nodes and the Events about NodeClaims, reads the schema of NodePools and removes old outcomes, until ctx ends. The caller
// closes looked when the API server has reported which kinds it serves.
func (n *Cache) Run(ctx context.Context, client kubernetes.Interface, looked <-chan struct{}, period time.Duration) {
	var running sync.WaitGroup
	defer running.Wait()
	select {
	case <-looked:
	case <-ctx.Done():
		return
	}
	ticker := time.NewTicker(period) // may use the clock: paces discovery
	defer ticker.Stop()
	var schemaRead time.Time
	var watching struct{ nodes, events bool }
	for {
		served := n.served()
		if !watching.nodes && (served || n.selectsNodes()) {
			watching.nodes = true
			n.startNodes(ctx, client, &running)
		}
		if !watching.events && served {
			watching.events = true
			n.startEvents(ctx, client, &running)
		}
		switch now := time.Now(); { // may use the clock: paces the reading of the schema
		case !served:
			n.logAbsent()
			schemaRead = time.Time{}
		case schemaRead.IsZero() || now.Sub(schemaRead) > schemaInterval:
			if n.readSchema() {
				schemaRead = now
			}
		}
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			n.expire(now)
			n.options.Buffers.RefreshRights(ctx)
		}
	}
}

func (n *Cache) readSchema() bool {
	s, err := n.options.ReadSchema()
	if err != nil {
		n.options.Log.Warn("the schema of NodePools cannot be read; no NodePool is written until it can", "error", err)
		return false
	}
	n.SetSchema(s)
	return true
}

// logAbsent logs once that the API server serves no NodePools although capacity groups name NodePools.
func (n *Cache) logAbsent() {
	needsNodePools := func(g *capacity.Group) bool { return !g.SelectsNodes() }
	if n.absentLogged || !slices.ContainsFunc(n.options.Groups.Groups(), needsNodePools) {
		return
	}
	n.absentLogged = true
	if n.options.SkipNodePools {
		n.options.Log.Warn("NodePools are not read (--nodepools=false); capacity groups with nodePools do nothing; replicas are computed as " +
			"usual: set the chart's mode to karpenter or all")
		return
	}
	if n.options.BetaServed != nil && n.options.BetaServed() {
		n.options.Log.Warn("NodePools are served as "+karpenter.UnsupportedVersion+" only, which is not supported; capacity groups do nothing; "+
			"replicas are computed as usual", "fix", karpenter.HowToConvert)
		return
	}
	n.options.Log.Warn("the API server serves no NodePools; capacity groups do nothing until Karpenter is installed; " +
		"replicas are computed as usual")
}

// expire removes outdated outcomes and data from Events, and checks whether an autoscaler responds to gpuscaler's CapacityBuffers. Once a
// minute it makes the next Observe update the prices.
func (n *Cache) expire(now time.Time) {
	n.options.Buffers.CheckResponses(now)
	n.mu.Lock()
	defer n.mu.Unlock()
	before := len(n.outcomes) + len(n.buffered)
	n.outcomes.removeOld(now)
	maps.DeleteFunc(n.buffered, func(_ string, at time.Time) bool { return now.Sub(at) > karpenter.UnconsolidatableInterval })
	maps.DeleteFunc(n.deleted, func(_ string, d outcome) bool { return now.Sub(d.at) > outcomeRetention })
	maps.DeleteFunc(n.interrupted, func(_ string, at time.Time) bool { return now.Sub(at) > outcomeRetention })
	if len(n.outcomes)+len(n.buffered) != before || n.options.Hourly != nil && now.Sub(n.priced) > priceInterval {
		n.version++
		n.priced = now
	}
}

// startNodes starts to watch Nodes and returns immediately. Until the Nodes are read, demand is unknown.
func (n *Cache) startNodes(ctx context.Context, client kubernetes.Interface, running *sync.WaitGroup) {
	w := watched{coreinformers.NewNodeInformer(client, 0, cache.Indexers{}), TrimNode,
		informer.Handler(n.PutNode, func(node *Node) { n.DeleteNode(node.Name) })}
	if synced := n.start(ctx, running, w); synced != nil {
		n.change(func() { n.nodesSynced, n.synced = synced, append(n.synced, synced) })
	}
}

// startEvents starts to watch the Events about NodeClaims and returns immediately.
func (n *Cache) startEvents(ctx context.Context, client kubernetes.Interface, running *sync.WaitGroup) {
	aboutClaims := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("involvedObject.kind", karpenter.NodeClaimKind.Kind).String()
	}
	w := watched{coreinformers.NewFilteredEventInformer(client, metav1.NamespaceDefault, 0, cache.Indexers{}, aboutClaims),
		karpenter.TrimClaimEvent, informer.Handler(func(_, e *karpenter.ClaimEvent) { n.PutEvent(e) }, func(*karpenter.ClaimEvent) {})}
	synced := n.start(ctx, running, w)
	n.change(func() {
		if n.claimsSeen = true; synced != nil {
			n.synced = append(n.synced, synced)
		}
	})
}

// start starts an informer. It returns a function that reports whether the handler has received the first list. It returns nil if the
// informer could not be started.
func (n *Cache) start(ctx context.Context, running *sync.WaitGroup, w watched) cache.InformerSynced {
	synced, err := w.start(ctx, running)
	if err != nil {
		n.options.Log.Error("cannot watch Nodes or Events about NodeClaims; capacity groups do not receive their changes", "error", err)
	}
	return synced
}

// watched is an informer, the transform that trims its objects, and the handler that receives the trimmed objects.
type watched struct {
	informer cache.SharedIndexInformer
	trim     cache.TransformFunc
	handler  cache.ResourceEventHandler
}

func (w watched) start(ctx context.Context, running *sync.WaitGroup) (cache.InformerSynced, error) {
	if err := w.informer.SetTransform(w.trim); err != nil {
		return nil, err
	}
	registration, err := w.informer.AddEventHandler(w.handler)
	if err != nil {
		return nil, err
	}
	running.Go(func() { w.informer.RunWithContext(ctx) })
	return registration.HasSynced, nil
}

// WaitForSync waits until Karpenter's objects and the schema of NodePools are read, or until the timeout. If the API server does not serve
// NodePools, WaitForSync does not wait for these. If a capacity group selects its nodes by labels, it also waits for the Nodes. Without
// this wait, demand would be unknown in the first ticks of a new leader, which would then remove every zero limit and end every override.
func (n *Cache) WaitForSync(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond) // may use the clock: polls the informers at start-up
	defer ticker.Stop()
	for !n.ready() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			n.options.Log.Warn("Karpenter's objects or the Nodes could not all be read; NodePools stay as they are until they can")
			return
		}
	}
}

func (n *Cache) ready() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return (!n.served() || n.complete() && n.schema.Known) && (!n.selectsNodes() || n.nodesRead())
}

// complete reports whether all objects that determine the demand for GPUs have been read. The caller holds the lock.
func (n *Cache) complete() bool {
	if !n.served() {
		return n.allSynced()
	}
	return n.claimsSeen && n.allSynced()
}

func (n *Cache) allSynced() bool {
	for _, kind := range []informer.CRD{n.pool, n.claim} {
		if kind == nil {
			continue
		}
		if synced := kind.Synced(); synced != nil && !synced() {
			return false
		}
	}
	for _, synced := range n.synced {
		if !synced() {
			return false
		}
	}
	return true
}
