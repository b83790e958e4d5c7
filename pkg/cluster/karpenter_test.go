package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

type noGroups struct{}

func (noGroups) Groups() []*capacity.Group { return nil }

// clusterWithPools returns a cluster with the NodePools l40s-spot and l40s-od and the objects of the manifests in more.
func clusterWithPools(t *testing.T, more ...string) *Cluster {
	t.Helper()
	var objects []*unstructured.Unstructured
	demand := strings.NewReplacer("l40s-spot", "l40s-od", "[spot]", "[on-demand]", "weight: 80", "weight: 20").Replace(fixture.SpotNodePool)
	for _, text := range append([]string{fixture.SpotNodePool, demand}, more...) {
		objects = append(objects, object(t, text))
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

// claim returns a NodeClaim whose node is initialized.
func claim(name, pool, capacityType, node string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: %[1]s
  uid: uid-%[1]s
  creationTimestamp: "2026-11-21T08:00:00Z"
  labels: {karpenter.sh/nodepool: %[2]s, karpenter.sh/capacity-type: %[3]s, node.kubernetes.io/instance-type: g6e.xlarge}
spec: {expireAfter: 720h, resources: {requests: {nvidia.com/gpu: "1"}}}
status:
  nodeName: %[4]s
  providerID: x
  conditions: [{type: Launched, status: "True"}, {type: Initialized, status: "True"}]`, name, pool, capacityType, node)
}

func readyNode(name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: %s}
status: {allocatable: {nvidia.com/gpu: "1"}, conditions: [{type: Ready, status: "True"}]}`, name)
}

// gpuPodOn returns a ready pod of a ReplicaSet that requests one GPU. If node is empty, the pod is pending.
func gpuPodOn(name, node, app string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  namespace: team
  name: %[1]s
  uid: uid-%[1]s
  creationTimestamp: "2026-11-21T08:01:00Z"
  labels: {app: %[3]s}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: rs, uid: u1, controller: true}]
spec:
  nodeName: %[2]q
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: "1"}}}]
status: {conditions: [{type: Ready, status: "True"}]}`, name, node, app)
}

// annotatedPod returns a pod that belongs to no capacity group, with annotations that gpuscaler has not removed yet.
func annotatedPod(name, annotations, managers string) string {
	return strings.Replace(gpuPodOn(name, "n1", "x"), "labels: {app: x}", "annotations: "+annotations+"\n  managedFields: "+managers, 1)
}

const chatDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: team, name: chat}
spec:
  replicas: 2
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: "1"}}}]}
status: {conditions: [{type: ReplicaFailure, status: "True", message: "pods \"x\" is forbidden: exceeded quota: gpus"}]}`

