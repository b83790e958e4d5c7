package capacity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// staticPool returns the view of a static NodePool with the given spec.replicas and nodes of one GPU. The parameter used is the number of
// nodes, from the first, that have a pod of the group.
func staticPool(replicas int64, used int) PoolView {
	v := PoolView{Exists: true, Ready: true, Replicas: &replicas, View: nodepool.View{Weight: nodepool.FieldView{Unsupported: true}}}
	for i := range replicas {
		name := fmt.Sprint("node-", i)
		n := Node{Name: name, UID: name, Type: OnDemand, Stage: Usable, Ready: true, GPUs: 1, Created: midnight, Hourly: 2}
		if int(i) < used {
			n.Used = 1
		}
		v.Nodes = append(v.Nodes, n)
	}
	return v
}

// replicasOn returns a workload with running pods on the first nodes of the first NodePool, and pods without a node.
func replicasOn(running, waiting int) Workload {
	n := int32(running + waiting)
	w := Workload{Key: "team/a", Uncapped: n, Current: n, GPUs: 1, Known: true}
	for i := range running + waiting {
		p := Pod{UID: fmt.Sprint("pod-", i), Name: fmt.Sprint("pod-", i), Namespace: "team", Owner: OwnerReplicaSet, GPUs: 1, Since: midnight,
			Pool: -1, Pending: true}
		if i < running {
			p.Pool, p.Node, p.Pending, p.Ready = 0, i, false, true
		}
		w.Pods = append(w.Pods, p)
	}
	return w
}

// Karpenter launches no node of a static NodePool beyond spec.replicas. Three of five replicas run on its three nodes: the target is
// capped at four, and the finding has the number of nodes that all five replicas need. After the owner has set this number, the missing
// nodes count as room, and the cap ends.
func TestStaticNodePoolIsFullAtItsReplicas(t *testing.T) {
	g, err := NewGroup(Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []Pool{{"prepaid", OnDemand}}})
	if err != nil {
		t.Fatal(err)
	}
	o := Observation{Pools: []PoolView{staticPool(3, 3)}, Workloads: []Workload{replicasOn(3, 2)}}
	var s State
	var d Decision
	now := midnight
	for range 600 {
		now = now.Add(time.Second)
		d, s = Decide(g, o, s, now)
	}
	if d.Advice[0].Cap != 4 || len(d.Closed) != 1 || d.Closed[0].Limited != explain.StaticReplicas || d.Closed[0].Limit != 3 {
		t.Errorf("cap %d, closed %+v; want a cap of 4 by spec.replicas 3", d.Advice[0].Cap, d.Closed)
	}
	if text, want := findingText(g, d, explain.FindStaticShort), "kubectl scale nodepool prepaid --replicas=5"; !strings.Contains(text, want) {
		t.Errorf("finding %q, want %q", text, want)
	}
	five := int64(5)
	o.Pools[0].Replicas = &five
	for range 600 {
		now = now.Add(time.Second)
		d, s = Decide(g, o, s, now)
	}
	if text := findingText(g, d, explain.FindStaticShort); d.Advice[0].Cap >= 0 || text != "" {
		t.Errorf("two nodes are about to be launched: cap %d, finding %q", d.Advice[0].Cap, text)
	}
}

// The owner of a static NodePool pays for four nodes, and one is in use. The finding has the price of the other three nodes. There must
// be no finding if the nodes are reserved, a pod waits, or demand is unknown.
func TestIdleNodesOfAStaticNodePoolAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		kind   CapacityType
		change func(*Observation)
		want   string
	}{
		"three idle nodes": {OnDemand, func(*Observation) {}, "nvidia.com/gpu, $6.00/h: " +
			"to remove these nodes, run kubectl scale nodepool fixed --replicas=1"},
		"reserved":       {Reserved, func(*Observation) {}, ""},
		"all are in use": {OnDemand, func(o *Observation) { o.Pools[0] = staticPool(4, 4) }, ""},
		"a pod waits":    {OnDemand, func(o *Observation) { o.Workloads[0] = replicasOn(1, 1) }, ""},
		"unknown demand": {OnDemand, func(o *Observation) { o.Workloads[0].Known = false }, ""},
		"not static":     {OnDemand, func(o *Observation) { o.Pools[0].Replicas = nil }, ""},
		"a blocking pod": {OnDemand, func(o *Observation) { o.Pools[0].Nodes[3].BlockingPods = 1 }, "--replicas=2"},
	} {
		g, err := NewGroup(Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []Pool{{"fixed", c.kind}}})
		if err != nil {
			t.Fatal(err)
		}
		o := Observation{Pools: []PoolView{staticPool(4, 1)}, Workloads: []Workload{replicasOn(1, 0)}}
		c.change(&o)
		d, _ := Decide(g, o, State{}, midnight)
		if text := findingText(g, d, explain.FindStaticIdle); (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// findingText returns the text of the first finding of a kind, or "" if the decision has no such finding.
func findingText(g *Group, d Decision, kind explain.FindingKind) string {
	for _, f := range d.Findings {
		if f.Kind == kind {
			return f.Text(g.Names())
		}
	}
	return ""
}
