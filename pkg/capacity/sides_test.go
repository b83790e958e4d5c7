package capacity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// zones replaces the NodePools of a group by two spot NodePools (0 and 1) and two on-demand NodePools (2 and 3).
func zones(g *Group) {
	g.Pools = []Pool{{"spot-a", Spot}, {"spot-b", Spot}, {"ondemand-a", OnDemand}, {"ondemand-b", OnDemand}}
}

// newZones returns a cluster with two NodePools of each capacity type, and change applied to the group.
func newZones(t failer, change func(g *Group)) *cluster {
	return newCluster(t, func(g *Group) {
		zones(g)
		if change != nil {
			change(g)
		}
	})
}

func (c *cluster) deny(spotA, spotB bool) { c.pools[0].denied, c.pools[1].denied = spotA, spotB }

// Karpenter prefers spot-b, whose zone has no capacity. All replicas must start in spot-a, and no NodePool may be overridden.
func TestRefusalsInOneZoneDoNotEndTheUseOfSpot(t *testing.T) {
	for refusing := range 2 {
		c := newZones(t, nil)
		before := c.specs()
		chat := c.add("team-chat/llama", 1)
		c.deny(refusing == 0, refusing == 1)
		chat.want = 5
		c.until(20*time.Minute, "all replicas are ready", c.whole(chat))
		c.run(2 * time.Hour)
		if c.nodes(1-refusing) != 5 || c.nodes(2)+c.nodes(3) != 0 || !slices.Equal(c.phases, []statemachine.Phase{statemachine.PreferSpot}) {
			t.Errorf("%s refuses: %d and %d spot nodes, %v\n%s", c.pools[refusing].Name, c.nodes(0), c.nodes(1), c.phases, c.why())
		}
		c.untouched(before)
	}
}

// The zone of spot-b has no capacity, and a schedule opens that allows no more spot nodes. Spot then provides no node, so the group must
// fall back in the same tick, even before the limit of the schedule is written to a NodePool. An additional replica must run on demand.
func TestScheduledLimitOfTheLastOpenZoneEndsTheUseOfSpot(t *testing.T) {
	opens := midnight.Add(5 * time.Minute)
	c := newZones(t, func(g *Group) {
		g.OnDemandBase = 1
		g.Schedules = []Schedule{{Window: calendar.Window{Name: "evening", From: opens, To: opens.Add(time.Hour)}, Pools: []int{0, 1},
			Limits: []Limit{{"nvidia.com/gpu", 0}}}}
	})
	chat := c.add("team-chat/llama", 1)
	c.deny(false, true)
	c.run(3 * time.Minute) // after this time, demand has been known for trustInterval
	chat.want = 5
	c.run(2*time.Minute - time.Second)
	if c.nodes(0) != 4 || c.d.Phase != statemachine.PreferSpot {
		t.Fatalf("%d nodes in spot-a, %v\n%s", c.nodes(0), c.d.Phase, c.why())
	}
	c.step()
	if c.d.Phase != statemachine.Fallback {
		t.Errorf("%v when the schedule opens\n%s", c.d.Phase, c.why())
	}
	chat.want = 6
	c.until(10*time.Minute, "all replicas are ready", c.whole(chat))
	if c.nodes(0) != 4 || c.nodes(2)+c.nodes(3) != 2 {
		t.Errorf("%d nodes in spot-a, %d on demand\n%s", c.nodes(0), c.nodes(2)+c.nodes(3), c.why())
	}
}

