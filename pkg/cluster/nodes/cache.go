// Package nodes observes NodePools, NodeClaims and Nodes, together with the pods that use or need them, and builds the observation from
// which package capacity decides. Karpenter may be absent, be installed later or be removed.
//
// Informers put the objects into a Cache. The engine calls Cache.Observe once for each capacity group and tick, and passes the observation
// to capacity.Decide.
//
// # Terms
//
//   - group: a capacity group of the PlatformConfig, which names NodePools or selects nodes by labels
//   - member: a workload whose policy names the group; other pods that use GPUs of the group have no policy
//   - outcome: the failed launch or the loss of the instance of a NodeClaim
package nodes

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/buffers"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/deviceclaims"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// Options configure a Cache.
type Options struct {
	Workloads Workloads
	// WorkloadsSynced reports whether the first lists of all scale targets and pods were read.
	WorkloadsSynced func() bool
	Groups          engine.Groups
	// Hourly returns the price of an instance per hour, or 0 if it is unknown. nil: no price is known.
	Hourly func(cost.Offer) float64
	// ReadSchema reads from the API server which fields NodePools have.
	ReadSchema func() (karpenter.Schema, error)
	// BetaServed reports whether the API server serves NodePools of the unsupported version v1beta1.
	BetaServed func() bool
	// SkipNodePools is true if NodePools must not be read, even if the API server serves them.
	SkipNodePools bool
	Buffers       *buffers.Cache
	Claims        *deviceclaims.Cache
	Log           *slog.Logger
}

// Cache contains Karpenter's objects and the Nodes. Only the engine calls Observe, Orphans, PatchBase and BufferTask. All other methods are
// safe for concurrent use.
type Cache struct {
	options Options
	pool    informer.CRD
	claim   informer.CRD

	mu          sync.RWMutex
	version     uint64 // changes with each change of the fields below, of a CapacityBuffer and of a device claim
	pools       map[string]*karpenter.NodePool
	claims      map[string]*karpenter.NodeClaim // key: name of the NodeClaim
	overlays    []*karpenter.NodeOverlay
	nodes       map[string]*Node
	deleted     map[string]outcome   // deleted NodeClaims whose node the cloud provider may have taken, until an Event confirms it; by UID
	interrupted map[string]time.Time // time of the interruption notice for each NodeClaim whose node the cloud provider takes; by UID
	// buffered is the time of the last Event about each NodeClaim whose node Karpenter keeps for a CapacityBuffer, by UID.
	buffered     map[string]time.Time
	outcomes     outcomes
	starts       starts
	schema       karpenter.Schema
	nodesSynced  cache.InformerSynced   // reports whether the informer of Nodes has synced; nil: it was not started
	claimsSeen   bool                   // whether a NodeClaim was observed; the informer of Events is then started
	synced       []cache.InformerSynced // report whether the informers of Nodes and Events have synced
	absentLogged bool                   // whether it was logged that the API server serves no NodePools
	priced       time.Time              // when prices were last updated

	// The engine alone uses views, sorted and orphans, without a lock.
	views   map[*capacity.Group]*groupView
	sorted  podList
	orphans orphanView
}

// New returns an empty Cache.
func New(o Options) *Cache {
	return &Cache{
		options: o, pools: map[string]*karpenter.NodePool{}, claims: map[string]*karpenter.NodeClaim{}, nodes: map[string]*Node{},
		deleted: map[string]outcome{}, interrupted: map[string]time.Time{}, buffered: map[string]time.Time{}, outcomes: outcomes{},
		starts: starts{nodes: map[string]nodeStart{}},
		views:  map[*capacity.Group]*groupView{},
	}
}

// Changed makes the next Observe build a new observation. It is called after a change of a CapacityBuffer or a ResourceClaim, which are in
// other caches.
func (n *Cache) Changed() { n.change(func() {}) }

func (n *Cache) change(what func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	what()
	n.version++
}

// NodePool returns the NodePool with the given name, or nil if it does not exist.
func (n *Cache) NodePool(name string) *karpenter.NodePool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.pools[name]
}

// SetSchema sets which fields NodePools have. It is called for a cluster that is read from files.
func (n *Cache) SetSchema(s karpenter.Schema) { n.change(func() { n.schema = s }) }

// PutNodePool adds or replaces a NodePool.
func (n *Cache) PutNodePool(u *unstructured.Unstructured) {
	p := karpenter.DecodeNodePool(u)
	n.change(func() { n.pools[p.Name()] = p })
	if p.Err != nil {
		n.options.Log.Error("the template of a NodePool cannot be read; whether pods can use it is unknown", "nodepool", p.Name(), "error", p.Err)
	}
	if p.UnknownConsent != "" {
		n.options.Log.Warn("the annotation of a NodePool contains an unknown word", "nodepool", p.Name(),
			"annotation", karpenter.ConsentAnnotation, "word", p.UnknownConsent, "known", "limits, weight, disruption")
	}
}

// DeleteNodePool removes a NodePool.
func (n *Cache) DeleteNodePool(name string) { n.change(func() { delete(n.pools, name) }) }

// PutNodeOverlay adds or replaces a NodeOverlay. NodeOverlays change the prices of nodes.
func (n *Cache) PutNodeOverlay(o *karpenter.NodeOverlay) {
	n.DeleteNodeOverlay(o)
	n.change(func() { n.overlays = append(n.overlays, o) })
}

// DeleteNodeOverlay removes the NodeOverlay with the same name.
func (n *Cache) DeleteNodeOverlay(o *karpenter.NodeOverlay) {
	n.change(func() {
		n.overlays = slices.DeleteFunc(n.overlays, func(other *karpenter.NodeOverlay) bool { return other.Name == o.Name })
	})
}

