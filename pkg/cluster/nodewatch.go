package cluster

import (
	"context"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// run watches nodes and what is said about NodeClaims, reads what the CRD has, and forgets what is over.
func (n *nodes) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	select {
	case <-n.cluster.late.looked:
	case <-ctx.Done():
		return
	}
	ticker := time.NewTicker(n.cluster.options.DiscoveryPeriod) // I/O edge: paces discovery
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
			n.askToWrite(ctx)
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
	before := len(n.fates) + len(n.kept)
	n.fates.forget(now)
	maps.DeleteFunc(n.kept, func(_ string, at time.Time) bool { return now.Sub(at) > saidAgain })
	n.judgeBuffers(now)
	maps.DeleteFunc(n.ended, func(_ string, f fate) bool { return now.Sub(f.at) > remembered })
	for uid, at := range n.noticed {
		if now.Sub(at) > remembered {
			delete(n.noticed, uid)
		}
	}
	if len(n.fates)+len(n.kept) != before || n.cluster.options.Hourly != nil && now.Sub(n.priced) > priced {
		n.version++
		n.priced = now
	}
}

// priced is how often prices are asked for on a cluster in which nothing else changes.
const priced = time.Minute

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
	look := time.NewTicker(20 * time.Millisecond) // I/O edge: polls the informers at start-up
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