// Both zones refuse launches, so the group falls back. When one zone has capacity again, a probe finds it, and all replicas return to it.
func TestFallbackWhenEveryZoneRefusesAndReturnToTheFirstThatRecovers(t *testing.T) {
	for recovering := range 2 {
		c := newZones(t, func(g *Group) { g.Fallback, g.ReturnNodesPerHour = Hard, 60 })
		before := c.specs()
		chat := c.add("team-chat/llama", 1)
		c.deny(true, true)
		chat.want = 3
		c.until(15*time.Minute, "the group falls back", c.in(statemachine.Fallback))
		c.until(15*time.Minute, "the replicas are ready on demand", c.whole(chat))
		if c.limit(0) != 0 || c.limit(1) != 0 {
			t.Errorf("limits %d and %d in a hard fallback without spot nodes\n%s", c.limit(0), c.limit(1), c.why())
		}
		chat.minimum = 3
		c.deny(recovering != 0, recovering != 1)
		c.until(3*time.Hour, "a probe tests both zones", c.in(statemachine.Probing))
		if c.limit(0) != 1 || c.limit(1) != 1 {
			t.Errorf("limits %d and %d in a probe, want one node each\n%s", c.limit(0), c.limit(1), c.why())
		}
		c.until(6*time.Hour, "all replicas run in the zone that recovered", func() bool {
			return c.nodes(recovering) == 3 && c.nodes(2)+c.nodes(3) == 0 && c.d.Phase == statemachine.PreferSpot
		})
		if chat.minimum < 3 {
			t.Errorf("at least %d of 3 replicas ready, want 3", chat.minimum)
		}
		c.run(10 * time.Minute)
		c.untouched(before)
	}
}

// The leader crashes after every write during a fallback, a probe and a return. Each new leader must continue from the record
// annotations.
func TestSeveralNodePoolsSurviveALeaderChangeInEveryPhase(t *testing.T) {
	c := newZones(t, func(g *Group) { g.Fallback, g.ReturnNodesPerHour = Hard, 60 })
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	c.deny(true, true)
	chat.want = 3
	writes := 0
	c.applied = func() {
		if c.writes != writes {
			writes, c.s = c.writes, State{}
		}
	}
	c.until(15*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.until(15*time.Minute, "the replicas are ready on demand", c.whole(chat))
	c.pools[0].denied = false
	c.until(6*time.Hour, "all replicas are back on spot", func() bool {
		return c.nodes(0) == 3 && c.nodes(2)+c.nodes(3) == 0 && c.d.Phase == statemachine.PreferSpot
	})
	for i := 1; i < len(c.phases); i++ {
		if c.phases[i] == statemachine.Returning && c.phases[i-1] == statemachine.Fallback {
			t.Errorf("a new leader lost the phase: %v", c.phases)
		}
	}
	c.run(10 * time.Minute)
	c.untouched(before)
}

// An older version allowed one NodePool per capacity type. After NodePools were added to a group, gpuscaler must still read the records
// that this version wrote.
func TestRecordsOfAPairAreReadAfterNodePoolsWereAdded(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.Fallback = Hard })
	chat := c.add("team-chat/llama", 1)
	c.pools[0].denied, chat.want = true, 3
	c.until(15*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.run(time.Minute)
	until, record := c.s.Spot.Until, c.pools[0].record
	if record == "" || c.limit(0) != 0 {
		t.Fatalf("limit %d, record %q\n%s", c.limit(0), record, c.why())
	}

	later := newZones(t, func(g *Group) {
		g.Fallback, g.Pools[0].Name, g.Pools[2].Name = Hard, c.pools[0].Name, c.pools[1].Name
	})
	later.now, later.loads, later.ids = c.now, c.loads, c.ids
	later.pools[0], later.pools[2] = c.pools[0], c.pools[1]
	later.pools[1].denied = true
	later.run(10 * time.Second)
	if later.d.Phase != statemachine.Fallback || later.s.Spot.Until != until {
		t.Errorf("phase %v until %d, want the fallback until %d", later.d.Phase, later.s.Spot.Until, until)
	}
	if o := later.s.Pools[0].Overrides[nodepool.FieldLimit]; later.limit(0) != 0 || later.limit(1) != 0 || o.Original != "16" ||
		o.Owner != "kubectl" {
		t.Errorf("limits %d and %d, want 0 in both spot NodePools\n%s", later.limit(0), later.limit(1), later.why())
	}
	for _, spot := range later.pools[:2] {
		for _, onDemand := range later.pools[2:] {
			if spot.number("weight") >= onDemand.number("weight") {
				t.Errorf("weight %d of %s is not below %d of %s", spot.number("weight"), spot.Name, onDemand.number("weight"), onDemand.Name)
			}
		}
	}
}

