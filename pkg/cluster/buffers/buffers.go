// Package buffers reads and writes CapacityBuffers, which make Karpenter (from 1.15, behind a feature gate) or the cluster autoscaler keep
// nodes for pods that do not exist yet. CapacityBuffers are the only objects that gpuscaler creates for other controllers.
//
// An informer stores each CapacityBuffer of the cluster in a Cache, from which package capacity reads the replicas of each buffer. For a
// capacity.Buffer action the caller creates a Task and passes it to a Writer. A Remover deletes gpuscaler's buffers for `gpuscaler
// restore`.
//
// The Go types are imported from the Karpenter module, which copies them from the cluster autoscaler to avoid its dependencies.
package buffers

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	karpautoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Kind is the kind of CapacityBuffers, and Resource their resource in the API.
var (
	Kind     = schema.GroupVersionKind{Group: karpautoscaling.Group, Version: "v1beta1", Kind: "CapacityBuffer"}
	Resource = Kind.GroupVersion().WithResource("capacitybuffers")
)

const (
	namePrefix     = "gpuscaler-" // prefix of a buffer's name, followed by the name of the policy
	managedByLabel = "app.kubernetes.io/managed-by"
	// responseTimeout is the longest time from the creation of a buffer until an autoscaler sets a condition on it. If no condition is set
	// within this time, the autoscaler's feature gate is probably off.
	responseTimeout = time.Minute
	// retryInterval is how long gpuscaler writes no buffer after an autoscaler has not responded to a buffer. After this time it writes
	// buffers again, because a user may have turned the feature gate on.
	retryInterval = time.Hour
	// infeasible is the reason of the condition Provisioning if the autoscaler can add no node with space for a replica. Karpenter 1.15
	// does not set it; kubernetes-sigs/karpenter#3318 adds it.
	infeasible = "Infeasible"
	// maxReplicas is the greatest number of replicas that is read from a CapacityBuffer. Greater numbers are reduced to it.
	maxReplicas = 1 << 30
)

// Target is the workload for whose pods a buffer keeps nodes.
type Target struct{ Namespace, Group, Kind, Name string }

// targetOf returns the scale target of a policy. If the policy names no kind, the kind is Deployment.
func targetOf(w *scaling.Workload) Target {
	t := Target{Namespace: w.Key.Namespace, Group: "apps", Kind: w.Target.Kind, Name: w.Target.Name}
	if t.Kind == "" {
		t.Kind = "Deployment"
	}
	if w.Target.APIVersion != "" {
		group, _, found := strings.Cut(w.Target.APIVersion, "/")
		if !found {
			group = "" // the core group: its apiVersion is only "v1"
		}
		t.Group = group
	}
	return t
}

// Buffer contains the fields of a CapacityBuffer that the informer stores.
type Buffer struct {
	metav1.ObjectMeta
	target    Target
	replicas  int32
	held      int32 // number of replicas for which an autoscaler keeps nodes, from the status
	ours      bool  // whether gpuscaler wrote the buffer, according to its label and its field manager
	responded bool  // whether an autoscaler has set a condition
	// infeasible is true if the autoscaler can add no node with space for a replica
	infeasible bool
	// outdated is true if the condition Provisioning, from which infeasible is computed, refers to an earlier version of the spec
	outdated bool
	created  time.Time
}

func (b *Buffer) key() string { return b.Namespace + "/" + b.Name }

// Trim is the transform of the CapacityBuffer informer.
func Trim(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return Decode(u), nil
	}
	return obj, nil
}

