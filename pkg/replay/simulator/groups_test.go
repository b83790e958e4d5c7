package simulator

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// grouped returns the configuration of a chat service with two NodePools, spot and on-demand, and a capacity group that prefers spot.
func grouped(t *testing.T, change func(*capacity.Group)) Config {
	t.Helper()
	g := capacity.Group{Name: "chat", Resource: "nvidia.com/gpu", ReturnNodesPerHour: 30,
		Pools: []capacity.Pool{{Name: "spot", Type: capacity.Spot}, {Name: "on-demand", Type: capacity.OnDemand}}}
	if change != nil {
		change(&g)
	}
	group, err := capacity.NewGroup(g)
	if err != nil {
		t.Fatal(err)
	}
	p := chat("chat", func(p *scaling.Policy) {
		p.Schedules = []scaling.Schedule{{Min: 4, Max: -1}}
		p.Schedules[0].Window.Name, p.Schedules[0].Window.From, p.Schedules[0].Window.To = "day", begin, begin.Add(100*time.Hour)
	})
	p.Workload.Group = "chat"
	spot, od := nodePool("spot", karpenter.Spot, 1, 0.78, 80), nodePool("on-demand", karpenter.OnDemand, 1, 1.861, 20)
	spot.ConsolidateAfter, od.ConsolidateAfter = time.Minute, time.Minute
	spot.OnlyWhenEmpty, od.OnlyWhenEmpty = true, true
	spot.Budgets, od.Budgets = []karpenter.Budget{{Percent: 100}}, []karpenter.Budget{{Percent: 100}}
	return Config{Start: begin, Seed: 1, Assumptions: exact(), Groups: []*capacity.Group{group}, NodePools: []karpenter.NodePool{spot, od},
		Workloads: []Workload{{Policy: p, Traffic: generate(t, "flat", 8*time.Hour, func(p *trace.Profile) { p.Rate = 1 }),
			Service: Chat8B, Initial: 4}}}
}

var begin = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

func (w *Simulator) nodesOf(name string) int { return w.nodes.Pool(name).Usable() }

// fieldsOf returns the fields of a NodePool that a group may override. A key contains the names of the NodePool and of the field.
func (w *Simulator) fieldsOf(name string) map[string]nodepool.FieldView {
	v := w.nodes.Pool(name).View(capacity.Spot)
	out := map[string]nodepool.FieldView{name + " weight": v.Weight, name + " consolidateAfter": v.ConsolidateAfter,
		name + " consolidationPolicy": v.ConsolidationPolicy, name + " budgets": v.Budgets}
	for _, l := range v.Limits {
		out[name+" limit"] = l.FieldView
	}
	return out
}

// Spot has no capacity during the second hour. Without a capacity group, Karpenter falls back to on-demand nodes, and the replicas stay
// there. A capacity group must move them back to spot one replica at a time, each after its replacement is Ready, and must then restore the
// fields of the NodePools.
func TestReturnToSpotKeepsReadyReplicas(t *testing.T) {
	market := &spotmarket.Trace{Duration: 100 * time.Hour, Initial: 10, Events: []spotmarket.Event{{At: time.Hour, Lost: 10},
		{At: 2 * time.Hour, Added: 10}}}
	play := func(withGroup bool) (r *Result, onDemand, least int, fields map[string]nodepool.FieldView) {
		c := grouped(t, nil)
		c.NodePools[0].Market = market
		if !withGroup {
			c.Groups = nil
		}
		least = 99
		r = watch(t, c, 8*time.Hour, func(w *Simulator, s int) {
			if s > 2*3600 {
				least = min(least, int(w.loads[0].ready))
			}
			if s == 8*3600 {
				onDemand = w.nodesOf("on-demand")
				if withGroup {
					fields = w.fieldsOf("spot")
					maps.Copy(fields, w.fieldsOf("on-demand"))
				}
			}
		})
		return r, onDemand, least, fields
	}
	alone, stays, _, _ := play(false)
	with, left, least, fields := play(true)
	if stays != 4 {
		t.Errorf("without the group %d on-demand nodes remain, so the test shows nothing", stays)
	}
	if left != 0 {
		t.Errorf("%d on-demand nodes remain six hours after spot is available", left)
	}
	if least < 4 {
		t.Errorf("during the return only %d replicas were ready, want 4", least)
	}
	if with.Cost >= alone.Cost {
		t.Errorf("the cost is $%.2f, without the group $%.2f", with.Cost, alone.Cost)
	}
	for name, f := range fields {
		if f.Ours || f.Value != "" && f.Owner != "kubectl" {
			t.Errorf("%s is still overridden: %+v", name, f)
		}
	}
	t.Logf("8 hours, one without spot: $%.2f with the group, $%.2f without", with.Cost, alone.Cost)
}

