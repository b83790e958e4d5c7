package cluster

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// nodes is Karpenter in memory, and the hands that nudge its NodePools. Karpenter may be absent, come later, or go.
type nodes struct {
	cluster *Cluster
	hands   *hands
	schemas func() (nodeSchema, error)
	pool    *lateKind // NodePools and NodeClaims
	claim   *lateKind
	buffer  *lateKind
	devices []*lateKind // of dynamic resource allocation

	mu       sync.RWMutex
	version  uint64 // counts the changes of what follows
	pools    map[string]*poolFacts
	claims   map[string]*claimFacts // by name
	nodes    map[string]*nodeFacts
	buffers  map[string]*bufferFacts      // CapacityBuffers, by namespace/name
	requests map[claimKey]*deviceRequests // ResourceClaims and their templates
	classes  map[string]*deviceClass
	ended    map[string]fate      // NodeClaims that were deleted without a sign that the provider took the node, by UID
	noticed  map[string]time.Time // UIDs of NodeClaims that the provider takes, and since when
	kept     map[string]time.Time // UIDs of NodeClaims that Karpenter keeps for a CapacityBuffer, and when it last said so
	fates    ledger
	schema   nodeSchema
	synced   []cache.InformerSynced // of nodes and Events
	absent   bool                   // it was said that there is no Karpenter
	writes   bool                   // our roles let us write a buffer, as we asked last
	refused  bool                   // it was said that they do not
	priced   time.Time              // when prices were asked for last, for that reason
	// unheeded is since when nobody is known to see to our buffers; zero: nobody was found not to.
	unheeded time.Time

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
	sharesGPUs                 bool
	changed                    time.Time        // when ready last changed
	extended                   map[string]int64 // allocatable
	offer                      cost.Offer       // of a node with GPUs
}

var _ engine.Nodes = (*nodes)(nil)

func newNodes(c *Cluster) *nodes {
	n := &nodes{
		cluster: c, pools: map[string]*poolFacts{}, buffers: map[string]*bufferFacts{}, requests: map[claimKey]*deviceRequests{}, classes: map[string]*deviceClass{}, claims: map[string]*claimFacts{}, nodes: map[string]*nodeFacts{},
		ended: map[string]fate{}, noticed: map[string]time.Time{}, kept: map[string]time.Time{}, yielded: map[string]time.Time{}, fates: ledger{}, views: map[*capacity.Group]*groupView{},
		schemas: c.options.schemas,
	}
	if n.schemas == nil {
		n.schemas = func() (nodeSchema, error) { return readNodeSchema(c.typed.Discovery()) }
	}
	n.hands = newHands(c, n)
	n.pool = &lateKind{kind: nodePoolKind, trim: untrimmed, on: on(
		func(_, u *unstructured.Unstructured) { n.putPool(u) },
		func(u *unstructured.Unstructured) { n.change(func() { delete(n.pools, u.GetName()) }) },
	)}
	n.claim = &lateKind{kind: nodeClaimKind, trim: trimClaim, on: on(
		func(_, k *keptClaim) { n.putClaim(k.facts) },
		func(k *keptClaim) { n.dropClaim(k.facts) },
	)}
	n.buffer, n.devices = n.newBuffers(), n.newDeviceKinds()
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
		if f.deleted.IsZero() || !f.initialized || f.voluntary || f.expired(f.deleted) || p == nil || !p.view.Exists || p.static {
			return
		}
		if _, judged := n.ended[f.uid]; judged {
			return // its node stops reporting while it is drained
		}
		if n.taken(f) {
			n.fates.lose(f.uid, f.pool, f.deleted)
		} else {
			n.ended[f.uid] = fate{pool: f.pool, at: f.deleted}
		}
	})
}

// repairAfter is the shortest time for which a node is unhealthy before Karpenter's node repair replaces it. An instance that the provider
// took is removed sooner: Karpenter looks for instances that no longer exist every two minutes.
const repairAfter = 10 * time.Minute

// taken reports whether the provider took the node of a NodeClaim that is being deleted: it gave notice, or the node stopped reporting or
// disappeared before. The node of a NodeClaim that a person deletes is Ready until then, and one that node repair replaces has been
// unhealthy for longer. Neither says anything about the market. The caller holds the lock.
func (n *nodes) taken(f *claimFacts) bool {
	if _, noticed := n.noticed[f.uid]; noticed {
		return true
	}
	node := n.nodes[f.node]
	if node == nil {
		return f.node != "" && n.cluster.synced.Load() // before that it may not have been read yet
	}
	silent := f.deleted.Sub(node.changed)
	return node.notice || !node.ready && silent >= 0 && silent < repairAfter
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
		switch e.reason {
		case insufficientCapacity:
			n.fates.fail(e.uid, pool, e.at, true)
		case unconsolidatable:
			if e.at.After(n.kept[e.uid]) {
				n.kept[e.uid] = e.at
			}
		default:
			n.noticed[e.uid] = e.at
			if f, ended := n.ended[e.uid]; ended { // the deletion was read before the notice
				delete(n.ended, e.uid)
				n.fates.lose(e.uid, f.pool, f.at)
			}
		}
	})
}

// putNode leaves heartbeats alone: they change nothing that is decided by.
func (n *nodes) putNode(old, f *nodeFacts) {
	if old != nil && old.ready == f.ready && old.notice == f.notice && old.undisrupted == f.undisrupted && old.sharesGPUs == f.sharesGPUs && old.offer == f.offer && sameAmounts(old.extended, f.extended) {
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
	f := &nodeFacts{ObjectMeta: identity(&node.ObjectMeta), extended: map[string]int64{}, undisrupted: node.Annotations[gpupods.DoNotDisruptAnnotation] == "true",
		sharesGPUs: gpupods.NodeSharesGPUs(node.Labels)}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			f.ready, f.changed = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	for _, t := range node.Spec.Taints {
		for _, key := range noticeTaints {
			f.notice = f.notice || t.Key == key
		}
	}
	for name, q := range node.Status.Allocatable {
		if gpupods.IsExtended(name) {
			f.extended[string(name)] = q.Value()
		}
		if gpupods.IsGPU(name) {
			f.offer = offerOf(node.Labels)
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
	if e.Reason == insufficientCapacity || slices.Contains(notices, e.Reason) {
		return claimEventOf(e), nil
	}
	if c := claimEventOf(e); c.buffered {
		return c, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: identity(&e.ObjectMeta)}, nil
}