// Decode converts a CapacityBuffer to the fields that the informer stores. If spec or status cannot be decoded, the target is empty and the
// replicas are 0. For a buffer of gpuscaler, Cache.Replicas then returns -1, so that gpuscaler writes the buffer again.
func Decode(u *unstructured.Unstructured) *Buffer {
	b := &Buffer{
		ObjectMeta: informer.Identity(u),
		ours:       u.GetLabels()[managedByLabel] == ownership.Manager && ownership.HasManager(u.GetManagedFields(), ownership.Manager),
		created:    u.GetCreationTimestamp().Time,
	}
	var typed karpautoscaling.CapacityBuffer
	// decode JSON, because the converter of package runtime decodes 2^32 replicas as 0 without an error
	text, err := u.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, &typed)
	}
	if err != nil {
		return b
	}
	if ref := typed.Spec.ScalableRef; ref != nil {
		b.target = Target{Namespace: u.GetNamespace(), Group: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
	b.replicas, b.held = replicas(typed.Spec.Replicas), replicas(typed.Status.Replicas)
	ready := apimeta.FindStatusCondition(typed.Status.Conditions, karpautoscaling.ReadyForProvisioningCondition)
	b.responded = ready != nil && ready.Status != ""
	p := apimeta.FindStatusCondition(typed.Status.Conditions, karpautoscaling.ProvisioningCondition)
	b.outdated = p != nil && isOutdated(p, u)
	b.infeasible = p != nil && p.Status == metav1.ConditionFalse && p.Reason == infeasible && !b.outdated
	return b
}

// isOutdated reports whether a condition refers to an earlier version of the spec of the object u. A condition without observedGeneration
// counts as current.
func isOutdated(c *metav1.Condition, u *unstructured.Unstructured) bool {
	return c.ObservedGeneration != 0 && c.ObservedGeneration < u.GetGeneration()
}

// replicas returns n limited to the range from 0 to maxReplicas, or 0 if n is nil.
func replicas(n *int32) int32 {
	if n == nil {
		return 0
	}
	return min(max(*n, 0), maxReplicas)
}

// Cache contains the CapacityBuffers of the cluster. It is safe for concurrent use.
type Cache struct {
	options Options

	mu            sync.RWMutex
	kind          informer.CRD
	buffers       map[string]*Buffer // key: namespace/name
	mayWrite      bool               // whether this account may create buffers, according to the last response of the API server
	missingLogged bool               // whether the missing permission was logged
	// ignoredSince is when gpuscaler noticed that no autoscaler had responded to a buffer within responseTimeout. No buffer is written for
	// retryInterval from that time. Zero: an autoscaler responded to every buffer.
	ignoredSince time.Time
}

// Options configure a Cache.
type Options struct {
	// Allowed asks the API server whether this account may use a verb on CapacityBuffers in all namespaces.
	Allowed func(ctx context.Context, verb string) (bool, error)
	// Requested reports whether at least one capacity group is configured to use buffers.
	Requested func() bool
	// Changed is called after each change of a buffer.
	Changed func()
	Log     *slog.Logger
}

// New returns an empty Cache.
func New(o Options) *Cache { return &Cache{options: o, buffers: map[string]*Buffer{}} }

// Watch sets the informer of CapacityBuffers, whose state Usable reads. It is called once, before the informer starts.
func (c *Cache) Watch(kind informer.CRD) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind = kind
}

// Put adds or replaces a buffer. An infeasible buffer remains infeasible after a change of its replicas, until the autoscaler sets a
// condition for the new version: if no node has space for one replica, the number of replicas makes no difference. Otherwise gpuscaler
// would briefly stop limiting the target of the workload after each change.
func (c *Cache) Put(b *Buffer) {
	c.change(func() {
		if old := c.buffers[b.key()]; b.outdated && old != nil && old.infeasible && old.UID == b.UID && old.target == b.target {
			known := *b
			known.infeasible = true
			b = &known
		}
		c.buffers[b.key()] = b
	})
}

// Delete removes a buffer.
func (c *Cache) Delete(b *Buffer) { c.change(func() { delete(c.buffers, b.key()) }) }

func (c *Cache) change(what func()) {
	c.mu.Lock()
	what()
	c.mu.Unlock()
	c.options.Changed()
}

// Usable reports whether gpuscaler should write buffers. All of these must be true: the API server serves CapacityBuffers, the informer has
// synced, this account may create buffers, and an autoscaler has responded to the last buffers that gpuscaler wrote.
func (c *Cache) Usable() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.kind == nil {
		return false
	}
	synced := c.kind.Synced()
	return synced != nil && synced() && c.mayWrite && c.ignoredSince.IsZero()
}

// Replicas returns spec.replicas of the CapacityBuffer that gpuscaler wrote for a workload. It returns 0 if this buffer does not exist, and
// -1 if the buffer refers to another scale target than the policy.
func (c *Cache) Replicas(w *scaling.Workload) int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.replicas(w)
}

