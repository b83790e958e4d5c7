package cluster

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// nodes is Karpenter in memory, and the hands that nudge its NodePools. Karpenter may be absent, come later, or go.
type nodes struct {
	cluster *Cluster
	hands   *hands
	schemas func() (nodeSchema, error)
	pool    *lateKind // NodePools and NodeClaims
	claim   *lateKind

	mu      sync.RWMutex
	version uint64 // counts the changes of what follows
	pools   map[string]*poolFacts
	claims  map[string]*claimFacts // by name
	nodes   map[string]*nodeFacts
	noticed map[string]time.Time // UIDs of NodeClaims that the provider takes, and since when
	fates   ledger
	schema  nodeSchema
	synced  []cache.InformerSynced // of nodes and Events
	absent  bool                   // it was said that there is no Karpenter

	// The engine's alone.
	views  map[*capacity.Group]*groupView
	strays strayView
	// yielded is until when each field that somebody else edited is left alone, as it was told last.
	yielded map[string]time.Time
}

// nodeFacts is what is kept of a Node.
type nodeFacts struct {
	metav1.ObjectMeta
	ready, notice, undisrupted bool
	extended                   map[string]int64 // allocatable
}

var _ engine.Nodes = (*nodes)(nil)

func newNodes(c *Cluster) *nodes {
	n := &nodes{
		cluster: c, pools: map[string]*poolFacts{}, claims: map[string]*claimFacts{}, nodes: map[string]*nodeFacts{},
		noticed: map[string]time.Time{}, yielded: map[string]time.Time{}, fates: ledger{}, views: map[*capacity.Group]*groupView{},
		schemas: func() (nodeSchema, error) { return readNodeSchema(c.typed.Discovery()) },
	}
	n.hands = newHands(c, n)
	n.pool = &lateKind{kind: nodePoolKind, trim: untrimmed, on: on(
		func(_, u *unstructured.Unstructured) { n.putPool(u) },
		func(u *unstructured.Unstructured) { n.change(func() { delete(n.pools, u.GetName()) }) },
	)}
	n.claim = &lateKind{kind: nodeClaimKind, trim: untrimmed, on: on(
		func(_, u *unstructured.Unstructured) { n.putClaim(claimOf(u)) },
		func(u *unstructured.Unstructured) { n.dropClaim(claimOf(u)) },
	)}
	return n
}

// Nodes is the engine's port to NodePools; nil where Options.Groups is.
func (c *Cluster) Nodes() engine.Nodes {
	if c.nodes == nil {
		return nil
	}
	return c.nodes
}

// untrimmed keeps all of an object: there are few NodePools, and what we put back must be what was there.
func untrimmed(obj any) (any, error) { return obj, nil }

func (n *nodes) change(what func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	what()
	n.version++
}

func (n *nodes) putPool(u *unstructured.Unstructured) {
	f := poolOf(u)
	n.change(func() { n.pools[u.GetName()] = f })
	if f.unknownWord != "" {
		n.cluster.log.Warn("annotation hands over what nobody knows", "nodepool", u.GetName(), "annotation", NudgeAnnotation, "word", f.unknownWord,
			"known", "limits, weight, disruption")
	}
}

func (n *nodes) putClaim(f *claimFacts) {
	n.change(func() {
		n.claims[f.name] = f
		p := n.pools[f.pool]
		if !f.deleted.IsZero() && f.initialized && !f.voluntary && !f.expired(f.deleted) && p != nil && p.view.Exists && !p.static {
			n.fates.lose(f.uid, f.pool, f.deleted)
		}
	})
}

func (n *nodes) dropClaim(f *claimFacts) {
	now := time.Now() // I/O edge: the moment at which we hear of it
	n.change(func() {
		if known := n.claims[f.name]; known != nil && known.uid == f.uid {
			delete(n.claims, f.name)
		}
		if p := n.pools[f.pool]; !f.launched && p != nil && !p.static {
			n.fates.fail(f.uid, f.pool, now, false)
		}
	})
}

func (n *nodes) putEvent(e *claimEvent) {
	n.change(func() {
		pool := poolOfClaim(e.claim)
		if f := n.claims[e.claim]; f != nil && f.uid == e.uid {
			pool = f.pool
		}
		if e.reason == insufficientCapacity {
			n.fates.fail(e.uid, pool, e.at, true)
			return
		}
		n.noticed[e.uid] = e.at
	})
}

// run watches nodes and what is said about NodeClaims, reads what the CRD has, and forgets what is over.
func (n *nodes) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	select {
	case <-n.cluster.late.looked:
	case <-ctx.Done():
		return
	}
	ticker := time.NewTicker(n.cluster.options.DiscoveryPeriod)
	defer ticker.Stop()
	var read time.Time
	for {
		served := n.pool.synced() != nil
		if served && !n.watches() {
			n.watch(ctx, &running)
		}
		switch now := time.Now(); { // I/O edge: pace
		case !served:
			n.tellAbsent()
			read = time.Time{}
		case read.IsZero() || now.Sub(read) > schemaEvery:
			if n.readSchema() {
				read = now
			}
		}
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			n.forget(now)
		}
	}
}

