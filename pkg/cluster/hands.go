package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

// handsTimeout bounds one request; what it leaves undone the next observation shows, and package capacity repeats.
const handsTimeout = 10 * time.Second

// hands write what was decided about nodes. Each NodePool is written by one at a time.
type hands struct {
	cluster *Cluster
	nodes   *nodes

	mu     sync.Mutex
	busy   map[string]*sync.Mutex // by NodePool
	failed map[string]string      // by buffer: why it was not written last
}

func newHands(c *Cluster, n *nodes) *hands {
	return &hands{cluster: c, nodes: n, busy: map[string]*sync.Mutex{}, failed: map[string]string{}}
}

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// Act begins to carry out actions. A NodePool's patch is based on what the last Observe of the group showed.
func (n *nodes) Act(g *capacity.Group, actions []capacity.Action) <-chan struct{} {
	done := make(chan struct{})
	if !n.cluster.leading() {
		close(done)
		return done
	}
	seen := map[string]*poolFacts{}
	if v := n.views[g]; v != nil {
		seen = v.seen
	}
	var running sync.WaitGroup
	for _, action := range actions {
		switch a := action.(type) {
		case capacity.NodePoolPatch:
			if base := seen[a.Pool]; base != nil {
				running.Go(func() { n.hands.nudge(a, base) })
			}
		case capacity.PodAnnotation:
			running.Go(func() { n.hands.mark(a) })
		case capacity.Buffer:
			task := n.bufferTask(g, a)
			running.Go(func() { n.hands.buffer(task) })
		}
	}
	go func() {
		running.Wait()
		close(done)
	}()
	return done
}

// nudge carries out one patch and tells what came of it.
func (h *hands) nudge(p capacity.NodePoolPatch, base *poolFacts) {
	h.mu.Lock()
	one := h.busy[p.Pool]
	if one == nil {
		one = &sync.Mutex{}
		h.busy[p.Pool] = one
	}
	h.mu.Unlock()
	one.Lock()
	defer one.Unlock()
	if !h.cluster.leading() || h.cluster.overridden(context.Background(), base) != "" {
		return // it waited for longer than we lead, or another release overrides the NodePool: see OtherRelease
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*handsTimeout) // the tick that asked may be over: see Nodes.Act
	defer cancel()
	err := h.patch(ctx, p, base.object)
	if p.Loosens && apierrors.IsConflict(err) {
		if now := h.outrunBy(p.Pool, base); now != nil {
			base, err = now, h.patch(ctx, p, now.object)
		}
	}
	h.tell(p, base, err)
}

// outrunBy is the NodePool as a write that left its spec alone has made it meanwhile, such as Karpenter's of its status; nil where
// there is none. What was decided on base holds for it as well.
func (h *hands) outrunBy(pool string, base *poolFacts) *poolFacts {
	h.nodes.mu.RLock()
	defer h.nodes.mu.RUnlock()
	now := h.nodes.pools[pool]
	if now == nil || now.object.GetUID() != base.object.GetUID() || now.object.GetGeneration() != base.object.GetGeneration() ||
		now.object.GetResourceVersion() == base.object.GetResourceVersion() {
		return nil
	}
	return now
}

// patch restores first and applies what is held afterwards, from the version that was decided on.
func (h *hands) patch(ctx context.Context, p capacity.NodePoolPatch, base *unstructured.Unstructured) error {
	current, err := h.restore(ctx, p, base)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return h.hold(ctx, p, current)
}

// restore puts values back and gives the fields to those who had them. It takes two requests, as the API server hands a field that
// changes to whoever changes it:
//
//  1. the values, in our name: a crash after it leaves fields that are ours, which the next leader goes on with
//  2. managedFields: our entries lose the fields, those of the recorded managers have them again
func (h *hands) restore(ctx context.Context, p capacity.NodePoolPatch, base *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	values, err := restoredValues(p, base)
	if err != nil {
		return nil, err
	}
	current := base
	if len(values) > 0 {
		if current, err = h.jsonPatch(ctx, current, values); err != nil {
			return nil, err
		}
	}
	owned, changed := ownership.Read(current.GetManagedFields()), false
	for _, c := range p.Changes {
		if !c.Restore {
			continue
		}
		to := ownership.ParseOwners(c.Owner)
		if c.To == "" {
			to = nil // nobody owns what is not there
		}
		if owned.Transfer(c.Path(), to, current.GetAPIVersion()) {
			changed = true
		}
	}
	if !changed {
		return current, nil
	}
	entries, err := owned.Entries()
	if err != nil {
		return nil, err
	}
	return h.jsonPatch(ctx, current, []operation{{Op: "replace", Path: "/metadata/managedFields", Value: entries}})
}

