package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// CapacityBuffers are the one kind of object that we create for others to see: nodes held for pods that are not there yet. Karpenter
// (from 1.15, behind a gate) and the cluster autoscaler serve them.
var (
	bufferKind     = schema.GroupVersionKind{Group: "autoscaling.x-k8s.io", Version: "v1beta1", Kind: "CapacityBuffer"}
	bufferResource = bufferKind.GroupVersion().WithResource("capacitybuffers")
)

const (
	bufferPrefix = "gpuscaler-" // the rest of a buffer's name is its policy's
	managedBy    = "app.kubernetes.io/managed-by"
	// heeded is how long an autoscaler may take to say anything of a buffer. One that says nothing has its gate off.
	heeded = time.Minute
	// unheeded is how long no further buffer is tried then: the gate may be turned on.
	unheeded = time.Hour
)

// bufferFacts is what is kept of a CapacityBuffer.
type bufferFacts struct {
	metav1.ObjectMeta
	target   ref
	replicas int32
	holds    int32 // replicas that an autoscaler holds for it, as its status says
	ours     bool  // its label says so, and the field manager
	heeded   bool  // an autoscaler has said something of it
	created  time.Time
}

func (f *bufferFacts) key() string { return f.Namespace + "/" + f.Name }

func trimBuffer(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	return bufferOf(u), nil
}

func bufferOf(u *unstructured.Unstructured) *bufferFacts {
	text := func(field string) string {
		s, _, _ := unstructured.NestedString(u.Object, "spec", "scalableRef", field)
		return s
	}
	count := func(part string) int32 {
		n, _, _ := unstructured.NestedInt64(u.Object, part, "replicas")
		return int32(min(max(n, 0), 1<<30))
	}
	status, _ := conditionOf(u, "ReadyForProvisioning")
	return &bufferFacts{
		ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()},
		target:     ref{u.GetNamespace(), text("apiGroup"), text("kind"), text("name")},
		replicas:   count("spec"),
		holds:      count("status"),
		ours:       u.GetLabels()[managedBy] == fieldManager && ownership.HasManager(u.GetManagedFields(), fieldManager),
		heeded:     status != "", created: u.GetCreationTimestamp().Time,
	}
}

// newBuffers is the kind of CapacityBuffers: watched where it is served and where our roles let us take one away again.
func (n *nodes) newBuffers() *lateKind {
	return &lateKind{kind: bufferKind, trim: trimBuffer, allowed: n.mayBuffer, on: on(
		func(_, f *bufferFacts) { n.change(func() { n.buffers[f.key()] = f }) },
		func(f *bufferFacts) { n.change(func() { delete(n.buffers, f.key()) }) },
	)}
}

// holdsBuffers tells whether a buffer may be written, and would be seen, and seen to. The caller holds the lock.
func (n *nodes) holdsBuffers() bool {
	synced := n.buffer.synced()
	return synced != nil && synced() && n.writes && n.unheeded.IsZero()
}

// buffered is how many replicas our buffer for a workload has; -1 for one that stands for another target. The caller holds the lock.
func (n *nodes) buffered(w *scaling.Workload) int32 {
	f := n.buffers[bufferFor(w.Key.Namespace, w.Key.Name)]
	switch {
	case f == nil || !f.ours:
		return 0
	case f.target != refOfWorkload(w):
		return -1
	}
	return f.replicas
}

// foreignBuffers tells whether a CapacityBuffer of somebody else's holds anything, and none of ours for these workloads, which may be
// the reason as well and is told as what it is: a reason of a group's, for as long as it lasts. The caller holds the lock.
func (n *nodes) foreignBuffers(of []*scaling.Workload) bool {
	if slices.ContainsFunc(of, func(w *scaling.Workload) bool { return n.buffered(w) != 0 }) {
		return false
	}
	for _, f := range n.buffers {
		if !f.ours && f.holds > 0 {
			return true
		}
	}
	return false
}

