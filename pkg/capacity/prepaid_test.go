package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// prepaid describes a NodePool of a group that has capacity reservations.
type prepaid struct {
	Pool
	weight nodepool.Value
	mixed  bool // its requirement is In [reserved, on-demand]; its reservation has one instance
	slots  int  // size of the reservation of a NodePool of only reserved capacity
}

// newPrepaid returns a cluster with the given NodePools, which have no limits.
func newPrepaid(t failer, pools []prepaid, change func(g *Group)) *cluster {
	c := newCluster(t, func(g *Group) {
		g.ReturnNodesPerHour, g.Pools = 60, nil
		for _, p := range pools {
			g.Pools = append(g.Pools, p.Pool)
		}
		if change != nil {
			change(g)
		}
	})
	for i, p := range pools {
		sim := c.pools[i]
		sim.mixed, sim.slots = p.mixed && p.Type == Reserved, p.slots
		if p.mixed {
			sim.reserved = 1
		}
		sim.fields["weight"] = nodepool.FieldView{Value: p.weight, Owner: "argocd"}
		sim.fields["disruption.consolidationPolicy"] = nodepool.FieldView{Value: `"WhenEmpty"`, Owner: "argocd"}
		delete(sim.fields, "limits[nvidia.com/gpu]")
		delete(sim.fields, "limits[cpu]")
	}
	return c
}

func (c *cluster) pool(name string) int {
	return slices.IndexFunc(c.pools, func(p *simPool) bool { return p.Name == name })
}

func (c *cluster) nodesOf(name string) int { return c.nodes(c.pool(name)) }

// A NodePool of reserved and on-demand capacity is used as the on-demand NodePool of its group, in every order of the NodePools. The test
// runs once with this NodePool listed as on-demand, and once with it listed as reserved. The prepaid NodePools must be used first, even
// in a fallback. Replicas on the on-demand nodes of the mixed NodePool must return to spot. Replicas on its prepaid node must not move.
func TestMixedNodePoolBesideReservedOnesIsTheOnDemandSide(t *testing.T) {
	for _, listed := range []CapacityType{OnDemand, Reserved} {
		pools := []prepaid{{Pool: Pool{"block-a", Reserved}, weight: "90", slots: 1}, {Pool: Pool{"block-b", Reserved}, weight: "85", slots: 1},
			{Pool: Pool{"spot", Spot}, weight: "80"}, {Pool: Pool{"mixed", listed}, weight: "20", mixed: true}}
		for first := range len(pools) {
			order := slices.Concat(pools[first:], pools[:first])
			c := newPrepaid(t, order, nil)
			before := c.specs()
			chat := c.add("team-chat/llama", 1)
			c.pools[c.pool("spot")].denied = true
			chat.want = 5
			c.until(20*time.Minute, "five replicas are ready without spot", c.whole(chat))
			if c.nodesOf("block-a") != 1 || c.nodesOf("block-b") != 1 || c.nodesOf("mixed") != 3 || c.d.Phase != statemachine.Fallback {
				t.Fatalf("%v first, listed as %v: phase %v\n%s", order[0].Name, listed, c.d.Phase, c.why())
			}
			mixed, a := c.pools[c.pool("mixed")].number("weight"), c.pools[c.pool("block-b")].number("weight")
			if mixed <= c.pools[c.pool("spot")].number("weight") || mixed >= a {
				t.Errorf("listed as %v: weight %d of mixed in a fallback\n%s", listed, mixed, c.why())
			}
			chat.minimum = 5
			c.pools[c.pool("spot")].denied = false
			c.until(4*time.Hour, "two replicas are back on spot, and three run on prepaid capacity", func() bool {
				return c.nodesOf("spot") == 2 && c.nodesOf("mixed") == 1 && c.pools[c.pool("mixed")].nodes[0].reserved && c.whole(chat)()
			})
			c.until(10*time.Minute, "the group is at rest", c.in(statemachine.PreferSpot))
			if chat.minimum < 5 {
				t.Errorf("at least %d of 5 replicas ready, want 5", chat.minimum)
			}
			if f := c.finding(explain.FindWeights); f != nil {
				t.Errorf("a prepaid NodePool before spot is reported: %+v", f)
			}
			c.run(time.Hour)
			c.untouched(before)
		}
	}
}