// PutNodeClaim adds or replaces a NodeClaim. It also records a lost node for the NodePool if all of these are true: the NodeClaim is being
// deleted, the cloud provider took its instance, Karpenter set no disruption reason, and the NodeClaim has not expired.
func (n *Cache) PutNodeClaim(c *karpenter.NodeClaim) {
	if c.Err != nil {
		n.options.Log.Error("a NodeClaim cannot be read", "nodeclaim", c.Name, "error", c.Err)
	}
	n.starts.put(c)
	n.change(func() {
		n.claims[c.Name] = c
		p := n.pools[c.NodePool]
		if c.Deleted.IsZero() || !c.Initialized || c.Voluntary || c.ExpiresBy(c.Deleted) || p == nil || !p.Exists() || p.Static() {
			return
		}
		uid := string(c.UID)
		if _, known := n.deleted[uid]; known {
			return // examined at the start of the deletion; now the drain itself can make the Node not Ready
		}
		if n.takenByProvider(c) {
			n.outcomes.addLoss(uid, c.NodePool, c.Deleted)
		} else {
			n.deleted[uid] = outcome{pool: c.NodePool, at: c.Deleted}
		}
	})
}

// nodeRepairDelay is how long a node must be unhealthy before Karpenter's node repair replaces it. If the cloud provider took the
// instance, Karpenter removes the NodeClaim earlier, because it looks for missing instances every two minutes.
const nodeRepairDelay = 10 * time.Minute

// takenByProvider reports whether the cloud provider took the instance of a NodeClaim that is being deleted. This is the case if an
// interruption was announced, if the Node no longer exists, or if the Node became not Ready less than nodeRepairDelay before the deletion.
//
// Other deletions differ. If a user deletes a NodeClaim, its Node is Ready until the deletion. If node repair replaces a node, the Node was
// not Ready for at least nodeRepairDelay. The caller holds the lock.
func (n *Cache) takenByProvider(c *karpenter.NodeClaim) bool {
	if _, announced := n.interrupted[string(c.UID)]; announced {
		return true
	}
	node := n.nodes[c.Node]
	if node == nil {
		return c.Node != "" && n.options.WorkloadsSynced() // before the caches are synced, the Node may exist but not have been read yet
	}
	silent := c.Deleted.Sub(node.readyChanged)
	return node.interrupted || !node.ready && silent >= 0 && silent < nodeRepairDelay
}

// DeleteNodeClaim removes a NodeClaim. If the cloud provider launched no instance for it, DeleteNodeClaim records a failed launch.
func (n *Cache) DeleteNodeClaim(c *karpenter.NodeClaim) {
	n.starts.remove(c)
	now := time.Now() // may use the clock: time at which the deletion was received
	n.change(func() {
		if known := n.claims[c.Name]; known != nil && known.UID == c.UID {
			delete(n.claims, c.Name)
		}
		if p := n.pools[c.NodePool]; !c.Launched && p != nil && !p.Static() {
			n.outcomes.addFailure(string(c.UID), c.NodePool, now, false)
		}
	})
}

// PutEvent records an Event about a NodeClaim: a failed launch, an interruption, or a node that Karpenter keeps for a CapacityBuffer.
func (n *Cache) PutEvent(e *karpenter.ClaimEvent) {
	n.change(func() {
		pool := karpenter.NodePoolOfClaimName(e.Claim)
		if c := n.claims[e.Claim]; c != nil && string(c.UID) == e.ClaimUID {
			pool = c.NodePool
		}
		switch e.Reason {
		case karpenter.InsufficientCapacity:
			n.outcomes.addFailure(e.ClaimUID, pool, e.At, true)
		case karpenter.Unconsolidatable:
			if e.At.After(n.buffered[e.ClaimUID]) {
				n.buffered[e.ClaimUID] = e.At
			}
		default:
			n.interrupted[e.ClaimUID] = e.At
			// the deletion of the NodeClaim may have been read before this Event, because the watches of NodeClaims and Events have no common order
			if d, known := n.deleted[e.ClaimUID]; known {
				delete(n.deleted, e.ClaimUID)
				n.outcomes.addLoss(e.ClaimUID, d.pool, d.at)
			}
		}
	})
}

// PutNode adds or replaces a Node. It ignores a new version that differs only in the heartbeat.
func (n *Cache) PutNode(old, node *Node) {
	if old == nil || !old.sameFacts(node) {
		n.change(func() { n.nodes[node.Name] = node })
	}
}

// DeleteNode removes a Node.
func (n *Cache) DeleteNode(name string) { n.change(func() { delete(n.nodes, name) }) }

// SharesGPUs reports whether several pods share the GPUs of a node. It returns false for a node that is not in the cache. The cache
// contains Nodes only while the API server serves NodePools, or if a group selects its nodes by labels.
func (n *Cache) SharesGPUs(name string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	node := n.nodes[name]
	return node != nil && node.sharesGPUs
}

// Offers returns the instance type, the capacity type and the location of each GPU node, by node name.
func (n *Cache) Offers() map[string]cost.Offer {
	n.mu.RLock()
	defer n.mu.RUnlock()
	out := map[string]cost.Offer{}
	for name, node := range n.nodes {
		if node.offer.InstanceType != "" {
			out[name] = node.offer
		}
	}
	for _, c := range n.claims {
		if c.Node != "" && c.InstanceType != "" {
			out[c.Node] = c.Offer(n.overlays)
		}
	}
	return out
}
