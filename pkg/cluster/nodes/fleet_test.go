package nodes

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// groupList is a fixed list of capacity groups.
type groupList []*capacity.Group

func (g groupList) Groups() []*capacity.Group { return g }

// fleetGroup returns a group that selects the nodes with the given labels.
func fleetGroup(t *testing.T, name string, labels map[string]string) *capacity.Group {
	t.Helper()
	g, err := capacity.NewGroup(capacity.Group{Name: name, Resource: "nvidia.com/gpu", NodeSelector: labels})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// gpuNode returns a Ready Node with the given labels and GPUs, after it has applied the functions changes to the Node.
func gpuNode(name string, gpus int64, labels map[string]string, changes ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels,
		CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if gpus > 0 {
		node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	for _, change := range changes {
		change(node)
	}
	return node
}

// putNode stores a Node in the cache, as the informer does.
func putNode(t *testing.T, n *Cache, node *corev1.Node) {
	t.Helper()
	trimmed, err := TrimNode(node)
	if err != nil {
		t.Fatal(err)
	}
	n.PutNode(n.nodes[node.Name], trimmed.(*Node))
}

// gpuPod is a pod that requests one GPU.
type gpuPod struct {
	metav1.ObjectMeta
	node  string
	facts gpupods.Facts
}

func (p *gpuPod) NodeName() string         { return p.node }
func (p *gpuPod) Ended() bool              { return false }
func (p *gpuPod) Ready() bool              { return p.node != "" }
func (p *gpuPod) Loading() bool            { return false }
func (p *gpuPod) Daemon() bool             { return false }
func (p *gpuPod) BlocksDisruption() bool   { return false }
func (p *gpuPod) ReplicaSize(string) int32 { return 0 }
func (p *gpuPod) GPU() *gpupods.Facts      { return &p.facts }

// somePods is a cache of workloads that contains pods but no scale targets.
type somePods struct {
	noWorkloads
	changes uint64 // number of changes of the pods
	pods    []Pod
}

func (w somePods) Version() uint64        { return noWorkloads{}.Version() + w.changes + 1 }
func (w somePods) GPUPods() iter.Seq[Pod] { return slices.Values(w.pods) }
func (w somePods) AllPods() iter.Seq[Pod] { return slices.Values(w.pods) }

// After each change of pods, all groups must observe the current pods, sorted by name.
func TestGroupsObserveEachChangeOfPods(t *testing.T) {
	n := newCache(t, nil)
	n.SetNodesRead()
	groups := groupList{fleetGroup(t, "east", map[string]string{"zone": "east"}), fleetGroup(t, "west", map[string]string{"zone": "west"})}
	n.options.Groups = groups
	pod := func(name, zone string) Pod {
		return &gpuPod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "train", UID: types.UID(name)}, node: zone,
			facts: gpupods.Facts{Extended: []gpupods.Amount{{Resource: "nvidia.com/gpu", Count: 1}}}}
	}
	for _, zone := range []string{"east", "west"} {
		putNode(t, n, gpuNode(zone, 8, map[string]string{"zone": zone}))
	}
	for change, c := range []struct {
		pods []Pod
		want [2]string // names of the pods of each group
	}{
		{nil, [2]string{"[]", "[]"}},
		{[]Pod{pod("b", "east"), pod("c", "west"), pod("a", "east")}, [2]string{"[a b]", "[c]"}},
		{[]Pod{pod("c", "west"), pod("b", "west")}, [2]string{"[]", "[b c]"}},
	} {
		n.options.Workloads = somePods{changes: uint64(change), pods: c.pods}
		for i, g := range groups {
			var o capacity.Observation
			n.Observe(g, nil, &o)
			names := []string{}
			for _, p := range o.UnmanagedPods {
				names = append(names, p.Name)
			}
			if got := fmt.Sprint(names); got != c.want[i] {
				t.Errorf("change %d: group %s has the pods %s, want %s", change, g.Name, got, c.want[i])
			}
		}
	}
}

