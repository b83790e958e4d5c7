package capacity

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// An on-demand NodePool that also allows reserved capacity (In [reserved, on-demand]) is the on-demand NodePool of the group. Replicas on
// its reserved nodes do not move to spot, because the reservation is paid for in any case.
func TestReservedReplicasDoNotReturn(t *testing.T) {
	for name, kind := range map[string]CapacityType{"nodePools: {spot, on-demand}": OnDemand, "nodePools: {spot, reserved}": Reserved} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, func(g *Group) { g.Pools[1].Type, g.ReturnNodesPerHour = kind, 30 })
			c.pools[1].Type, c.pools[1].reserved = OnDemand, 2
			c.pools[1].fields["disruption.consolidationPolicy"] = nodepool.FieldView{Value: `"WhenEmpty"`, Owner: "kubectl"}
			chat := c.add("team-chat/llama", 1)
			chat.want = 4
			c.pools[0].denied = true
			c.until(15*time.Minute, "four replicas are ready on demand", c.whole(chat))
			if !c.whole(chat)() || c.d.Phase != statemachine.Fallback {
				t.Fatalf("phase %v: the group has no spot and on-demand side\n%s", c.d.Phase, c.why())
			}
			c.pools[0].denied = false
			c.until(3*time.Hour, "only the two nodes of the reservation are left", func() bool {
				return c.nodes(1) == 2 && c.pools[1].nodes[0].reserved && c.pools[1].nodes[1].reserved && chat.ready() == 4
			})
			c.until(10*time.Minute, "the group is at rest", c.in(statemachine.PreferSpot))
			if surges, nodes, frozen := c.play(3 * time.Hour); surges > 0 || nodes != 4 || frozen > 60 {
				t.Errorf("%d surges, %d nodes at most, consolidation is frozen for %d s\n%s", surges, nodes, frozen, c.why())
			}
		})
	}
}

// newSix returns a cluster with a reserved NodePool (0), three spot NodePools (1 to 3) and two on-demand NodePools (4 and 5). Karpenter
// uses them in this order. The reservation has two nodes, and no NodePool replaces nodes with pods by itself.
func newSix(t failer) *cluster {
	c := newCluster(t, func(g *Group) {
		g.ReturnNodesPerHour, g.ZeroLimit = 60, true
		g.Pools = []Pool{{"reserved", Reserved}, {"spot-a", Spot}, {"spot-b", Spot}, {"spot-c", Spot}, {"ondemand-a", OnDemand},
			{"ondemand-b", OnDemand}}
	})
	for i, weight := range []nodepool.Value{"81", "80", "70", "60", "20", "10"} {
		c.pools[i].fields["weight"] = nodepool.FieldView{Value: weight, Owner: "argocd"}
		c.pools[i].fields["disruption.consolidationPolicy"] = nodepool.FieldView{Value: `"WhenEmpty"`, Owner: "argocd"}
	}
	c.pools[0].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "2", Owner: "argocd"}
	return c
}

func (c *cluster) denySpot(denied bool) {
	for _, p := range c.pools[1:4] {
		p.denied = denied
	}
}

// In a fallback, on-demand gets a higher weight than spot. Karpenter must still use the reservation first, because it is paid for in any
// case.
func TestReservedCapacityStaysFirstInAFallback(t *testing.T) {
	c := newSix(t)
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	c.denySpot(true)
	chat.want = 2
	c.until(15*time.Minute, "two replicas are ready on reserved capacity", c.whole(chat))
	chat.want = 4
	c.until(15*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.until(15*time.Minute, "four replicas are ready", c.whole(chat))
	if c.nodes(0) != 2 || c.nodes(4)+c.nodes(5) != 2 {
		t.Errorf("%d reserved nodes, %d on demand\n%s", c.nodes(0), c.nodes(4)+c.nodes(5), c.why())
	}
	// The owner buys another reserved instance.
	c.pools[0].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "3", Owner: "argocd"}
	chat.want = 5
	c.until(15*time.Minute, "five replicas are ready", c.whole(chat))
	if c.nodes(0) != 3 || c.d.Phase != statemachine.Fallback {
		t.Errorf("%d reserved nodes in phase %v, want 3: on-demand is used before the reservation\n%s", c.nodes(0), c.d.Phase, c.why())
	}
	chat.want = 0
	c.until(time.Hour, "all nodes are removed, and the limits are 0", func() bool {
		return c.nodes(0)+c.nodes(4)+c.nodes(5) == 0 && c.limit(0) == 0 && c.limit(5) == 0
	})
	c.releasing = true
	c.run(time.Minute)
	c.pools[0].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "2", Owner: "argocd"}
	c.untouched(before)
}