func (c *Cache) replicas(w *scaling.Workload) int32 {
	b := c.buffers[keyOf(w.Key.Namespace, w.Key.Name)]
	switch {
	case b == nil || !b.ours:
		return 0
	case b.target != targetOf(w):
		return -1
	}
	return b.replicas
}

// Infeasible reports whether the status of the CapacityBuffer that gpuscaler wrote for a workload says that the autoscaler can add no node
// with space for a replica.
func (c *Cache) Infeasible(w *scaling.Workload) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.replicas(w) > 0 && c.buffers[keyOf(w.Key.Namespace, w.Key.Name)].infeasible
}

// OthersHold reports whether the autoscaler keeps nodes only for CapacityBuffers that gpuscaler did not write. It returns false if
// gpuscaler has a buffer for one of the workloads: the autoscaler does not report for which buffer it keeps a node, so OthersHold assumes
// that it keeps the node for gpuscaler's buffer.
func (c *Cache) OthersHold(workloads []*scaling.Workload) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if slices.ContainsFunc(workloads, func(w *scaling.Workload) bool { return c.replicas(w) != 0 }) {
		return false
	}
	for _, b := range c.buffers {
		if !b.ours && b.held > 0 {
			return true
		}
	}
	return false
}

func keyOf(namespace, policy string) string { return namespace + "/" + namePrefix + policy }

// Orphaned returns actions that remove gpuscaler's buffers whose policy or capacity group no longer exists.
func (c *Cache) Orphaned(groups []*capacity.Group, workloads []scaling.Workload) (all []capacity.Action) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	current := map[string]bool{}
	for i := range workloads {
		w := &workloads[i]
		if slices.ContainsFunc(groups, func(g *capacity.Group) bool { return g.Name == w.Group }) {
			current[keyOf(w.Key.Namespace, w.Key.Name)] = true
		}
	}
	keys := make([]string, 0, len(c.buffers))
	for key, b := range c.buffers {
		if b.ours && !current[key] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		b := c.buffers[key]
		all = append(all, capacity.Buffer{Workload: b.Namespace + "/" + strings.TrimPrefix(b.Name, namePrefix)})
	}
	return all
}

// CheckResponses checks whether an autoscaler has responded to each of gpuscaler's buffers within responseTimeout. If an autoscaler has
// not, no buffer is written for retryInterval.
func (c *Cache) CheckResponses(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ignoredSince.IsZero() && now.Sub(c.ignoredSince) > retryInterval {
		c.ignoredSince = time.Time{}
	}
	for _, b := range c.buffers {
		if b.ours && !b.responded && now.Sub(b.created) > responseTimeout && c.ignoredSince.IsZero() {
			c.ignoredSince = now
			c.options.Log.Warn("no autoscaler has set a condition on the CapacityBuffer within a minute; its feature gate is probably off; "+
				"no buffer is written for an hour", "buffer", b.key(), "karpenter", "FEATURE_GATES=CapacityBuffer=true", "cluster autoscaler",
				"--capacity-buffer-controller-enabled --capacity-buffer-pod-injection-enabled")
		}
	}
}

// Task is the task to write or remove one buffer.
type Task struct {
	Namespace, Policy string
	Target            Target
	// Owner is the scale target. It becomes the owner of the buffer, so that both objects are deleted together. nil: the scale target does not
	// exist.
	Owner      *metav1.OwnerReference
	LimitsOnly bool // whether the pod template of the target has a GPU limit but no GPU request
	Replicas   int32
	existing   *Buffer // the buffer in the cache; nil if there is none
}

// NewTask returns the task for an action. It reads the namespace and the policy from a.Workload ("namespace/policy") and sets existing to
// the current buffer of that policy. The caller sets Target, Owner and LimitsOnly.
func (c *Cache) NewTask(a capacity.Buffer) Task {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := Task{Replicas: a.Replicas}
	t.Namespace, t.Policy, _ = strings.Cut(a.Workload, "/")
	t.existing = c.buffers[keyOf(t.Namespace, t.Policy)]
	return t
}

// For sets the target of the task to the scale target of a workload.
func (t *Task) For(w *scaling.Workload) { t.Target = targetOf(w) }