// bufferFor is the key of a policy's buffer.
func bufferFor(namespace, policy string) string { return namespace + "/" + bufferPrefix + policy }

// strayBuffers are ours whose policy went, or its group. The caller holds the lock.
func (n *nodes) strayBuffers(groups []*capacity.Group, of []scaling.Workload) (all []capacity.Action) {
	kept := map[string]bool{}
	for i := range of {
		if slices.ContainsFunc(groups, func(g *capacity.Group) bool { return g.Name == of[i].Group }) {
			kept[bufferFor(of[i].Key.Namespace, of[i].Key.Name)] = true
		}
	}
	for _, key := range sortedNames(n.buffers) {
		if f := n.buffers[key]; f.ours && !kept[key] {
			all = append(all, capacity.Buffer{Workload: f.Namespace + "/" + strings.TrimPrefix(f.Name, bufferPrefix)})
		}
	}
	return all
}

// judgeBuffers finds out whether anybody sees to our buffers. The caller holds the lock.
func (n *nodes) judgeBuffers(now time.Time) {
	if !n.unheeded.IsZero() && now.Sub(n.unheeded) > unheeded {
		n.unheeded = time.Time{}
	}
	for _, f := range n.buffers {
		if f.ours && !f.heeded && now.Sub(f.created) > heeded && n.unheeded.IsZero() {
			n.unheeded = now
			n.cluster.log.Warn("nobody has said anything of our CapacityBuffer within a minute: the autoscaler's gate is off; none is written for an hour",
				"buffer", f.key(), "karpenter", "FEATURE_GATES=CapacityBuffer=true")
		}
	}
}

// bufferTask is a buffer as it is to be.
type bufferTask struct {
	namespace, policy string
	target            ref
	owner             *metav1.OwnerReference // the target, so that a buffer goes with it; nil: not seen
	limitsOnly        bool                   // of the target's pod template
	replicas          int32
	seen              *bufferFacts // nil: there is none
}

// bufferTask completes an action by what the last Observe of its group showed.
func (n *nodes) bufferTask(g *capacity.Group, a capacity.Buffer) bufferTask {
	n.mu.RLock()
	defer n.mu.RUnlock()
	b := bufferTask{replicas: a.Replicas}
	b.namespace, b.policy, _ = strings.Cut(a.Workload, "/")
	b.seen = n.buffers[bufferFor(b.namespace, b.policy)]
	v := n.views[g]
	if v == nil {
		return b
	}
	w := n.cluster.world
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, workload := range v.of {
		if workload.Key.String() != a.Workload {
			continue
		}
		b.target = refOfWorkload(workload)
		if t := w.targets[b.target]; t != nil && t.facts != nil {
			b.owner = &metav1.OwnerReference{APIVersion: t.facts.apiVersion, Kind: b.target.kind, Name: b.target.name, UID: t.facts.UID}
			b.limitsOnly = t.facts.limitsOnly
		}
	}
	return b
}