// A NodePool is removed from the group while it is overridden. Its record annotation must be sufficient to restore it, and the other
// NodePools must stay overridden.
func TestRemovedNodePoolIsRestoredFromItsRecord(t *testing.T) {
	c := newZones(t, func(g *Group) { g.Fallback = Hard })
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	c.deny(true, true)
	chat.want = 3
	c.until(15*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.until(15*time.Minute, "the replicas are ready on demand", c.whole(chat))
	removed := c.pools[1]
	smaller := newZones(t, func(g *Group) { g.Fallback, g.Pools = Hard, slices.Delete(g.Pools, 1, 2) })
	smaller.s, smaller.now, smaller.loads, smaller.ids = c.s, c.now, c.loads, c.ids
	smaller.pools = slices.Delete(slices.Clone(c.pools), 1, 2)
	smaller.run(time.Minute)
	if smaller.d.Phase != statemachine.Fallback || smaller.limit(0) != 0 || smaller.s.Pools[1].Overrides[nodepool.FieldWeight].To == "" {
		t.Errorf("the other NodePools: phase %v, limit %d\n%s", smaller.d.Phase, smaller.limit(0), smaller.why())
	}

	g, ok := Orphan(removed.Name, removed.record)
	if !ok {
		t.Fatalf("the record %s cannot be read", removed.record)
	}
	alone := &cluster{t: t, g: g, now: smaller.now, known: true, pools: []*simPool{removed}, releasing: true}
	alone.run(time.Minute)
	alone.untouched(before[1:2])
}

// spot-a is at its limit and spot-b refuses launches, so no spot NodePool provides a node and the group falls back. That a NodePool is at
// its limit is not, by itself, a failure of spot.
func TestFullNodePoolIsNoRoomAndNoFailure(t *testing.T) {
	c := newZones(t, nil)
	chat := c.add("team-chat/llama", 1)
	c.pools[0].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "1", Owner: "kubectl"}
	chat.want = 4
	c.until(15*time.Minute, "four replicas are ready", c.whole(chat))
	c.run(time.Hour)
	if c.nodes(2)+c.nodes(3) != 0 || c.d.Phase != statemachine.PreferSpot {
		t.Fatalf("one spot NodePool is full: phase %v\n%s", c.d.Phase, c.why())
	}
	c.pools[1].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "8", Owner: "kubectl"}
	chat.want = 9
	c.until(15*time.Minute, "nine replicas are ready on spot", c.whole(chat))
	if c.nodes(0)+c.nodes(1) != 9 {
		t.Errorf("%d and %d spot nodes below limits of 1 and 8\n%s", c.nodes(0), c.nodes(1), c.why())
	}
	chat.want = 11
	c.until(15*time.Minute, "two replicas run on demand, because both are full", c.whole(chat))
	c.run(time.Hour)
	r := c.reason(explain.RuleReturn)
	if c.nodes(2)+c.nodes(3) != 2 || r == nil || !strings.Contains(r.Text(c.g.Names()),
		"NodePools spot-a and spot-b have reached their limits") {
		t.Errorf("reason %+v\n%s", r, c.why())
	}
}

// Pods wait for spot, so both on-demand NodePools are limited to their current size. When the timeout ends, the limits of both NodePools
// are restored.
func TestSpotWaitTimeoutLimitsEveryOnDemandNodePool(t *testing.T) {
	c := newZones(t, func(g *Group) { g.SpotWaitTimeout = 4 * time.Minute })
	c.run(3 * time.Minute)
	if c.limit(2) != 0 || c.limit(3) != 0 {
		t.Fatalf("limits %d and %d while no pod waits\n%s", c.limit(2), c.limit(3), c.why())
	}
	chat := c.add("team-chat/llama", 1)
	c.deny(true, true)
	chat.want = 2
	c.run(3 * time.Minute)
	if c.nodes(2)+c.nodes(3) != 0 {
		t.Errorf("an on-demand node was launched before the timeout\n%s", c.why())
	}
	c.until(3*time.Minute, "the timeout ends", c.in(statemachine.Fallback))
	c.run(2 * time.Second)
	if c.limit(2) != 16 || c.limit(3) != 16 {
		t.Errorf("limits %d and %d after the timeout\n%s", c.limit(2), c.limit(3), c.why())
	}
}

