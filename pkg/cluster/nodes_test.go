package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// grounds is a cluster with NodePools l40s-spot and l40s-od, as files show it.
func grounds(t *testing.T, more ...string) *Cluster {
	t.Helper()
	var objects []*unstructured.Unstructured
	demand := strings.NewReplacer("l40s-spot", "l40s-od", "[spot]", "[on-demand]", "weight: 80", "weight: 20").Replace(spotPool)
	for _, text := range append([]string{spotPool, demand}, more...) {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		objects = append(objects, u)
	}
	c, err := Offline(objects, Options{Groups: noGroups{}, Hourly: func(o cost.Offer) float64 {
		return map[string]float64{"g6e.xlarge spot": 0.8, "g6e.xlarge on-demand": 1.9}[o.InstanceType+" "+o.CapacityType]
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func spotAndOnDemand(t *testing.T) *capacity.Group {
	t.Helper()
	g, err := capacity.NewGroup(capacity.Group{Name: "chat", Resource: "nvidia.com/gpu",
		Pools: []capacity.Pool{{Name: "l40s-spot", Type: capacity.Spot}, {Name: "l40s-od", Type: capacity.OnDemand}}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func claim(name, pool, kind, node string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: %[1]s, uid: uid-%[1]s, creationTimestamp: "2026-11-21T08:00:00Z", labels: {karpenter.sh/nodepool: %[2]s, karpenter.sh/capacity-type: %[3]s, node.kubernetes.io/instance-type: g6e.xlarge}}
spec: {expireAfter: 720h, resources: {requests: {nvidia.com/gpu: "1"}}}
status: {nodeName: %[4]s, providerID: x, conditions: [{type: Launched, status: "True"}, {type: Initialized, status: "True"}]}`, name, pool, kind, node)
}

func readyNode(name string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {allocatable: {nvidia.com/gpu: "1"}, conditions: [{type: Ready, status: "True"}]}}`, name)
}

func gpuPodOn(name, node, more string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: team, name: %[1]s, uid: uid-%[1]s, creationTimestamp: "2026-11-21T08:01:00Z", labels: {app: %[3]s}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: rs, uid: u1, controller: true}]}
spec: {nodeName: %[2]q, tolerations: [{operator: Exists}], containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: "1"}}}]}
status: {conditions: [{type: Ready, status: "True"}]}`, name, node, more)
}

const chatDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: team, name: chat}
spec: {replicas: 2, selector: {matchLabels: {app: chat}}, template: {metadata: {labels: {app: chat}}, spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}
status: {conditions: [{type: ReplicaFailure, status: "True", message: "pods \"x\" is forbidden: exceeded quota: gpus"}]}`