// A group has spot NodePools in two zones with their own markets. Zone a, which Karpenter prefers, has no capacity during the second hour:
// the replicas move to zone b, and none runs on demand. In the fourth hour neither zone has capacity: the replicas run on demand. Then only
// zone b has capacity again, and all replicas must return to zone b.
func TestGroupWithSpotInTwoZones(t *testing.T) {
	c := grouped(t, func(g *capacity.Group) {
		g.Pools = []capacity.Pool{{Name: "spot-a", Type: capacity.Spot}, {Name: "spot-b", Type: capacity.Spot},
			{Name: "on-demand", Type: capacity.OnDemand}}
	})
	a, b := c.NodePools[0], c.NodePools[0]
	a.Name, b.Name, a.Weight, b.Weight = "spot-a", "spot-b", 90, 80
	a.Market = &spotmarket.Trace{Duration: 100 * time.Hour, Initial: 10, Events: []spotmarket.Event{{At: time.Hour, Lost: 10},
		{At: 2 * time.Hour, Added: 10}, {At: 3 * time.Hour, Lost: 10}}}
	b.Market = &spotmarket.Trace{Duration: 100 * time.Hour, Initial: 30, Events: []spotmarket.Event{{At: 3 * time.Hour, Lost: 30},
		{At: 4 * time.Hour, Added: 30}}}
	c.NodePools = []karpenter.NodePool{a, b, c.NodePools[1]}
	most := 0 // greatest number of on-demand nodes at a time at which one of the zones has capacity
	watch(t, c, 8*time.Hour, func(w *Simulator, s int) {
		onDemand := w.nodesOf("on-demand")
		switch {
		case s < 3*3600:
			most = max(most, onDemand)
		case s == 4*3600:
			if onDemand < 4 {
				t.Errorf("%d on-demand nodes, want 4: neither zone has capacity", onDemand)
			}
		case s == 8*3600:
			if spot := w.nodesOf("spot-b"); spot < 4 || onDemand != 0 {
				t.Errorf("%d nodes in zone b and %d on demand, want all replicas in zone b", spot, onDemand)
			}
			for name, f := range w.fieldsOf("on-demand") {
				if f.Ours {
					t.Errorf("%s is still overridden: %+v", name, f)
				}
			}
		}
	})
	if most > 0 {
		t.Errorf("%d on-demand nodes although a zone had capacity", most)
	}
}

func TestPodDeletionCostDecidesTheOrder(t *testing.T) {
	c := grouped(t, nil)
	watch(t, c, 10*time.Minute, func(w *Simulator, s int) {
		l := w.loads[0]
		if s != 300 {
			return
		}
		oldest := l.replicas[0]
		groups{w}.Act(nil, []capacity.Action{capacity.PodAnnotation{UID: oldest.uid(), Kind: capacity.DeletionCost, Value: "-100"},
			capacity.PodAnnotation{UID: "99-1", Value: "x"}})
		if l.victim() != oldest {
			t.Error("the replica with the lowest deletion cost is not removed first")
		}
		groups{w}.Act(nil, []capacity.Action{capacity.PodAnnotation{UID: oldest.uid(), Kind: capacity.DeletionCost}})
		if l.victim() == oldest {
			t.Error("without deletion costs, the newest replica is not removed first")
		}
	})
}