// The nodes of a group have the labels that the group selects, are not launched by Karpenter, and belong to no earlier group. A cordoned
// node is not ready. A new node without GPUs is starting. A node with other GPUs has none of the group's resource.
func TestNodesOfAGroupAreFoundByTheirLabels(t *testing.T) {
	n := newCache(t, nil)
	l40s := map[string]string{"accelerator": "l40s"}
	east := map[string]string{"accelerator": "l40s", "zone": "east"}
	first, group := fleetGroup(t, "east", map[string]string{"zone": "east"}), fleetGroup(t, "chat", l40s)
	n.options.Groups = groupList{first, group}
	var o capacity.Observation
	if n.Observe(group, nil, &o); o.Pools[0].Exists || !o.Lost {
		t.Errorf("before the Nodes were read: %+v, lost %v", o.Pools[0], o.Lost)
	}
	n.SetNodesRead()
	if n.Observe(group, nil, &o); !o.Pools[0].Exists || len(o.Pools[0].Nodes) != 0 || o.Lost {
		t.Errorf("without a node: %+v, lost %v", o.Pools[0], o.Lost)
	}
	putNode(t, n, gpuNode("busy", 8, l40s))
	putNode(t, n, gpuNode("cordoned", 8, l40s, func(node *corev1.Node) { node.Spec.Unschedulable = true }))
	putNode(t, n, gpuNode("new", 0, l40s))
	putNode(t, n, gpuNode("other-gpus", 0, l40s, func(node *corev1.Node) {
		node.Status.Allocatable = corev1.ResourceList{"amd.com/gpu": resource.MustParse("4")}
	}))
	putNode(t, n, gpuNode("not-ready", 8, l40s, func(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionFalse }))
	putNode(t, n, gpuNode("of-the-first-group", 8, east))
	putNode(t, n, gpuNode("of-karpenter", 8, map[string]string{"accelerator": "l40s", "karpenter.sh/nodepool": "l40s-spot"}))
	putNode(t, n, gpuNode("cpu", 0, map[string]string{"accelerator": "none"}))
	n.options.Workloads = somePods{pods: []Pod{&gpuPod{ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: "train", UID: "1"}, node: "busy",
		facts: gpupods.Facts{Extended: []gpupods.Amount{{Resource: "nvidia.com/gpu", Count: 3}}}}}}
	n.Observe(group, nil, &o)
	v := o.Pools[0]
	type fact struct {
		name       string
		stage      capacity.Stage
		ready      bool
		gpus, used int64
	}
	var got []fact
	for _, node := range v.Nodes {
		got = append(got, fact{node.Name, node.Stage, node.Ready, node.GPUs, node.Used})
	}
	want := []fact{{"busy", capacity.Usable, true, 8, 3}, {"cordoned", capacity.Usable, false, 8, 0}, {"new", capacity.Launched, true, 0, 0},
		{"not-ready", capacity.Usable, false, 8, 0}, {"other-gpus", capacity.Usable, true, 0, 0}}
	if !slices.Equal(got, want) || v.Elsewhere != 2 {
		t.Errorf("nodes %+v, %d elsewhere, want %+v and 2", got, v.Elsewhere, want)
	}
	if len(o.UnmanagedPods) != 1 || o.UnmanagedPods[0].GPUs != 3 {
		t.Errorf("unmanaged pods %+v", o.UnmanagedPods)
	}
	if base := n.PatchBase(group, group.Pools[0].Name); base != nil {
		t.Errorf("a patch of %v", base)
	}
}

// A pending pod counts for the group only if it could run on the nodes of the group, according to the labels and taints that all these
// nodes have.
func TestPendingPodCountsIfTheNodesOfTheGroupCouldRunIt(t *testing.T) {
	labels := map[string]string{"accelerator": "l40s"}
	tainted := func(node *corev1.Node) {
		node.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule},
			{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	}
	tolerates := []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
	for name, c := range map[string]struct {
		facts gpupods.Facts
		want  int
	}{
		"tolerates the taint":        {gpupods.Facts{Tolerations: tolerates}, 1},
		"does not tolerate it":       {gpupods.Facts{}, 0},
		"selects the nodes":          {gpupods.Facts{Tolerations: tolerates, NodeSelector: labels}, 1},
		"selects other nodes":        {gpupods.Facts{Tolerations: tolerates, NodeSelector: map[string]string{"accelerator": "h100"}}, 0},
		"selects a NodePool":         {gpupods.Facts{Tolerations: tolerates, NodeSelector: map[string]string{"karpenter.sh/nodepool": "x"}}, 0},
		"selects one of their zones": {gpupods.Facts{Tolerations: tolerates, NodeSelector: map[string]string{"zone": "b"}}, 1},
		"selects another zone":       {gpupods.Facts{Tolerations: tolerates, NodeSelector: map[string]string{"zone": "c"}}, 0},
	} {
		n := newCache(t, nil)
		n.SetNodesRead()
		group := fleetGroup(t, "chat", labels)
		n.options.Groups = groupList{group}
		putNode(t, n, gpuNode("a", 8, map[string]string{"accelerator": "l40s", "zone": "a"}, tainted))
		putNode(t, n, gpuNode("b", 8, map[string]string{"accelerator": "l40s", "zone": "b"}, tainted))
		c.facts.Extended = []gpupods.Amount{{Resource: "nvidia.com/gpu", Count: 1}}
		n.options.Workloads = somePods{pods: []Pod{&gpuPod{ObjectMeta: metav1.ObjectMeta{Name: "job", UID: "1"}, facts: c.facts}}}
		var o capacity.Observation
		if n.Observe(group, nil, &o); len(o.UnmanagedPods) != c.want {
			t.Errorf("%s: %d pods count, want %d", name, len(o.UnmanagedPods), c.want)
		}
	}
}