func TestAGroupIsSeenWithItsNodesItsPodsAndEverybodyElses(t *testing.T) {
	c := grounds(t, chatDeployment,
		claim("s1", "l40s-spot", "spot", "n1"), readyNode("n1"), claim("o1", "l40s-od", "on-demand", "n2"), readyNode("n2"), claim("o2", "l40s-od", "on-demand", "n3"), readyNode("n3"),
		gpuPodOn("chat-1", "n1", "chat"), gpuPodOn("chat-2", "", "chat"), gpuPodOn("job", "n2", "train"), gpuPodOn("elsewhere", "n9", "train"), gpuPodOn("waits", "", "train"),
		`{apiVersion: v1, kind: Pod, metadata: {namespace: team, name: cpu, annotations: {karpenter.sh/do-not-disrupt: "true"}}, spec: {nodeName: n3, containers: [{name: c, image: i}]}}`,
	)
	chat := &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "chat"}, Group: "chat"}
	o := capacity.Observation{Workloads: make([]capacity.Workload, 1)}
	c.nodes.Observe(spotAndOnDemand(t), []*scaling.Workload{chat}, &o)
	if o.Lost || len(o.Pools) != 2 || len(o.Pools[0].Nodes) != 1 || len(o.Pools[1].Nodes) != 2 {
		t.Fatalf("observation %+v", o)
	}
	if n := o.Pools[0].Nodes[0]; n.Name != "n1" || n.Type != capacity.Spot || n.Stage != capacity.Usable || !n.Ready || n.GPUs != 1 || n.Used != 1 || n.Hourly != 0.8 {
		t.Errorf("spot node %+v", n)
	}
	if n := o.Pools[1].Nodes[1]; n.Used != 0 || n.BlockingPods != 1 || n.DoNotDisruptPods != 1 || n.Hourly != 1.9 {
		t.Errorf("a node that a CPU pod keeps: %+v", n)
	}
	w := o.Workloads[0]
	if w.Current != 2 || w.GPUs != 1 || !w.Quota || len(w.Pods) != 2 || w.Pods[0].Pool != 0 || !w.Pods[1].Pending || w.Pods[0].Owner != capacity.OwnerReplicaSet {
		t.Errorf("workload %+v", w)
	}
	var others []string
	for _, p := range o.UnmanagedPods {
		others = append(others, fmt.Sprintf("%s %d %t", p.Name, p.Pool, p.Pending))
	}
	if want := []string{"job 1 false", "waits -1 true"}; !slices.Equal(others, want) {
		t.Errorf("other pods %q, want %q", others, want)
	}
}