func TestObservationHasNodesPodsOfPoliciesAndOtherPods(t *testing.T) {
	c := clusterWithPools(t, chatDeployment,
		claim("s1", "l40s-spot", "spot", "n1"), readyNode("n1"),
		claim("o1", "l40s-od", "on-demand", "n2"), readyNode("n2"),
		claim("o2", "l40s-od", "on-demand", "n3"), readyNode("n3"),
		gpuPodOn("chat-1", "n1", "chat"), gpuPodOn("chat-2", "", "chat"),
		gpuPodOn("job", "n2", "train"), gpuPodOn("on-another-node", "n9", "train"), gpuPodOn("pending", "", "train"),
		`{apiVersion: v1, kind: Pod, metadata: {namespace: team, name: cpu, annotations: {karpenter.sh/do-not-disrupt: "true"}},
			spec: {nodeName: n3, containers: [{name: c, image: i}]}}`,
	)
	chat := &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "chat"}, Group: "chat"}
	o := capacity.Observation{Workloads: make([]capacity.Workload, 1)}
	c.nodes.Observe(spotAndOnDemand(t), []*scaling.Workload{chat}, &o)
	if o.Lost || len(o.Pools) != 2 || len(o.Pools[0].Nodes) != 1 || len(o.Pools[1].Nodes) != 2 {
		t.Fatalf("observation %+v", o)
	}
	n := o.Pools[0].Nodes[0]
	if n.Name != "n1" || n.Type != capacity.Spot || n.Stage != capacity.Usable || !n.Ready || n.GPUs != 1 || n.Used != 1 || n.Hourly != 0.8 {
		t.Errorf("spot node %+v", n)
	}
	if n := o.Pools[1].Nodes[1]; n.Used != 0 || n.BlockingPods != 1 || n.DoNotDisruptPods != 1 || n.Hourly != 1.9 {
		t.Errorf("a node with a CPU pod: %+v", n)
	}
	w := o.Workloads[0]
	if w.Current != 2 || w.GPUs != 1 || !w.Quota || len(w.Pods) != 2 {
		t.Fatalf("workload %+v", w)
	}
	if w.Pods[0].Pool != 0 || !w.Pods[1].Pending || w.Pods[0].Owner != capacity.OwnerReplicaSet {
		t.Errorf("workload %+v", w)
	}
	var others []string
	for _, p := range o.UnmanagedPods {
		others = append(others, fmt.Sprintf("%s %d %t", p.Name, p.Pool, p.Pending))
	}
	if want := []string{"job 1 false", "pending -1 true"}; !slices.Equal(others, want) {
		t.Errorf("other pods %q, want %q", others, want)
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return u
}

func TestObserveWithoutAChangeDoesNotAllocate(t *testing.T) {
	c := clusterWithPools(t, claim("s1", "l40s-spot", "spot", "n1"), readyNode("n1"))
	g, o := spotAndOnDemand(t), capacity.Observation{}
	c.nodes.Observe(g, nil, &o)
	if n := testing.AllocsPerRun(100, func() { c.nodes.Observe(g, nil, &o); c.nodes.Orphans([]*capacity.Group{g}, nil) }); n > 8 {
		t.Errorf("%v allocations", n)
	}
	before := &o.Pools[0]
	if err := c.show(object(t, strings.Replace(readyNode("n1"), "True", "False", 1))); err != nil {
		t.Fatal(err)
	}
	c.nodes.Observe(g, nil, &o)
	if &o.Pools[0] == before || o.Pools[0].Nodes[0].Ready {
		t.Error("the observation still has the node as Ready")
	}
}

func TestNodePoolsAndPodsWithoutAGroupAreOrphaned(t *testing.T) {
	orphan := strings.NewReplacer("l40s-spot", "left", `karpenter.sh/nodepool-hash: "1"`,
		`gpuscaler.io/record: "{}"`).Replace(fixture.SpotNodePool)
	pod := annotatedPod("p", `{controller.kubernetes.io/pod-deletion-cost: "-5"}`, "[{manager: gpuscaler-cost, operation: Apply}]")
	c := clusterWithPools(t, orphan, pod)
	orphans, actions := c.nodes.Orphans([]*capacity.Group{spotAndOnDemand(t)}, nil)
	if len(orphans) != 1 || orphans[0].Pool != "left" || orphans[0].Record != "{}" {
		t.Errorf("orphans %+v", orphans)
	}
	const want = "team/p: annotation controller.kubernetes.io/pod-deletion-cost removed  (restore)"
	if len(actions) != 1 || strings.TrimSpace(actions[0].Text()) != want {
		t.Errorf("actions %v", actions)
	}
}