// The owner of ondemand-b does not allow overrides of its limits. If only ondemand-a had a limit cap, Karpenter would launch all on-demand
// nodes in ondemand-b. Therefore no limit is set, no pod waits for spot, and a finding names ondemand-b.
func TestNoOnDemandLimitUnlessAllMayBeSet(t *testing.T) {
	c := newZones(t, func(g *Group) { g.SpotWaitTimeout = 4 * time.Minute })
	c.pools[3].consent = nodepool.ConsentWeight | nodepool.ConsentDisruption
	before := c.specs()
	c.run(10 * time.Minute)
	c.untouched(before)
	f := c.finding(explain.FindNotConsented)
	if f == nil || !strings.Contains(f.Text(c.g.Names()), "NodePool ondemand-b:") {
		t.Errorf("finding %+v\n%s", f, c.why())
	}
}

// The on-demand base is a total over both on-demand NodePools. If the NodePool that Karpenter prefers refuses launches, the other
// NodePool provides the base.
func TestBaseIsSharedByTheOnDemandNodePools(t *testing.T) {
	for refusing := range 3 {
		c := newZones(t, func(g *Group) { g.OnDemandBase, g.SpotWaitTimeout = 2, 10*time.Minute })
		chat := c.add("team-chat/llama", 1)
		if refusing > 0 {
			c.pools[1+refusing].denied = true
		}
		c.run(5 * time.Minute)
		chat.want = 6
		most := 0
		c.applied = func() { most = max(most, c.nodes(2)+c.nodes(3)) }
		c.until(time.Hour, "six replicas are ready", c.whole(chat))
		c.run(time.Hour)
		if on := c.nodes(2) + c.nodes(3); on != 2 || most > 2 || c.nodes(0)+c.nodes(1) != 4 {
			t.Errorf("refusing %d: %d on demand, at most %d, want a base of 2\n%s", refusing, on, most, c.why())
		}
	}
}

// A NodePool is not used if it is not ready or if its owner withdrew consent, and a finding names this NodePool. The other NodePool is
// used.
func TestUnreliableNodePoolCountsAsNoRoomAndIsNamed(t *testing.T) {
	for problem, change := range map[explain.PoolProblem]func(p *simPool){
		explain.PoolNotReady:     func(p *simPool) { p.ready = false },
		explain.PoolNotConsented: func(p *simPool) { p.consent = 0 },
	} {
		c := newZones(t, nil)
		change(c.pools[1])
		c.pools[0].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "3", Owner: "kubectl"}
		o := c.observe()
		var tick tick
		tick.begin(c.g, &o, &c.s, midnight, &c.d)
		tick.countNodes()
		tick.measureRoom()
		if tick.spot.room != 3 {
			t.Errorf("problem %d: room %d, want the 3 of the other NodePool", problem, tick.spot.room)
		}
		c.run(time.Second)
		f := c.finding(explain.FindNoRoom)
		if f == nil || f.Problem != problem || !strings.HasPrefix(f.Text(c.g.Names()), "NodePool spot-b ") {
			t.Errorf("problem %d: finding %+v", problem, f)
		}
	}
	c := newZones(t, nil)
	c.pools[0].gone = true
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.until(10*time.Minute, "the replicas run in the NodePool that exists", func() bool { return c.whole(chat)() && c.nodes(1) == 2 })
	if f := c.finding(explain.FindMissing); f == nil || !strings.HasPrefix(f.Text(c.g.Names()), "NodePool spot-a ") ||
		!(c.d.Phase == statemachine.PreferSpot) {
		t.Errorf("finding %+v", f)
	}
	for range 4 {
		c.pools[1].losses = append(c.pools[1].losses, evidence.Loss{UID: c.id("lost"), At: c.now})
	}
	c.until(time.Minute, "the only spot NodePool loses its nodes, and the group falls back", c.in(statemachine.Fallback))
}

