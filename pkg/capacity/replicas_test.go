package capacity

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// grouped is a group with one workload whose replicas have two pods each, as in a LeaderWorkerSet. Each pod has one GPU and its own node.
type grouped struct {
	g *Group
	o Observation
}

func newGrouped(t *testing.T, kind CapacityType) *grouped {
	g, err := NewGroup(Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []Pool{{"pool", kind}}})
	if err != nil {
		t.Fatal(err)
	}
	v := PoolView{Exists: true, Ready: true, View: nodepool.View{Consent: nodepool.ConsentLimits,
		Limits: []nodepool.LimitView{{Resource: "nvidia.com/gpu", FieldView: nodepool.FieldView{Value: `"8"`, Owner: "kubectl"}}}}}
	w := Workload{Key: "team-chat/big", GPUs: 2, Size: 2, PodGPUs: 1, Known: true}
	return &grouped{g, Observation{Pools: []PoolView{v}, Workloads: []Workload{w}}}
}

// add adds a replica with two pods. The first onNodes pods are ready on a node, and the others are pending.
func (x *grouped) add(onNodes int) {
	v, w := &x.o.Pools[0], &x.o.Workloads[0]
	for i := range 2 {
		id := fmt.Sprintf("%d-%d", len(w.Pods)/2, i)
		p := Pod{UID: id, Name: id, Replica: fmt.Sprint(len(w.Pods) / 2), Owner: OwnerLeaderWorkerSet, GPUs: 1, Pool: -1, Node: -1,
			Pending: true, Since: midnight}
		if i < onNodes {
			p.Pool, p.Node, p.Pending, p.Ready = 0, len(v.Nodes), false, true
			v.Nodes = append(v.Nodes, Node{Name: "n" + id, UID: id, Type: x.g.Pools[0].Type, Stage: Usable, Ready: true, GPUs: 1, Used: 1,
				Created: midnight.Add(-time.Hour)})
		}
		w.Pods = append(w.Pods, p)
	}
	w.Current++
	w.Uncapped = w.Current
}

// decide simulates the duration d and returns the last decision.
func (x *grouped) decide(d time.Duration) (out Decision) {
	var s State
	for now := midnight; !now.After(midnight.Add(d)); now = now.Add(time.Second) {
		s.Decide(x.g, &x.o, now, &out)
	}
	return out
}

func TestTargetCapCountsReplicasNotPods(t *testing.T) {
	x := newGrouped(t, OnDemand)
	for range 4 {
		x.add(2)
	}
	x.add(0)
	x.add(0)
	if d := x.decide(2 * time.Minute); d.Advice[0].Cap != 5 {
		t.Errorf("4 groups of 2 pods run, 2 wait, and the pool is at its limit: cap %d, want 5", d.Advice[0].Cap)
	}
	x = newGrouped(t, OnDemand)
	for range 3 {
		x.add(2)
	}
	x.add(1)
	x.o.Pools[0].Limits[0].Value = `"7"`
	if d := x.decide(2 * time.Minute); d.Advice[0].Cap != 4 {
		t.Errorf("3 groups run, and one has a node for one of its pods: cap %d, want 4", d.Advice[0].Cap)
	}
	x.o.Workloads[0].Quota = true
	if d := x.decide(2 * time.Minute); d.Advice[0].Cap != 5 {
		t.Errorf("a quota, and 4 groups exist: cap %d, want 5", d.Advice[0].Cap)
	}
}

func TestMultiPodReplicaAtRiskAddsOneSuccessor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(x *grouped)
		want   int32
	}{
		"both of its nodes go":              {func(x *grouped) { x.o.Pools[0].Nodes[0].Notice, x.o.Pools[0].Nodes[1].Notice = true, true }, 1},
		"one of its nodes has a notice":     {func(x *grouped) { x.o.Pools[0].Nodes[1].Notice = true }, 1},
		"nodes of two replicas with notice": {func(x *grouped) { x.o.Pools[0].Nodes[1].Notice, x.o.Pools[0].Nodes[2].Notice = true, true }, 2},
		"its other pod is not ready":        {func(x *grouped) { x.o.Pools[0].Nodes[0].Notice, x.o.Workloads[0].Pods[1].Ready = true, false }, 0},
		"its other pod does not exist": {func(x *grouped) {
			x.o.Pools[0].Nodes[7].Notice = true
			x.o.Workloads[0].Pods = append(x.o.Workloads[0].Pods[:6:6], x.o.Workloads[0].Pods[7])
		}, 0},
		"no node has a notice":                  {func(*grouped) {}, 0},
		"two nodes were lost in five minutes":   {func(x *grouped) { x.lose(2) }, 2}, // each node may have a pod of a different replica
		"three nodes were lost in five minutes": {func(x *grouped) { x.lose(3) }, 2}, // at most half of the needed replicas
	} {
		x := newGrouped(t, Spot)
		for range 4 {
			x.add(2)
		}
		c.change(x)
		if d := x.decide(time.Second); d.Advice[0].AtRisk != c.want {
			t.Errorf("%s: %d successors, want %d", name, d.Advice[0].AtRisk, c.want)
		}
	}
}