func TestAQuietTickLooksAtNothingAnew(t *testing.T) {
	c := grounds(t, claim("s1", "l40s-spot", "spot", "n1"), readyNode("n1"))
	g, o := spotAndOnDemand(t), capacity.Observation{}
	c.nodes.Observe(g, nil, &o)
	if n := testing.AllocsPerRun(100, func() { c.nodes.Observe(g, nil, &o); c.nodes.Orphans([]*capacity.Group{g}, nil) }); n > 8 {
		t.Errorf("%v allocations", n)
	}
	before := &o.Pools[0]
	c.nodes.putNode(nil, &nodeFacts{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	c.nodes.Observe(g, nil, &o)
	if &o.Pools[0] == before || o.Pools[0].Nodes[0].Ready {
		t.Error("a node that is no longer Ready is not seen")
	}
}

func TestWhatBecameOfNodeClaims(t *testing.T) {
	c := grounds(t)
	n, now := c.nodes, time.Now()
	made := func(name string, change func(f *claimFacts)) *claimFacts {
		f := &claimFacts{name: name, uid: "uid-" + name, pool: "l40s-spot", created: now.Add(-time.Hour), launched: true, initialized: true}
		change(f)
		n.putClaim(f)
		return f
	}
	node := func(name string, ready bool, since time.Duration, notice bool) {
		n.putNode(nil, &nodeFacts{ObjectMeta: metav1.ObjectMeta{Name: name}, ready: ready, changed: now.Add(-since), notice: notice})
	}
	node("ready", true, time.Hour, false)
	node("silent", false, 3*time.Minute, false)
	node("repaired", false, 30*time.Minute, false)
	node("tainted", true, time.Hour, true)
	made("by kubectl", func(f *claimFacts) { f.deleted, f.node = now, "ready" })
	node("ready", false, -time.Minute, false) // drained
	made("by kubectl", func(f *claimFacts) { f.deleted, f.node = now, "ready" })
	node("ready", true, time.Hour, false)
	made("by node repair", func(f *claimFacts) { f.deleted, f.node = now, "repaired" })
	made("silent, then gone", func(f *claimFacts) { f.deleted, f.node = now, "silent" })
	made("tainted, then gone", func(f *claimFacts) { f.deleted, f.node = now, "tainted" })
	made("without its node", func(f *claimFacts) { f.deleted, f.node = now, "gone" })
	made("consolidated", func(f *claimFacts) { f.deleted, f.voluntary = now, true })
	made("aged", func(f *claimFacts) { f.deleted, f.expireAfter = now, time.Hour })
	made("never up", func(f *claimFacts) { f.deleted, f.initialized = now, false })
	refused := made("refused-x", func(f *claimFacts) { f.launched, f.initialized = false, false })
	event := func(claim, uid, reason string) {
		n.putEvent(claimEventOf(&corev1.Event{Reason: reason, InvolvedObject: corev1.ObjectReference{Name: claim, UID: types.UID(uid)}, EventTime: metav1.NewMicroTime(now)}))
	}
	n.dropClaim(refused)
	event("refused-x", refused.uid, insufficientCapacity)
	event("refused-x", refused.uid, insufficientCapacity)              // said twice, counted once
	event("l40s-spot-abcde", "before we looked", insufficientCapacity) // known by its name alone
	n.dropClaim(made("broken", func(f *claimFacts) { f.launched, f.initialized = false, false }))
	made("noticed", func(*claimFacts) {})
	event("noticed", "uid-noticed", "SpotInterrupted")
	made("noticed, then deleted", func(f *claimFacts) { f.node = "ready" })
	event("noticed, then deleted", "uid-noticed, then deleted", "SpotInterrupted")
	made("noticed, then deleted", func(f *claimFacts) { f.node, f.deleted = "ready", now })
	late := made("deleted, then noticed", func(f *claimFacts) { f.node, f.deleted = "ready", now }) // the two watches are not ordered
	n.dropClaim(late)
	event("deleted, then noticed", late.uid, "SpotInterrupted")
	made("consolidated and noticed", func(f *claimFacts) { f.deleted, f.voluntary = now, true })
	event("consolidated and noticed", "uid-consolidated and noticed", "InstanceTerminating")

	o := capacity.Observation{}
	n.Observe(spotAndOnDemand(t), nil, &o)
	var failures, losses []string
	for _, f := range o.Pools[0].Failures {
		failures = append(failures, fmt.Sprintf("%s %t", f.UID, f.Capacity))
	}
	for _, l := range o.Pools[0].Losses {
		losses = append(losses, l.UID)
	}
	slices.Sort(failures)
	if want := []string{"before we looked true", "uid-broken false", "uid-refused-x true"}; !slices.Equal(failures, want) {
		t.Errorf("failures %q, want %q", failures, want)
	}
	slices.Sort(losses)
	if want := []string{"uid-deleted, then noticed", "uid-noticed, then deleted", "uid-silent, then gone", "uid-tainted, then gone", "uid-without its node"}; !slices.Equal(losses, want) {
		t.Errorf("losses %q, want %q", losses, want)
	}
	for _, node := range o.Pools[0].Nodes {
		if node.Notice != strings.Contains(node.UID, "noticed") && node.UID != "uid-tainted, then gone" {
			t.Errorf("%s has notice: %t", node.UID, node.Notice)
		}
	}
	n.forget(now.Add(2 * time.Hour))
	if len(n.fates) != 0 || len(n.noticed) != 0 || len(n.ended) != 0 {
		t.Errorf("after two hours: %v, %v, %v", n.fates, n.noticed, n.ended)
	}
}

// A price book that is changed on a quiet night is not noticed by any watch.
func TestPricesAreAskedForAgainWhereNothingElseChanges(t *testing.T) {
	c := grounds(t, claim("s1", "l40s-spot", "spot", "n1"), readyNode("n1"))
	price := 3.0
	c.options.Hourly = func(cost.Offer) float64 { return price }
	n, now := c.nodes, time.Now()
	g, o := spotAndOnDemand(t), capacity.Observation{}
	hourly := func() float64 {
		n.Observe(g, nil, &o)
		return o.Pools[0].Nodes[0].Hourly
	}
	n.forget(now)
	if got := hourly(); got != 3 {
		t.Errorf("$%g", got)
	}
	price = 7
	if n.forget(now.Add(30 * time.Second)); hourly() != 3 {
		t.Error("asked for twice in a minute")
	}
	if n.forget(now.Add(61 * time.Second)); hourly() != 7 {
		t.Errorf("after a minute it is still $%g", hourly())
	}
}

// Karpenter keeps a buffer's pods in its memory; its Event on the NodeClaim is what shows them.
func TestANodeThatABufferKeepsIsTold(t *testing.T) {
	c := grounds(t, claim("s1", "l40s-spot", "spot", "n1"), readyNode("n1"))
	n, now, uid := c.nodes, time.Now(), ""
	for _, f := range n.claims {
		uid = f.uid
	}
	say := func(message string, at time.Time) {
		kept, err := trimClaimEvent(&corev1.Event{
			Reason: "Unconsolidatable", Message: message, InvolvedObject: corev1.ObjectReference{Name: "s1", UID: types.UID(uid)},
			FirstTimestamp: metav1.NewTime(now.Add(-time.Hour)), LastTimestamp: metav1.NewTime(at),
		})
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := kept.(*claimEvent); ok {
			n.putEvent(e)
		}
	}
	buffered := func() bool {
		o := capacity.Observation{}
		n.Observe(spotAndOnDemand(t), nil, &o)
		return o.Pools[0].Nodes[0].Buffered
	}
	theirs := strings.NewReplacer("gpuscaler-chat", "headroom", "managed-by: gpuscaler", "managed-by: Helm").Replace(chatBuffer) + "\nstatus: {replicas: 1}"
	say(`NodePool "l40s-spot" has consolidation disabled`, now)
	f := seenBuffer(t, n, theirs)
	if buffered() {
		t.Error("another reason is taken for a buffer")
	}
	if say(`Node "n1" has buffer pods`, now); !buffered() {
		t.Error("a buffer's reason is not seen")
	}
	n.change(func() { delete(n.buffers, f.key()) })
	if seenBuffer(t, n, chatBuffer+"\nstatus: {replicas: 3}"); buffered() {
		t.Error("a buffer of ours is told as somebody's that blocks")
	}
	n.change(func() { n.buffers[f.key()] = f })
	if n.forget(now.Add(19 * time.Minute)); !buffered() {
		t.Error("forgotten before Karpenter could say it again")
	}
	if n.forget(now.Add(21 * time.Minute)); buffered() {
		t.Error("not forgotten where it was not said again")
	}
}

func TestWhatNoGroupNamesIsAStray(t *testing.T) {
	left := strings.Replace(strings.Replace(spotPool, "l40s-spot", "left", 1), "karpenter.sh/nodepool-hash: \"1\"", `gpuscaler.io/record: "{}"`, 1)
	marked := strings.Replace(gpuPodOn("marked", "n1", "x"), "labels: {app: x}", `annotations: {controller.kubernetes.io/pod-deletion-cost: "-5"}, managedFields: [{manager: gpuscaler-cost, operation: Apply}]`, 1)
	c := grounds(t, left, marked)
	strays, marks := c.nodes.Orphans([]*capacity.Group{spotAndOnDemand(t)}, nil)
	if len(strays) != 1 || strays[0].Pool != "left" || strays[0].Record != "{}" {
		t.Errorf("strays %+v", strays)
	}
	if len(marks) != 1 || strings.TrimSpace(marks[0].Text()) != "team/marked controller.kubernetes.io/pod-deletion-cost: (absent)  (release)" {
		t.Errorf("marks %v", marks)
	}
}

// Three thousand requests in one tick would keep a patch that lifts a limit waiting.
func TestStrayMarksGoAFewAtATimeAndAllOfThem(t *testing.T) {
	marked := func(i int) string {
		return strings.Replace(gpuPodOn(fmt.Sprintf("marked-%d", i), "n1", "x"), "labels: {app: x}", `annotations: {controller.kubernetes.io/pod-deletion-cost: "-5", karpenter.sh/do-not-disrupt: "true"}, managedFields: [{manager: gpuscaler-cost, operation: Apply}, {manager: gpuscaler-shield, operation: Apply}]`, 1)
	}
	var pods []string
	for i := range 40 {
		pods = append(pods, marked(i))
	}
	c, g := grounds(t, pods...), []*capacity.Group{spotAndOnDemand(t)}
	ticks, left := 0, map[string]bool{}
	for i := range 40 {
		left[fmt.Sprintf("marked-%d", i)] = true
	}
	for ; ticks < 20 && len(left) > 0; ticks++ {
		_, marks := c.nodes.Orphans(g, nil)
		if len(marks) == 0 || len(marks) > strayMarksAtOnce {
			t.Fatalf("%d marks in tick %d with %d pods left", len(marks), ticks, len(left))
		}
		for _, m := range marks {
			name := m.(capacity.PodAnnotation).Name
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(gpuPodOn(name, "n1", "x")), &u.Object); err != nil {
				t.Fatal(err)
			}
			if err := c.show(u); err != nil {
				t.Fatal(err)
			}
			delete(left, name)
		}
	}
	if _, marks := c.nodes.Orphans(g, nil); len(left) > 0 || len(marks) > 0 {
		t.Errorf("%d pods are marked after %d ticks", len(left), ticks)
	}

	// Where nothing changes meanwhile (the API server is slow) the rest goes on all the same.
	c = grounds(t, pods...)
	for tick := range 3 {
		if _, marks := c.nodes.Orphans(g, nil); len(marks) == 0 {
			t.Errorf("tick %d of a quiet cluster clears nothing of 80 marks", tick)
		}
	}
}

func TestOfANodeClaimOnlyIsKeptWhatIsRead(t *testing.T) {
	c, whole := grounds(t), &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(claim("s1", "l40s-spot", "spot", "n1")), &whole.Object); err != nil {
		t.Fatal(err)
	}
	want := claimOf(whole)
	kept, err := c.nodes.claim.trim(whole)
	if err != nil {
		t.Fatal(err)
	}
	if _, all := kept.(*unstructured.Unstructured); all {
		t.Error("all 24 KB of a NodeClaim are kept")
	}
	if name, err := cache.MetaNamespaceKeyFunc(kept); err != nil || name != "s1" {
		t.Errorf("the informer's store finds it as %q, %v", name, err)
	}
	c.nodes.claim.on.OnAdd(kept, false)
	if got := c.nodes.claims["s1"]; !reflect.DeepEqual(got, want) || got.pool != "l40s-spot" || got.expireAfter == 0 || !got.initialized {
		t.Errorf("%+v, want %+v", got, want)
	}
	c.nodes.claim.on.OnDelete(cache.DeletedFinalStateUnknown{Key: "s1", Obj: kept})
	if len(c.nodes.claims) != 0 {
		t.Errorf("gone, and still there: %v", c.nodes.claims)
	}
}

func TestTheSchemaSaysWhichFieldsThereAre(t *testing.T) {
	text := `{"components":{"schemas":{"sh.karpenter.v1.NodeClaim":{"properties":{"spec":{"properties":{"weight":{}}}}},
	  "sh.karpenter.v1.NodePool":{"properties":{"spec":{"properties":{"limits":{},"disruption":{"allOf":[{"properties":{"budgets":{},"consolidationPolicy":{"enum":["WhenEmpty","Balanced"]}}}]}}}}}}}}`
	s, err := parseNodeSchema([]byte(text))
	if want := (nodeSchema{known: true, limits: true, budgets: true, consolidationPolicy: true, shields: true}); err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	for _, broken := range []string{``, `{`, `{"components":{}}`} {
		if _, err := parseNodeSchema([]byte(broken)); err == nil {
			t.Errorf("%q is a schema", broken)
		}
	}
}