// No demand exists, so the limits of all four NodePools are 0. With the first pod, all four limits are restored.
func TestZeroLimitOfEveryNodePool(t *testing.T) {
	c := newZones(t, func(g *Group) { g.ZeroLimit = true })
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	c.run(10 * time.Minute)
	for i := range c.pools {
		if c.limit(i) != 0 {
			t.Errorf("limit %d of %s without demand\n%s", c.limit(i), c.pools[i].Name, c.why())
		}
	}
	chat.want = 1
	c.run(time.Minute)
	c.untouched(before)
}

// For a group with few NodePools, the JSON form of the state must be the same as in versions that allowed fewer NodePools. For a group
// with the maximum number of NodePools, the JSON form must contain all of them.
func TestSnapshotOmitsUnusedNodePools(t *testing.T) {
	for used, saved := range map[int]int{1: 4, 4: 4, 6: 6, nodepool.MaxPools: nodepool.MaxPools} {
		g := Group{Name: "chat", Resource: "nvidia.com/gpu"}
		for i := range used {
			g.Pools = append(g.Pools, Pool{Name: string(rune('a' + i)), Type: Spot})
		}
		group, err := NewGroup(g)
		if err != nil {
			t.Fatal(err)
		}
		s := State{}
		s.begin(group, midnight)
		for i := range used {
			s.Pools[i].Record = group.Pools[i].Name
		}
		text, err := s.Snapshot()
		if err != nil || strings.Count(string(text), `"adopted"`) != saved {
			t.Errorf("%d NodePools: %d in the snapshot, want %d (%v)", used, strings.Count(string(text), `"adopted"`), saved, err)
		}
		if read, err := DecodeState(group, text); err != nil || read.Pools != s.Pools {
			t.Errorf("%d NodePools: the snapshot is read as %+v, %v", used, read.Pools, err)
		}
	}
}

// Spot must count as failed only if each of two spot NodePools has failed or cannot launch a node.
func TestEvidenceOfSeveralNodePools(t *testing.T) {
	now := midnight.Add(time.Hour)
	refused := func(n int) (all []evidence.Failure) {
		for i := range n {
			all = append(all, evidence.Failure{UID: string(rune('a' + i)), At: now.Add(-time.Minute), Capacity: true})
		}
		return all
	}
	lost := func(n int) (all []evidence.Loss) {
		for i := range n {
			all = append(all, evidence.Loss{UID: string(rune('a' + i)), At: now.Add(-time.Minute)})
		}
		return all
	}
	for name, c := range map[string]struct {
		a, b PoolView
		want explain.Cause
	}{
		"both refuse": {PoolView{Ready: true, Failures: refused(2)}, PoolView{Ready: true, Failures: refused(1)},
			explain.CauseRefused},
		"too few refusals": {PoolView{Ready: true, Failures: refused(1)}, PoolView{Ready: true, Failures: refused(1)},
			explain.CauseNone},
		"one refuses":                         {PoolView{Ready: true, Failures: refused(9)}, PoolView{Ready: true}, explain.CauseNone},
		"one refuses, the other is not ready": {PoolView{Ready: true, Failures: refused(3)}, PoolView{}, explain.CauseRefused},
		"one refuses, the other is full": {PoolView{Ready: true, Failures: refused(3)}, PoolView{Ready: true, View: nodepool.View{
			Limits: []nodepool.LimitView{{Resource: "nvidia.com/gpu", FieldView: nodepool.FieldView{Value: "0"}}}}}, explain.CauseRefused},
		"both lose nodes": {PoolView{Ready: true, Losses: lost(2)}, PoolView{Ready: true, Losses: lost(2)}, explain.CauseLost},
		"one loses nodes": {PoolView{Ready: true, Losses: lost(4)}, PoolView{Ready: true}, explain.CauseNone},
		"one loses nodes, the other refuses": {PoolView{Ready: true, Losses: lost(4)}, PoolView{Ready: true, Failures: refused(3)},
			explain.CauseRefused},
		"the other launched nodes meanwhile": {PoolView{Ready: true, Failures: refused(5)}, PoolView{Ready: true, Failures: refused(1),
			Nodes: []Node{{Stage: Usable, GPUs: 1, Created: now.Add(-time.Minute)}, {Stage: Usable, GPUs: 1, Created: now}}}, explain.CauseNone},
	} {
		g, err := NewGroup(Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []Pool{{"z", Spot}, {"y", Spot}, {"x", OnDemand}}})
		if err != nil {
			t.Fatal(err)
		}
		o := Observation{Pools: []PoolView{c.a, c.b, {Ready: true}}, UnmanagedPods: []Pod{{UID: "pending", GPUs: 1, Pool: -1, Pending: true}}}
		for i := range o.Pools {
			o.Pools[i].Exists, o.Pools[i].Consent = true, nodepool.ConsentAny
		}
		s := State{memory: memory{At: statemachine.Stamp(now) - 1000}}
		s.adapt(g)
		s.KnownSince, s.ShortSince = s.At, statemachine.Stamp(now.Add(-2*time.Minute))
		if _, s = Decide(g, o, s, now); s.Spot.Cause != c.want || (s.Spot.Phase == statemachine.Fallback) != (c.want != explain.CauseNone) {
			t.Errorf("%s: %v in %v, want %v", name, s.Spot.Cause, s.Spot.Phase, c.want)
		}
	}
}