// An instance of the reservation of a mixed NodePool becomes free while replicas return, and spot refuses again. The successor that starts
// on this instance counts as moved: the replica that it replaces must be deleted, and the batch must not count as failed.
func TestSuccessorOnThePrepaidNodeOfAMixedNodePoolHasMoved(t *testing.T) {
	c := newPrepaid(t, []prepaid{{Pool: Pool{"mixed", OnDemand}, weight: "20"}, {Pool: Pool{"spot", Spot}, weight: "80"},
		{Pool: Pool{"block", Reserved}, weight: "90", slots: 1}}, nil)
	chat := c.add("team-chat/llama", 1)
	mixed, spot := c.pools[0], c.pools[1]
	spot.denied, chat.want = true, 3
	c.until(20*time.Minute, "three replicas are ready without spot", c.whole(chat))
	spot.denied = false
	c.until(4*time.Hour, "replicas return", c.in(statemachine.Returning))
	chat.minimum = chat.want
	mixed.reserved, spot.denied = 1, true
	c.until(2*time.Hour, "a replica runs on the prepaid instance", func() bool {
		return slices.ContainsFunc(mixed.nodes, func(n *simNode) bool { return n.reserved && c.used(n) > 0 })
	})
	c.until(time.Hour, "no more replica than before runs on demand", func() bool {
		paid := 0
		for _, n := range mixed.nodes {
			paid += 1 - flag01(n.reserved)
		}
		return paid <= 1 && c.whole(chat)()
	})
	if chat.minimum < 3 {
		t.Errorf("at least %d of 3 replicas ready, want 3\n%s", chat.minimum, c.why())
	}
}

// A reserved NodePool has no limit, and its reservation is full. Karpenter creates no NodeClaim and sends no Event, so waiting pods are the
// only sign of a full reservation. The target must be capped at one replica more than the reservation has instances. When the reservation
// gets more instances, the cap must increase.
func TestFullReservationWithoutALimitCapsTheTarget(t *testing.T) {
	full := []prepaid{{Pool: Pool{"block-a", Reserved}, weight: "90", slots: 2}, {Pool: Pool{"block-b", Reserved}, weight: "85", slots: 1}}
	closed := []prepaid{{Pool: Pool{"on-demand", OnDemand}, weight: "20"}}
	for name, pools := range map[string][]prepaid{
		"reserved alone": full, "in another order": {full[1], full[0]}, "on-demand at its limit": append(closed, full...),
	} {
		c := newPrepaid(t, pools, nil)
		if i := c.pool("on-demand"); i >= 0 {
			c.pools[i].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "0", Owner: "kubectl"}
		}
		chat := c.add("team-chat/llama", 1)
		chat.want = 8
		c.until(15*time.Minute, name+": the target is capped", func() bool { return chat.lastAdvice.Cap == 4 && chat.ready() == 3 })
		if c.pool("on-demand") < 0 && !strings.Contains(c.why(), "the reservation of NodePool block-") {
			t.Errorf("%s: the reason does not name the reservation\n%s", name, c.why())
		}
		chat.want = 12
		c.run(20 * time.Second)
		if len(chat.pods) != 8 || chat.lastAdvice.Cap != 4 {
			t.Errorf("%s: %d pods with a cap of %d\n%s", name, len(chat.pods), chat.lastAdvice.Cap, c.why())
		}
		c.pools[c.pool("block-b")].slots = 3
		c.until(2*time.Hour, name+": five replicas are ready", func() bool { return chat.ready() == 5 })
		c.until(time.Hour, name+": the target is capped at the new size", func() bool { return chat.lastAdvice.Cap == 6 })
		c.pools[c.pool("block-a")].slots = 0
		c.until(2*time.Hour, name+": all replicas are ready", c.whole(chat))
		if chat.lastAdvice.Cap >= 0 {
			t.Errorf("%s: a cap of %d remains\n%s", name, chat.lastAdvice.Cap, c.why())
		}
	}
}

