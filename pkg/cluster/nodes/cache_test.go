package nodes

import (
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/buffers"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/deviceclaims"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// noWorkloads is a cache of workloads without scale targets and pods.
type noWorkloads struct{}

func (noWorkloads) RLock()                                      {}
func (noWorkloads) RUnlock()                                    {}
func (noWorkloads) Version() uint64                             { return 1 }
func (noWorkloads) NodeTarget(*scaling.Workload) (Target, bool) { return Target{}, false }
func (noWorkloads) TargetPods(*scaling.Workload) []Pod          { return nil }
func (noWorkloads) GPUPods() iter.Seq[Pod]                      { return slices.Values[[]Pod](nil) }
func (noWorkloads) AllPods() iter.Seq[Pod]                      { return slices.Values[[]Pod](nil) }

const spotPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: l40s-spot}
spec: {weight: 80, template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]}}}`

const claimS1 = `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: s1
  uid: uid-s1
  creationTimestamp: "2026-11-21T08:00:00Z"
  labels: {karpenter.sh/nodepool: l40s-spot, karpenter.sh/capacity-type: spot}
status: {nodeName: n1, providerID: x, conditions: [{type: Launched, status: "True"}, {type: Initialized, status: "True"}]}`

func decode(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// newCache returns a cache with the spot NodePool. hourly returns the price of an instance per hour.
func newCache(t *testing.T, hourly func(cost.Offer) float64) *Cache {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	var n *Cache
	n = New(Options{
		Workloads: noWorkloads{}, WorkloadsSynced: func() bool { return true }, Hourly: hourly, Claims: deviceclaims.New(func() {}), Log: log,
		Buffers: buffers.New(buffers.Options{Changed: func() { n.Changed() }, Log: log}),
	})
	n.PutNodePool(decode(t, spotPool))
	return n
}

func spotGroup(t *testing.T) *capacity.Group {
	t.Helper()
	pools := []capacity.Pool{{Name: "l40s-spot", Type: capacity.Spot}}
	g, err := capacity.NewGroup(capacity.Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: pools})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestOutcomesOfNodeClaims(t *testing.T) {
	n, now := newCache(t, nil), time.Now()
	made := func(name string, change func(f *karpenter.NodeClaim)) *karpenter.NodeClaim {
		f := &karpenter.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, NodePool: "l40s-spot",
			Created: now.Add(-time.Hour), Launched: true, Initialized: true}
		change(f)
		n.PutNodeClaim(f)
		return f
	}
	node := func(name string, ready bool, since time.Duration, notice bool) {
		n.PutNode(nil, &Node{ObjectMeta: metav1.ObjectMeta{Name: name}, ready: ready, readyChanged: now.Add(-since), interrupted: notice})
	}
	node("ready", true, time.Hour, false)
	node("silent", false, 3*time.Minute, false)
	node("repaired", false, 30*time.Minute, false)
	node("tainted", true, time.Hour, true)
	made("deleted by a user", func(f *karpenter.NodeClaim) { f.Deleted, f.Node = now, "ready" })
	node("ready", false, -time.Minute, false) // a node that is drained stops being Ready
	made("deleted by a user", func(f *karpenter.NodeClaim) { f.Deleted, f.Node = now, "ready" })
	node("ready", true, time.Hour, false)
	made("by node repair", func(f *karpenter.NodeClaim) { f.Deleted, f.Node = now, "repaired" })
	made("silent, then gone", func(f *karpenter.NodeClaim) { f.Deleted, f.Node = now, "silent" })
	made("tainted, then gone", func(f *karpenter.NodeClaim) { f.Deleted, f.Node = now, "tainted" })
	made("without its node", func(f *karpenter.NodeClaim) { f.Deleted, f.Node = now, "gone" })
	made("consolidated", func(f *karpenter.NodeClaim) { f.Deleted, f.Voluntary = now, true })
	made("expired", func(f *karpenter.NodeClaim) { f.Deleted, f.ExpireAfter = now, time.Hour })
	made("not initialized", func(f *karpenter.NodeClaim) { f.Deleted, f.Initialized = now, false })
	refused := made("refused-x", func(f *karpenter.NodeClaim) { f.Launched, f.Initialized = false, false })
	event := func(claim, uid, reason string) {
		e, err := karpenter.TrimClaimEvent(&corev1.Event{Reason: reason, EventTime: metav1.NewMicroTime(now),
			InvolvedObject: corev1.ObjectReference{Name: claim, UID: types.UID(uid)}})
		if err != nil {
			t.Fatal(err)
		}
		n.PutEvent(e.(*karpenter.ClaimEvent))
	}
	n.DeleteNodeClaim(refused)
	event("refused-x", string(refused.UID), karpenter.InsufficientCapacity)
	event("refused-x", string(refused.UID), karpenter.InsufficientCapacity) // a repeated Event counts once
	// the NodeClaim is not in the cache, so the NodePool is derived from its name
	event("l40s-spot-abcde", "an unread claim", karpenter.InsufficientCapacity)
	n.DeleteNodeClaim(made("broken", func(f *karpenter.NodeClaim) { f.Launched, f.Initialized = false, false }))
	made("interrupted", func(*karpenter.NodeClaim) {})
	event("interrupted", "uid-interrupted", "SpotInterrupted")
	made("interrupted, then deleted", func(f *karpenter.NodeClaim) { f.Node = "ready" })
	event("interrupted, then deleted", "uid-interrupted, then deleted", "SpotInterrupted")
	made("interrupted, then deleted", func(f *karpenter.NodeClaim) { f.Node, f.Deleted = "ready", now })
	// separate watches read NodeClaims and Events, so the deletion can be read before the Event about the interruption
	late := made("deleted, then interrupted", func(f *karpenter.NodeClaim) { f.Node, f.Deleted = "ready", now })
	n.DeleteNodeClaim(late)
	event("deleted, then interrupted", string(late.UID), "SpotInterrupted")
	made("consolidated and interrupted", func(f *karpenter.NodeClaim) { f.Deleted, f.Voluntary = now, true })
	event("consolidated and interrupted", "uid-consolidated and interrupted", "InstanceTerminating")

	o := capacity.Observation{}
	n.Observe(spotGroup(t), nil, &o)
	var failures, losses []string
	for _, f := range o.Pools[0].Failures {
		failures = append(failures, fmt.Sprintf("%s %t", f.UID, f.Capacity))
	}
	for _, l := range o.Pools[0].Losses {
		losses = append(losses, l.UID)
	}
	slices.Sort(failures)
	if want := []string{"an unread claim true", "uid-broken false", "uid-refused-x true"}; !slices.Equal(failures, want) {
		t.Errorf("failures %q, want %q", failures, want)
	}
	slices.Sort(losses)
	want := []string{"uid-deleted, then interrupted", "uid-interrupted, then deleted", "uid-silent, then gone", "uid-tainted, then gone",
		"uid-without its node"}
	if !slices.Equal(losses, want) {
		t.Errorf("losses %q, want %q", losses, want)
	}
	for _, node := range o.Pools[0].Nodes {
		if node.Notice != strings.Contains(node.UID, "interrupted") && node.UID != "uid-tainted, then gone" {
			t.Errorf("%s has notice: %t", node.UID, node.Notice)
		}
	}
	n.expire(now.Add(2 * time.Hour))
	if len(n.outcomes) != 0 || len(n.interrupted) != 0 || len(n.deleted) != 0 {
		t.Errorf("after two hours: %v, %v, %v", n.outcomes, n.interrupted, n.deleted)
	}
}

// A change of the price book causes no watch event, so Observe must update prices every minute.
func TestPricesAreReadAgainEveryMinute(t *testing.T) {
	price := 3.0
	n, now := newCache(t, func(cost.Offer) float64 { return price }), time.Now()
	n.PutNodeClaim(karpenter.DecodeNodeClaim(decode(t, claimS1)))
	g, o := spotGroup(t), capacity.Observation{}
	hourly := func() float64 {
		n.Observe(g, nil, &o)
		return o.Pools[0].Nodes[0].Hourly
	}
	n.expire(now)
	if got := hourly(); got != 3 {
		t.Errorf("$%g", got)
	}
	price = 7
	if n.expire(now.Add(30 * time.Second)); hourly() != 3 {
		t.Error("the price was read twice in a minute")
	}
	if n.expire(now.Add(61 * time.Second)); hourly() != 7 {
		t.Errorf("after a minute the price is still $%g", hourly())
	}
}

// The pods of a CapacityBuffer exist only in Karpenter's memory. Only Karpenter's Event about the NodeClaim shows that Karpenter keeps a
// node for such pods.
func TestNodeOfAnotherOwnersBufferIsReported(t *testing.T) {
	n, now, uid := newCache(t, nil), time.Now(), "uid-s1"
	n.PutNodeClaim(karpenter.DecodeNodeClaim(decode(t, claimS1)))
	send := func(message string, at time.Time) {
		kept, err := karpenter.TrimClaimEvent(&corev1.Event{
			Reason: "Unconsolidatable", Message: message, InvolvedObject: corev1.ObjectReference{Name: "s1", UID: types.UID(uid)},
			FirstTimestamp: metav1.NewTime(now.Add(-time.Hour)), LastTimestamp: metav1.NewTime(at),
		})
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := kept.(*karpenter.ClaimEvent); ok {
			n.PutEvent(e)
		}
	}
	chat := &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "chat"}, Group: "chat"}
	g := spotGroup(t)
	buffered := func() bool {
		o := capacity.Observation{Workloads: make([]capacity.Workload, 1)}
		n.Observe(g, []*scaling.Workload{chat}, &o)
		return o.Pools[0].Nodes[0].Buffered
	}
	theirs := strings.NewReplacer("gpuscaler-chat", "headroom", "managed-by: gpuscaler", "managed-by: Helm").Replace(fixture.ChatBuffer)
	theirs += "\nstatus: {replicas: 1}"
	send(`NodePool "l40s-spot" has consolidation disabled`, now)
	other := buffers.Decode(decode(t, theirs))
	n.options.Buffers.Put(other)
	if buffered() {
		t.Error("another reason counts as a buffer")
	}
	if send(`Node "n1" has buffer pods`, now); !buffered() {
		t.Error("the reason of a buffer is not reported")
	}
	n.options.Buffers.Delete(other)
	own := buffers.Decode(decode(t, fixture.ChatBuffer+"\nstatus: {replicas: 3}"))
	if n.options.Buffers.Put(own); buffered() {
		t.Error("a buffer of gpuscaler is reported as another owner's")
	}
	n.options.Buffers.Delete(own)
	n.options.Buffers.Put(other)
	if n.expire(now.Add(19 * time.Minute)); !buffered() {
		t.Error("removed before Karpenter could repeat the Event")
	}
	if n.expire(now.Add(21 * time.Minute)); buffered() {
		t.Error("not removed although Karpenter did not repeat the Event")
	}
}

func TestOwnBufferIsObservedAndOrphanedWithItsPolicy(t *testing.T) {
	n, g := newCache(t, nil), spotGroup(t)
	n.options.Buffers.Put(buffers.Decode(decode(t, fixture.ChatBuffer)))
	chat := scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "chat"}, Group: "chat"}
	o := capacity.Observation{Workloads: make([]capacity.Workload, 1)}
	n.Observe(g, []*scaling.Workload{&chat}, &o)
	if o.Workloads[0].Buffer != 3 || o.Buffers {
		t.Errorf("observation %+v", o)
	}
	groups := []*capacity.Group{g}
	if _, actions := n.Orphans(groups, []scaling.Workload{chat}); len(actions) != 0 {
		t.Errorf("with its policy: %v", actions)
	}
	if _, actions := n.Orphans(groups, nil); len(actions) != 1 {
		t.Errorf("without its policy: %v", actions)
	}
}

// The observation must contain a node that drifts, and a node that Karpenter has chosen for disruption.
func TestNodesThatKarpenterIsAboutToDisrupt(t *testing.T) {
	condition := func(text string) string {
		return strings.Replace(claimS1, `{type: Initialized, status: "True"}]`, `{type: Initialized, status: "True"}, `+text+`]`, 1)
	}
	tainted := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}}}
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"karpenter.sh/do-not-disrupt": "true"}}}
	for name, c := range map[string]struct {
		claim                         string
		node                          *corev1.Node
		drifted, disrupted, voluntary bool
	}{
		"it stays":                 {claimS1, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, false, false, false},
		"it drifted":               {condition(`{type: Drifted, status: "True"}`), nil, true, false, false},
		"it does not drift":        {condition(`{type: Drifted, status: "False"}`), nil, false, false, false},
		"Karpenter has chosen it":  {condition(`{type: DisruptionReason, status: "True"}`), nil, false, false, true},
		"Karpenter has tainted it": {claimS1, tainted, false, true, false},
		"it must not be disrupted": {condition(`{type: Drifted, status: "True"}`), kept, true, false, false},
	} {
		n := newCache(t, nil)
		n.PutNodeClaim(karpenter.DecodeNodeClaim(decode(t, c.claim)))
		if c.node != nil {
			node, err := TrimNode(c.node)
			if err != nil {
				t.Fatal(err)
			}
			n.PutNode(nil, node.(*Node))
		}
		var o capacity.Observation
		n.Observe(spotGroup(t), nil, &o)
		if got := o.Pools[0].Nodes[0]; got.Drifted != c.drifted || got.Disrupted != c.disrupted || got.Voluntary != c.voluntary ||
			got.DoNotDisrupt != (c.node == kept) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// While the condition of a phase is not True, the time of the phase must be zero. If a node has the name of a previous node, the deletion
// of the previous NodeClaim must not remove the start times of the new node. The start of a node without a NodeClaim is unknown.
func TestStartOfANodeIsThatOfItsNodeClaim(t *testing.T) {
	n := newCache(t, nil)
	claim := func(name, conditions string) *karpenter.NodeClaim {
		u := decode(t, claimS1)
		u.SetName(name)
		u.SetUID(types.UID("uid-" + name))
		if err := unstructured.SetNestedSlice(u.Object, decode(t, "conditions: ["+conditions+"]").Object["conditions"].([]any), "status",
			"conditions"); err != nil {
			t.Fatal(err)
		}
		return karpenter.DecodeNodeClaim(u)
	}
	launched := `{type: Launched, status: "True", lastTransitionTime: "2026-11-21T08:00:05Z"}`
	n.PutNodeClaim(claim("s1", launched+`, {type: Initialized, status: Unknown, lastTransitionTime: "2026-11-21T08:00:00Z"}`))
	if s := n.StartOf("n1"); s.Launched.Second() != 5 || !s.Registered.IsZero() || !s.Initialized.IsZero() {
		t.Errorf("a launched node: %+v", s)
	}
	n.PutNodeClaim(claim("s2", launched+`, {type: Initialized, status: "True", lastTransitionTime: "2026-11-21T08:00:50Z"}`))
	n.DeleteNodeClaim(claim("s1", launched))
	if s := n.StartOf("n1"); s.Initialized.Second() != 50 {
		t.Errorf("after the deletion of another NodeClaim: %+v", s)
	}
	n.DeleteNodeClaim(claim("s2", launched))
	if s := n.StartOf("n1"); s != (karpenter.StartTimes{}) {
		t.Errorf("without its NodeClaim: %+v", s)
	}
}