func (x *grouped) lose(nodes int) {
	for i := range nodes {
		x.o.Pools[0].Losses = append(x.o.Pools[0].Losses, evidence.Loss{UID: fmt.Sprint("lost", i), At: midnight.Add(-time.Minute)})
	}
}

// The freeze of empty nodes for known demand ends when as many complete replicas are ready as the demand needs. A replica that has only one
// of its two pods is not complete.
func TestKnownDemandArrivesWithCompleteReplicas(t *testing.T) {
	for ready, want := range map[int]bool{4: false, 5: false, 6: true} {
		x := newGrouped(t, OnDemand)
		x.g.ConsolidationFreeze = true
		for range 3 {
			x.add(2)
		}
		for i := ready; i < 6; i++ {
			x.o.Workloads[0].Pods[i].Ready = false
		}
		var s State
		tk := tick{}
		tk.begin(x.g, &x.o, &s, midnight, &Decision{})
		if got := tk.arrived(&Span{GPUs: 6, Workload: "team-chat/big", Replicas: 3}); got != want {
			t.Errorf("%d of 6 pods are ready: arrived %v, want %v", ready, got, want)
		}
	}
}

// A node needs space for one pod of a replica, not for all pods of the replica. With a limit of 16 GPUs, pods of 8 GPUs still get nodes,
// so the target must not be capped.
func TestNodeSizeIsThatOfPodsNotReplicas(t *testing.T) {
	x := newGrouped(t, OnDemand)
	x.o.Workloads[0].GPUs, x.o.Workloads[0].Size, x.o.Workloads[0].PodGPUs = 32, 4, 8
	x.o.Pools[0].Limits[0].Value = `"16"`
	x.o.Workloads[0].Uncapped = 1
	for i := range 4 {
		x.o.Workloads[0].Pods = append(x.o.Workloads[0].Pods, Pod{UID: fmt.Sprint(i), Replica: "0", GPUs: 8, Pool: -1, Node: -1, Pending: true})
	}
	if d := x.decide(2 * time.Minute); d.Advice[0].Cap != -1 {
		t.Errorf("a limit of 16 has room for two of four pods of 8 GPUs: cap %d, want none", d.Advice[0].Cap)
	}
}

// A rollout changes the number of pods of a replica from two to three, or from three to two. Replicas of both sizes must count as complete.
func TestReplicasOfARolloutHaveTheirOwnSizes(t *testing.T) {
	for _, kind := range []CapacityType{OnDemand, Spot} {
		x := newGrouped(t, kind)
		for range 2 {
			x.add(2)
		}
		w, v := &x.o.Workloads[0], &x.o.Pools[0]
		w.Size, w.GPUs = 3, 3 // the size of the larger replica
		for i := range w.Pods {
			w.Pods[i].Size = 2
		}
		third := Pod{UID: "new", Replica: "new", Size: 3, GPUs: 1, Pool: -1, Node: -1, Pending: true, Since: midnight}
		w.Pods = append(w.Pods, third) // the first pod of a new replica, which is therefore not complete
		if n := w.placed(); n != 2 {
			t.Errorf("%v: %d replicas are placed; want the two old replicas", kind, n)
		}
		x.decide(time.Second)
		v.Nodes[0].Notice = kind == Spot
		want := int32(0)
		if v.Nodes[0].Notice {
			want = 1
		}
		if got := x.decide(time.Second).Advice[0].AtRisk; got != want {
			t.Errorf("%v: %d replicas at risk, want %d", kind, got, want)
		}
	}
}