// buffer writes or removes one CapacityBuffer, and never one that is somebody else's.
func (h *hands) buffer(b bufferTask) {
	if !h.cluster.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handsTimeout)
	defer cancel()
	name, what := bufferPrefix+b.policy, "written"
	client := h.cluster.dynamic.Resource(bufferResource).Namespace(b.namespace)
	var err error
	switch {
	case b.seen != nil && !b.seen.ours:
		err = fmt.Errorf("a CapacityBuffer of that name is somebody else's: rename one of them")
	case b.replicas <= 0 && b.seen == nil:
		return
	case b.replicas <= 0:
		what = "removed"
		uid := b.seen.UID
		err = client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	case b.owner == nil:
		err = fmt.Errorf("%s %s is not there", b.target.kind, b.target.name)
	case b.limitsOnly:
		// Karpenter 1.15 takes the template as it is written, and would have a node without GPUs stand for it.
		err = fmt.Errorf("the pod template of %s %s limits its GPUs and does not request them, so that a buffer would hold none: write the same under requests", b.target.kind, b.target.name)
	default:
		_, err = client.Apply(ctx, name, b.apply(name), metav1.ApplyOptions{FieldManager: fieldManager})
	}
	log := h.cluster.log.With("buffer", b.namespace+"/"+name, "replicas", b.replicas)
	switch {
	case err == nil:
		h.cluster.metrics.nodeWrites.WithLabelValues("capacitybuffer", "written").Inc()
		log.Info("capacitybuffer " + what)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		h.cluster.metrics.nodeWrites.WithLabelValues("capacitybuffer", "outrun").Inc()
		log.Debug("capacitybuffer was changed meanwhile", "error", err)
	default:
		h.cluster.metrics.nodeWrites.WithLabelValues("capacitybuffer", "failed").Inc()
		if h.isNews(b.namespace+"/"+name, err.Error()) { // it is tried every ten seconds
			log.Error("capacitybuffer was not "+what, "error", err)
		}
	}
}

// isNews tells whether a failure was not the last one of its buffer.
func (h *hands) isNews(buffer, failure string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.failed[buffer]
	h.failed[buffer] = failure
	return was != failure
}

// apply is the buffer as we own it.
func (b *bufferTask) apply(name string) *unstructured.Unstructured {
	u := newApply(bufferKind, b.namespace, name)
	u.SetLabels(map[string]string{managedBy: fieldManager})
	u.SetOwnerReferences([]metav1.OwnerReference{*b.owner})
	u.Object["spec"] = map[string]any{
		"scalableRef": map[string]any{"apiGroup": b.target.group, "kind": b.target.kind, "name": b.target.name},
		"replicas":    int64(b.replicas),
	}
	return u
}

// buffers removes every CapacityBuffer of ours. Where they may not be looked at, or one of ours may not be removed, it says what to do:
// nodes are paid for as long as one stands.
func (r *restorer) buffers(ctx context.Context) (done []Restored, err error) {
	if len(r.options.Names) > 0 {
		return nil, nil
	}
	list, err := r.cluster.typed.Discovery().ServerResourcesForGroupVersion(bufferKind.GroupVersion().String())
	if apierrors.IsNotFound(err) || err == nil && pluralOf(list, bufferKind.Kind) == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("CapacityBuffers: %w", err)
	}
	client := r.cluster.dynamic.Resource(bufferResource)
	all, err := client.List(ctx, metav1.ListOptions{LabelSelector: managedBy + "=" + fieldManager})
	if apierrors.IsForbidden(err) {
		return []Restored{Restored{Object: "CapacityBuffers"}.failed(errors.New("this account may not list them" + byOneWhoMay))}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("CapacityBuffers: %w", err)
	}
	ours := slices.DeleteFunc(all.Items, func(u unstructured.Unstructured) bool { return !bufferOf(&u).ours })
	if len(ours) == 0 {
		return nil, nil
	}
	may, unanswered := r.cluster.nodes.allowed(ctx, "delete")
	for i := range ours {
		f := bufferOf(&ours[i])
		out := Restored{Object: "CapacityBuffer " + f.key(), Changes: []string{"removed"}}
		switch {
		case !may && unanswered == nil:
			out.Changes = nil
			out = out.failed(errors.New("this account may not delete it" + byOneWhoMay))
		case !r.options.DryRun:
			err := client.Namespace(f.Namespace).Delete(ctx, f.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &f.UID}})
			if err != nil && !apierrors.IsNotFound(err) {
				out = out.failed(err)
			}
		}
		done = append(done, out)
	}
	return done, nil
}

// byOneWhoMay is what to do about buffers that we may not remove.
const byOneWhoMay = "; as one who may: kubectl delete capacitybuffers --all-namespaces -l " + managedBy + "=" + fieldManager +
	", or give it list and delete on capacitybuffers.autoscaling.x-k8s.io, as the chart does where it works with Karpenter"