// While another NodePool of the group may launch nodes, a full reservation must not cap the target. A mixed NodePool is not regarded as
// full when its reservation is full, because it can launch on-demand nodes.
func TestFullReservationBesideAnOpenNodePoolCapsNothing(t *testing.T) {
	block := prepaid{Pool: Pool{"block", Reserved}, weight: "90", slots: 1}
	for name, pools := range map[string][]prepaid{
		"on-demand": {{Pool: Pool{"on-demand", OnDemand}, weight: "20"}, block},
		"spot":      {block, {Pool: Pool{"spot", Spot}, weight: "20"}},
		"mixed":     {block, {Pool: Pool{"mixed", Reserved}, weight: "20", mixed: true}},
	} {
		c := newPrepaid(t, pools, nil)
		chat := c.add("team-chat/llama", 1)
		c.observed = func() {
			if c.d.Advice[0].Cap >= 0 {
				t.Fatalf("%s: a cap of %d\n%s", name, c.d.Advice[0].Cap, c.why())
			}
		}
		chat.want = 6
		c.until(15*time.Minute, name+": all replicas are ready", c.whole(chat))
		c.run(time.Hour)
	}
}

// Pods wait, and the only alternative to spot is a reservation that is full. A hard fallback must not limit spot in this case.
func TestHardFallbackDoesNotLimitSpotWhileTheReservationIsFull(t *testing.T) {
	c := newPrepaid(t, []prepaid{{Pool: Pool{"block", Reserved}, weight: "20", slots: 1}, {Pool: Pool{"spot", Spot}, weight: "80"}},
		func(g *Group) { g.Fallback = Hard })
	chat := c.add("team-chat/llama", 1)
	c.pools[1].denied, chat.want = true, 3
	c.until(15*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.run(10 * time.Minute)
	if c.limit(1) >= 0 {
		t.Errorf("limit %d of spot although the reservation is full\n%s", c.limit(1), c.why())
	}
	c.pools[1].denied = false
	c.until(15*time.Minute, "three replicas are ready", c.whole(chat))
}

// newModelOfPrepaid returns a model of spot, on-demand, reserved and mixed NodePools in a random order, with random weights. The random
// events also change the sizes of reservations.
func newModelOfPrepaid(t *rapid.T) *model {
	options := anyGroup(t)
	listed := rapid.SampledFrom([]CapacityType{OnDemand, Reserved}).Draw(t, "listed")
	pools := []prepaid{{Pool: Pool{"spot", Spot}}, {Pool: Pool{"mixed", listed}, mixed: true}}
	for i := range rapid.IntRange(1, 3).Draw(t, "reserved NodePools") {
		pools = append(pools, prepaid{Pool: Pool{fmt.Sprint("block-", i), Reserved}, slots: rapid.IntRange(0, 3).Draw(t, "instances")})
	}
	if rapid.Bool().Draw(t, "on-demand") {
		pools = append(pools, prepaid{Pool: Pool{"on-demand", OnDemand}})
	}
	pools = rapid.Permutation(pools).Draw(t, "order")
	m := &model{cluster: newPrepaid(t, pools, func(g *Group) {
		listed := g.Pools
		options(g)
		g.Pools = listed
	}), rt: t}
	m.add("team/load", 1)
	for _, p := range m.pools {
		p.fields["weight"] = nodepool.FieldView{Value: nodepool.Value(fmt.Sprint(rapid.IntRange(1, 100).Draw(t, "weight"))), Owner: "argocd"}
		written := map[string]nodepool.Value{}
		for name, f := range p.fields {
			written[name] = f.Value
		}
		m.people = append(m.people, written)
	}
	return m
}

// The rules of TestEveryHistoryCanBeReleased apply to groups with prepaid and mixed NodePools in every order.
func TestEveryHistoryWithPrepaidCapacityCanBeReleased(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModelOfPrepaid(t)
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			m.happen()
			p := m.pools[rapid.IntRange(0, len(m.pools)-1).Draw(t, "reservation")]
			if p.Type == Reserved && !p.mixed {
				p.slots = max(len(p.nodes), rapid.IntRange(0, 4).Draw(t, "instances"))
			} else if p.kind() == OnDemand && p.reserved > 0 {
				p.reserved = rapid.IntRange(1, 4).Draw(t, "instances")
			}
			m.run(time.Duration(rapid.SampledFrom([]int{5, 30, 90, 300, 900}).Draw(t, "for")) * time.Second)
		}
		m.calm()
	})
}