func TestGroupRequiresItsNodePools(t *testing.T) {
	c := grouped(t, func(g *capacity.Group) { g.Pools[0].Name = "nowhere" })
	if _, err := New(c); err == nil {
		t.Error("a group with an unknown NodePool is accepted")
	}
}

// This test simulates one day. At night there are no nodes, and the limits of both NodePools are zero. The spot nodes are ready before the
// schedule window opens. When the spot nodes are lost, on-demand nodes replace them. When spot capacity is available again, the replicas
// return to spot. In the evening, all nodes are removed again.
func TestDayFromZeroToZero(t *testing.T) {
	c := grouped(t, func(g *capacity.Group) { g.ZeroLimit, g.ConsolidationFreeze = true, true })
	c.NodePools[0].Market = &spotmarket.Trace{Duration: 100 * time.Hour, Initial: 10, Events: []spotmarket.Event{
		{At: 10 * time.Hour, Lost: 10},
		{At: 12 * time.Hour, Added: 10}}}
	p := c.Workloads[0].Policy.Workload.Policy
	office := &p.Schedules[0]
	office.Window.From, office.Window.To, office.Min, office.Lead = begin.Add(8*time.Hour), begin.Add(18*time.Hour), 3, 8*time.Minute
	c.Workloads[0].Initial = 0
	c.Workloads[0].Traffic = generate(t, "flat", 24*time.Hour, func(p *trace.Profile) {
		p.Rate = 1
		p.Idle = []trace.Hours{{From: 18 * time.Hour, To: 8 * time.Hour}}
	})
	limit := func(w *Simulator, pool string) string {
		return strings.Trim(string(w.fieldsOf(pool)[pool+" limit"].Value), `"`)
	}
	r := watch(t, c, 24*time.Hour, func(w *Simulator, s int) {
		l, spot, od := w.loads[0], w.nodesOf("spot"), w.nodesOf("on-demand")
		switch s {
		case 5 * 3600:
			if spot+od != 0 || limit(w, "spot") != "0" || limit(w, "on-demand") != "0" {
				t.Errorf("at night there are %d and %d nodes, limits %q and %q", spot, od, limit(w, "spot"), limit(w, "on-demand"))
			}
		case 8 * 3600:
			if l.ready < 3 || spot < 3 || od != 0 || limit(w, "spot") == "0" {
				t.Errorf("when the window opens %d replicas are ready on %d spot and %d on-demand nodes; the limit of spot is %q",
					l.ready, spot, od, limit(w, "spot"))
			}
		case 11 * 3600:
			if l.ready < 3 || spot != 0 || od < 3 {
				t.Errorf("an hour after spot was lost %d replicas are ready on %d spot and %d on-demand nodes", l.ready, spot, od)
			}
		case 17 * 3600:
			if l.ready < 3 || spot < 3 || od != 0 {
				t.Errorf("five hours after spot is available %d replicas are ready on %d spot and %d on-demand nodes", l.ready, spot, od)
			}
		case 23 * 3600:
			if spot+od != 0 || limit(w, "spot") != "0" {
				t.Errorf("in the evening there are %d and %d nodes; the limit of spot is %q", spot, od, limit(w, "spot"))
			}
		}
		if s > 12*3600 && s < 18*3600 && l.ready < 3 {
			t.Fatalf("%d s: during the return only %d replicas are ready", s, l.ready)
		}
	})
	if l := r.Loads[0]; l.Served != l.Arrived || l.Arrived < 30_000 {
		t.Errorf("%d of %d served", l.Served, l.Arrived)
	}
}