// While a group returns to spot, the reservation has free instances again. Karpenter uses it for the successors before spot. Such a
// successor counts as moved: gpuscaler must delete the on-demand replica that it replaces, and must not start the same batch again.
func TestSuccessorsOnReservedCapacityEndTheirBatch(t *testing.T) {
	c := newSix(t)
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	jobs := c.add("team-train/jobs", 1)
	jobs.want = 2
	c.until(15*time.Minute, "two Jobs run on reserved capacity", func() bool { return c.whole(jobs)() && c.nodes(0) == 2 })
	c.denySpot(true)
	chat.want = 3
	c.until(15*time.Minute, "the replicas are ready on demand", func() bool { return c.whole(chat)() && c.nodes(4)+c.nodes(5) == 3 })
	jobs.want, chat.minimum = 0, 3
	c.denySpot(false)
	c.until(4*time.Hour, "two replicas run on reserved capacity, and one on spot", func() bool {
		return c.nodes(0) == 2 && c.nodes(1) == 1 && c.nodes(4)+c.nodes(5) == 0 && c.whole(chat)()
	})
	if chat.minimum < 3 {
		t.Errorf("at least %d of 3 replicas ready, want 3", chat.minimum)
	}
	surges, _, _ := c.play(time.Hour)
	if surges > 0 || c.d.Phase != statemachine.PreferSpot {
		t.Errorf("%d surges after the return, phase %v\n%s", surges, c.d.Phase, c.why())
	}
	c.untouched(before)
}

// The test checks the weights that a fallback sets in a group with a reserved NodePool, a spot NodePool and an on-demand NodePool.
func TestWeightsOfAFallbackBesideReservedCapacity(t *testing.T) {
	for name, w := range map[string]struct {
		before, after [3]nodepool.Value // weights in the order reserved, spot, on-demand
		fixed         bool              // whether gpuscaler may not set the weight of the reserved NodePool
	}{
		"there is space between reserved and spot":          {[3]nodepool.Value{"90", "80", "20"}, [3]nodepool.Value{"90", "80", "81"}, false},
		"reserved is raised too":                            {[3]nodepool.Value{"81", "80", "20"}, [3]nodepool.Value{"82", "80", "81"}, false},
		"reserved after spot is still before on-demand":     {[3]nodepool.Value{"50", "80", "20"}, [3]nodepool.Value{"82", "80", "81"}, false},
		"reserved after on-demand stays there":              {[3]nodepool.Value{"10", "80", "20"}, [3]nodepool.Value{"10", "80", "81"}, false},
		"at the top spot is lowered":                        {[3]nodepool.Value{"100", "99", "20"}, [3]nodepool.Value{"100", "98", "99"}, false},
		"spot is lowered where reserved may not be set":     {[3]nodepool.Value{"81", "80", "20"}, [3]nodepool.Value{"81", "79", "80"}, true},
		"a low reserved weight that may not be set is less": {[3]nodepool.Value{"2", "1", ""}, [3]nodepool.Value{"2", "1", "2"}, true},
	} {
		c := newCluster(t, func(g *Group) { g.Pools = []Pool{{"reserved", Reserved}, {"spot", Spot}, {"on-demand", OnDemand}} })
		for i, v := range w.before {
			c.pools[i].fields["weight"] = nodepool.FieldView{Value: v}
		}
		if w.fixed {
			c.pools[0].consent &^= nodepool.ConsentWeight
		}
		chat := c.add("team-chat/llama", 1)
		chat.want = 4
		c.step()
		for range 4 {
			c.pools[1].losses = append(c.pools[1].losses, evidence.Loss{UID: c.id("lost"), At: c.now})
		}
		c.run(3 * time.Second)
		for i, want := range w.after {
			if got := c.pools[i].fields["weight"].Value; got != want || c.d.Phase != statemachine.Fallback {
				t.Errorf("%s: weight %s of %s in phase %v, want %s", name, got, c.pools[i].Name, c.d.Phase, want)
			}
		}
		c.releasing = true
		c.run(time.Minute)
		for i, v := range w.before {
			if got := c.pools[i].fields["weight"].Value; got != v {
				t.Errorf("%s: %s after the release of %s, want %s", name, got, c.pools[i].Name, v)
			}
		}
	}
}