// hold applies all that is ours on a NodePool, with its record: what an apply leaves out is given up.
func (h *hands) hold(ctx context.Context, p capacity.NodePoolPatch, current *unstructured.Unstructured) error {
	apply := newApply(nodePoolKind, "", p.Pool)
	apply.SetResourceVersion(current.GetResourceVersion())
	if p.Record != "" {
		annotations := map[string]string{RecordAnnotation: p.Record}
		if h.cluster.options.Release != "" {
			annotations[HolderAnnotation] = h.cluster.options.Release
		}
		apply.SetAnnotations(annotations)
	}
	for _, c := range append(append([]capacity.Change(nil), p.Overrides...), held(p)...) {
		value, err := decodeValue(c.To)
		if err != nil {
			return err
		}
		if value == nil {
			continue // a field that is to be absent is one that nobody applies
		}
		if err := unstructured.SetNestedField(apply.Object, value, c.Path()...); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, handsTimeout)
	defer cancel()
	_, err := h.cluster.dynamic.Resource(nodePoolResource).Apply(ctx, p.Pool, apply, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// held are the changes of a patch that are ours afterwards and that Held does not list.
func held(p capacity.NodePoolPatch) (more []capacity.Change) {
	for _, c := range p.Changes {
		listed := c.Restore
		for _, other := range p.Overrides {
			listed = listed || other.Name() == c.Name()
		}
		if !listed {
			more = append(more, c)
		}
	}
	return more
}

func newApply(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// jsonPatch changes a NodePool at the version that was seen; any other is a conflict.
func (h *hands) jsonPatch(ctx context.Context, seen *unstructured.Unstructured, operations []operation) (*unstructured.Unstructured, error) {
	operations = append([]operation{{Op: "replace", Path: "/metadata/resourceVersion", Value: seen.GetResourceVersion()}}, operations...)
	body, err := encode(operations)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handsTimeout)
	defer cancel()
	return h.cluster.dynamic.Resource(nodePoolResource).Patch(ctx, seen.GetName(), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
}

// mark sets or clears one annotation of one pod, unless somebody else has set it meanwhile.
func (h *hands) mark(m capacity.PodAnnotation) {
	key, manager := gpupods.DeletionCostAnnotation, ownership.DeletionCostManager
	if m.Kind == capacity.DoNotDisrupt {
		key, manager = gpupods.DoNotDisruptAnnotation, ownership.DoNotDisruptManager
	}
	apply := newApply(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, m.Namespace, m.Name)
	apply.SetUID(types.UID(m.UID)) // not the next pod of that name
	if m.Value != "" {
		apply.SetAnnotations(map[string]string{key: m.Value})
	}
	ctx, cancel := context.WithTimeout(context.Background(), handsTimeout)
	defer cancel()
	_, err := h.cluster.dynamic.Resource(podResource).Namespace(m.Namespace).Apply(ctx, m.Name, apply, metav1.ApplyOptions{FieldManager: manager})
	switch {
	case err == nil:
		h.cluster.metrics.nodeWrites.WithLabelValues("pod", "written").Inc()
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		h.cluster.metrics.nodeWrites.WithLabelValues("pod", "outrun").Inc()
	default:
		h.cluster.metrics.nodeWrites.WithLabelValues("pod", "failed").Inc()
		h.cluster.log.Warn("a pod was not marked", "pod", m.Namespace+"/"+m.Name, "annotation", key, "error", err)
	}
}

// tell logs what came of a patch, counts it and tells of it on the NodePool.
func (h *hands) tell(p capacity.NodePoolPatch, base *poolFacts, err error) {
	c, text := h.cluster, p.Text()
	switch {
	case err == nil:
		c.metrics.nodeWrites.WithLabelValues("nodepool", "written").Inc()
		c.log.Info("nodepool", "nodepool", p.Pool, "change", text)
		h.tellOnPool(p, base)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// Somebody wrote it first: the next tick decides on what stands there now.
		c.metrics.nodeWrites.WithLabelValues("nodepool", "outrun").Inc()
		c.log.Debug("nodepool was changed meanwhile", "nodepool", p.Pool, "error", err)
	case errors.Is(err, context.DeadlineExceeded):
		c.metrics.nodeWrites.WithLabelValues("nodepool", "failed").Inc()
		c.log.Warn("the API server did not answer; the change is tried again", "nodepool", p.Pool, "change", text)
	default:
		c.metrics.nodeWrites.WithLabelValues("nodepool", "failed").Inc()
		c.log.Error("nodepool was not changed", "nodepool", p.Pool, "change", text, "error", err)
	}
}
