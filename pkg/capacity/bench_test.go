package capacity

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// benchGroup returns a group with 60 spot nodes and 40 on-demand nodes of 8 GPUs, and 4 workloads with 200 replicas each.
func benchGroup(t testing.TB, name string) (*Group, Observation) {
	g, err := NewGroup(Group{Name: name, Resource: "nvidia.com/gpu", Pools: []Pool{{"spot", Spot}, {"on-demand", OnDemand}},
		ConsolidationFreeze: true, ZeroLimit: true, OnDemandBase: 320})
	if err != nil {
		t.Fatal(err)
	}
	field := func(v nodepool.Value) nodepool.FieldView { return nodepool.FieldView{Value: v, Owner: "kubectl"} }
	var o Observation
	for i := range g.Pools {
		v := PoolView{Exists: true, Ready: true, View: nodepool.View{
			Consent: nodepool.ConsentLimits | nodepool.ConsentWeight | nodepool.ConsentDisruption,
			Limits:  []nodepool.LimitView{{Resource: "nvidia.com/gpu", FieldView: field("640")}},
			Weight:  field("80"), ConsolidateAfter: field(`"10m"`), ConsolidationPolicy: field(`"WhenEmptyOrUnderutilized"`),
			Budgets: field(`[{"nodes":"10%"}]`)}}
		for j := range 60 - 20*i {
			v.Nodes = append(v.Nodes, Node{Name: fmt.Sprint(g.Pools[i].Name, j), UID: fmt.Sprint(j), Type: g.Pools[i].Type, Stage: Usable,
				Ready: true, GPUs: 8, Used: 8, Created: midnight})
			v.Usage += 8
		}
		o.Pools = append(o.Pools, v)
	}
	for i := range 4 {
		w := Workload{Key: fmt.Sprintf("team/%d", i), Uncapped: 200, Current: 200, GPUs: 1, Known: true}
		for j := range 200 {
			node := (i*200 + j) / 8
			p := Pod{UID: fmt.Sprint(i, j), Name: fmt.Sprint(i, j), Owner: OwnerReplicaSet, GPUs: 1, Node: node, Ready: true, Since: midnight}
			if node >= 60 {
				p.Pool, p.Node = 1, node-60
			}
			w.Pods = append(w.Pods, p)
		}
		o.Workloads = append(o.Workloads, w)
	}
	return g, o
}

// BenchmarkAHundredGroupsOfAHundredNodes measures a tick without changes on a platform with 10,000 GPU nodes. ns/op is the time for all
// groups together.
func BenchmarkAHundredGroupsOfAHundredNodes(b *testing.B) {
	const groups = 100
	states, decisions := make([]State, groups), make([]Decision, groups)
	var all [groups]*Group
	var o Observation
	for i := range all {
		all[i], o = benchGroup(b, fmt.Sprint("group-", i))
	}
	now := midnight
	settle(&states[0], all[0], &o, &decisions[0], &now)
	for i := range states {
		settle(&states[i], all[i], &o, &decisions[i], &now)
	}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		for i := range states {
			states[i].Decide(all[i], &o, now, &decisions[i])
		}
	}
	b.ReportMetric(float64(unsafe.Sizeof(State{})), "state-bytes")
}

// settle runs 200 ticks and applies their patches, so that all overrides of the group are written before the measurement.
func settle(s *State, g *Group, o *Observation, d *Decision, now *time.Time) {
	for range 200 {
		*now = now.Add(time.Second)
		s.Decide(g, o, *now, d)
		for _, a := range d.Actions {
			p, ok := a.(NodePoolPatch)
			if !ok {
				continue
			}
			for i := range g.Pools {
				if g.Pools[i].Name == p.Pool {
					applyTo(&o.Pools[i], &p)
				}
			}
		}
	}
}

func applyTo(v *PoolView, p *NodePoolPatch) {
	v.Record = p.Record
	for _, c := range p.Changes {
		f := nodepool.FieldView{Value: c.To, Ours: !c.Restore}
		if c.Restore {
			f.Owner = c.Owner
		}
		switch c.Field {
		case nodepool.FieldWeight:
			v.Weight = f
		case nodepool.FieldBudgets:
			v.Budgets = f
		case nodepool.FieldLimit:
			v.Limits[0].FieldView = f
		}
	}
}

func TestQuietTickAllocatesNothing(t *testing.T) {
	g, o := benchGroup(t, "group")
	var s State
	var d Decision
	now := midnight
	settle(&s, g, &o, &d, &now)
	if len(d.Actions) != 0 || o.Pools[1].Record == "" {
		t.Fatalf("the last tick still has actions: %+v, record %q", d.Actions, o.Pools[1].Record)
	}
	if n := testing.AllocsPerRun(500, func() {
		now = now.Add(time.Second)
		s.Decide(g, &o, now, &d)
	}); n != 0 {
		t.Errorf("%v allocations in a tick of a group with an on-demand base", n)
	}
}