// The test checks the weights that a fallback sets: each on-demand NodePool must be above each spot NodePool, and the order of the
// NodePools of each type must not change.
func TestWeightsOfAFallbackWithSeveralNodePools(t *testing.T) {
	for name, w := range map[string]struct {
		before, after [4]nodepool.Value
		fixed         bool // whether gpuscaler may not override the weights of the on-demand NodePools
	}{
		"on-demand is raised in its order": {[4]nodepool.Value{"80", "60", "20", "10"}, [4]nodepool.Value{"80", "60", "82", "81"}, false},
		"equal weights stay equal":         {[4]nodepool.Value{"80", "80", "20", "20"}, [4]nodepool.Value{"80", "80", "81", "81"}, false},
		"one is above spot already":        {[4]nodepool.Value{"50", "40", "90", "30"}, [4]nodepool.Value{"50", "40", "90", "51"}, false},
		"absent weights are 0":             {[4]nodepool.Value{"", "", "", ""}, [4]nodepool.Value{"", "", "1", "1"}, false},
		"at the top both types move": {[4]nodepool.Value{"100", "99", "20", "10"}, [4]nodepool.Value{"98", "97", "100", "99"},
			false},
		"all are first already":                    {[4]nodepool.Value{"20", "10", "80", "70"}, [4]nodepool.Value{"20", "10", "80", "70"}, false},
		"spot is lowered where only it may be set": {[4]nodepool.Value{"80", "60", "40", "30"}, [4]nodepool.Value{"29", "28", "40", "30"}, true},
		"a low spot weight stays":                  {[4]nodepool.Value{"80", "20", "40", "30"}, [4]nodepool.Value{"29", "20", "40", "30"}, true},
	} {
		c := newZones(t, nil)
		for i, v := range w.before {
			c.pools[i].fields["weight"] = nodepool.FieldView{Value: v}
			if w.fixed && i >= 2 {
				c.pools[i].consent &^= nodepool.ConsentWeight
			}
		}
		chat := c.add("team-chat/llama", 1)
		chat.want = 4
		c.step()
		for _, p := range c.pools[:2] {
			for range 4 {
				p.losses = append(p.losses, evidence.Loss{UID: c.id("lost"), At: c.now})
			}
		}
		c.run(3 * time.Second)
		var after [4]nodepool.Value
		for i := range after {
			after[i] = c.pools[i].fields["weight"].Value
		}
		if c.d.Phase != statemachine.Fallback || after != w.after {
			t.Errorf("%s: %v in %v, want %v", name, after, c.d.Phase, w.after)
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