// schemaEvery is how often the CRD is looked at again: an upgrade brings fields.
const schemaEvery = 10 * time.Minute

func (n *nodes) readSchema() bool {
	s, err := n.schemas()
	if err != nil {
		n.cluster.log.Warn("the fields of NodePools are not known; none is nudged until they are", "error", err)
		return false
	}
	n.change(func() { n.schema = s })
	return true
}

// tellAbsent says once that there is no Karpenter, where there are groups that would need one.
func (n *nodes) tellAbsent() {
	if n.absent || len(n.cluster.options.Groups.Groups()) == 0 {
		return
	}
	n.absent = true
	n.cluster.log.Warn("no NodePools are served here: capacity groups are idle until Karpenter is installed; replicas are decided all the same")
}

func (n *nodes) forget(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := len(n.fates)
	n.fates.forget(now)
	for uid, at := range n.noticed {
		if now.Sub(at) > remembered {
			delete(n.noticed, uid)
		}
	}
	if len(n.fates) != before {
		n.version++
	}
}

// watch begins to watch nodes and the Events about NodeClaims. It waits for nothing: until they are read, demand is not known.
func (n *nodes) watch(ctx context.Context, running *sync.WaitGroup) {
	c := n.cluster
	aboutClaims := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("involvedObject.kind", nodeClaimKind.Kind).String()
	}
	for _, w := range []watched{
		{coreinformers.NewNodeInformer(c.typed, 0, cache.Indexers{}), trimNode, on(
			func(old, f *nodeFacts) { n.putNode(old, f) },
			func(f *nodeFacts) { n.change(func() { delete(n.nodes, f.Name) }) },
		)},
		{coreinformers.NewFilteredEventInformer(c.typed, metav1.NamespaceDefault, 0, cache.Indexers{}, aboutClaims), trimClaimEvent, on(
			func(_, e *claimEvent) { n.putEvent(e) },
			func(*claimEvent) {},
		)},
	} {
		if err := w.informer.SetTransform(w.trim); err != nil {
			c.log.Error("informer", "error", err)
			continue
		}
		handler, err := w.informer.AddEventHandler(w.on)
		if err != nil {
			c.log.Error("informer", "error", err)
			continue
		}
		n.mu.Lock()
		n.synced = append(n.synced, handler.HasSynced)
		n.mu.Unlock()
		running.Go(func() { w.informer.RunWithContext(ctx) })
	}
}

// putNode leaves heartbeats alone: they change nothing that is decided by.
func (n *nodes) putNode(old, f *nodeFacts) {
	if old != nil && old.ready == f.ready && old.notice == f.notice && old.undisrupted == f.undisrupted && sameAmounts(old.extended, f.extended) {
		return
	}
	n.change(func() { n.nodes[f.Name] = f })
}

func sameAmounts(a, b map[string]int64) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

func trimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	f := &nodeFacts{ObjectMeta: identity(&node.ObjectMeta), extended: map[string]int64{}, undisrupted: node.Annotations[doNotDisrupt] == "true"}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			f.ready = c.Status == corev1.ConditionTrue
		}
	}
	for _, t := range node.Spec.Taints {
		for _, key := range noticeTaints {
			f.notice = f.notice || t.Key == key
		}
	}
	for name, q := range node.Status.Allocatable {
		if isExtended(name) {
			f.extended[string(name)] = q.Value()
		}
	}
	return f, nil
}

// trimClaimEvent keeps an Event that tells what becomes of a NodeClaim; of any other only who it is, as the informer's store needs it.
func trimClaimEvent(obj any) (any, error) {
	e, ok := obj.(*corev1.Event)
	if !ok {
		return obj, nil
	}
	for _, reason := range append(notices, insufficientCapacity) {
		if e.Reason == reason {
			return claimEventOf(e), nil
		}
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: identity(&e.ObjectMeta)}, nil
}

// watches tells whether nodes are watched: from the first NodePool kind on that is served.
func (n *nodes) watches() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.synced) > 0
}

// waitForSync waits until Karpenter's objects and the fields of NodePools are known, where there is one, and no longer than for a kind
// that cannot be listed: a new leader that decided before would lift every fence and put every nudge back.
func (n *nodes) waitForSync(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.cluster.late.patience)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !n.ready() {
		select {
		case <-look.C:
		case <-ctx.Done():
			n.cluster.log.Warn("not everything about NodePools could be read; they are left as they are written until it can")
			return
		}
	}
}

func (n *nodes) ready() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.pool.synced() == nil || n.complete() && n.schema.known
}

// complete tells whether all that demand is made of was read. The caller holds the lock.
func (n *nodes) complete() bool {
	if n.pool.synced() != nil && len(n.synced) == 0 {
		return false
	}
	for _, synced := range append([]cache.InformerSynced{n.pool.synced(), n.claim.synced()}, n.synced...) {
		if synced != nil && !synced() {
			return false
		}
	}
	return true
}