// gpuscaler removes its annotations from pods that no longer belong to a group. If one tick removed the annotations of thousands of pods,
// a patch that raises a NodePool limit would have to wait for all these requests.
func TestOrphanedAnnotationsAreRemovedInBatches(t *testing.T) {
	var pods []string
	left := map[string]bool{}
	for i := range 40 {
		name := fmt.Sprintf("pod-%d", i)
		pods = append(pods, annotatedPod(name, `{controller.kubernetes.io/pod-deletion-cost: "-5", karpenter.sh/do-not-disrupt: "true"}`,
			"[{manager: gpuscaler-cost, operation: Apply}, {manager: gpuscaler-shield, operation: Apply}]"))
		left[name] = true
	}
	c, g, ticks := clusterWithPools(t, pods...), []*capacity.Group{spotAndOnDemand(t)}, 0
	for ; ticks < 20 && len(left) > 0; ticks++ {
		_, actions := c.nodes.Orphans(g, nil)
		if len(actions) == 0 || len(actions) > 16 {
			t.Fatalf("%d actions in tick %d with %d pods left", len(actions), ticks, len(left))
		}
		for _, a := range actions {
			name := a.(capacity.PodAnnotation).Name
			if err := c.show(object(t, gpuPodOn(name, "n1", "x"))); err != nil {
				t.Fatal(err)
			}
			delete(left, name)
		}
	}
	if _, actions := c.nodes.Orphans(g, nil); len(left) > 0 || len(actions) > 0 {
		t.Errorf("%d pods have annotations after %d ticks", len(left), ticks)
	}

	// The API server is slow, and no object changes between the ticks. The next ticks must still return actions for the remaining annotations.
	c = clusterWithPools(t, pods...)
	for tick := range 3 {
		if _, actions := c.nodes.Orphans(g, nil); len(actions) == 0 {
			t.Errorf("tick %d without a change removes none of 80 annotations", tick)
		}
	}
}

// A pod that only one of several spot NodePools accepts can still move to spot, so it must not count as pinned to on-demand.
func TestPodThatMayUseOneOfSeveralSpotNodePoolsIsNotPinned(t *testing.T) {
	other := strings.NewReplacer("name: l40s-spot", "name: l40s-spot-b", "{pool: l40s", "{pool: h100").Replace(fixture.SpotNodePool)
	for selector, pinned := range map[string]bool{"l40s": false, "h100": false, "b200": true} {
		pod := strings.Replace(gpuPodOn("p", "n1", "chat"), "spec:\n", "spec:\n  nodeSelector: {pool: "+selector+"}\n", 1)
		c := clusterWithPools(t, other, claim("s1", "l40s-spot", "spot", "n1"), readyNode("n1"), pod)
		g, err := capacity.NewGroup(capacity.Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []capacity.Pool{
			{Name: "l40s-spot", Type: capacity.Spot}, {Name: "l40s-spot-b", Type: capacity.Spot}, {Name: "l40s-od", Type: capacity.OnDemand},
		}})
		if err != nil {
			t.Fatal(err)
		}
		o := capacity.Observation{}
		if c.nodes.Observe(g, nil, &o); len(o.UnmanagedPods) != 1 || o.UnmanagedPods[0].Pinned != pinned {
			t.Errorf("a pod that selects pool %s: %+v, want pinned %v", selector, o.UnmanagedPods, pinned)
		}
	}
}

func TestPodThatMayNotUseSpotIsPinned(t *testing.T) {
	for label, want := range map[string]struct{ pinned, unknown bool }{
		"pool": {false, false}, "eks.amazonaws.com/compute-type": {true, true}, "team": {true, false},
	} {
		pod := strings.Replace(gpuPodOn("p", "n1", "chat"), "spec:\n", "spec:\n  nodeSelector: {"+label+": l40s}\n", 1)
		c := clusterWithPools(t, claim("s1", "l40s-spot", "spot", "n1"), readyNode("n1"), pod)
		o := capacity.Observation{}
		c.nodes.Observe(spotAndOnDemand(t), nil, &o)
		if len(o.UnmanagedPods) != 1 || o.UnmanagedPods[0].Pinned != want.pinned || o.UnmanagedPods[0].UnknownLabels != want.unknown {
			t.Errorf("a pod with the node selector %s: %+v, want %+v", label, o.UnmanagedPods, want)
		}
	}
}
