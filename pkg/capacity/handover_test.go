package capacity

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// protected reports whether Karpenter must keep the on-demand nodes on which replicas run. Either the weights put on-demand first, so that
// Karpenter's simulation finds no cheaper node, or the budgets forbid the disruption of underutilized nodes.
func (c *cluster) protected() bool {
	return c.pools[1].number("weight") > c.pools[0].number("weight") || !c.allowed(c.pools[1], statemachine.ReasonUnderutilized)
}

// story is a sequence of phases of the group, during which replicas run on on-demand nodes.
type story struct {
	name   string
	group  func(g *Group)
	begin  func(c *cluster, chat *simLoad) // simulates until replicas run on on-demand nodes and Karpenter leaves them there
	then   func(c *cluster, chat *simLoad) // simulates what happens next
	phases []statemachine.Phase            // the phases through which the group must pass, in this order
	within time.Duration
}

// onDemand starts replicas on on-demand nodes because spot has no capacity.
func onDemand(c *cluster, chat *simLoad) {
	chat.want = 3
	c.pools[0].denied = true
	c.until(15*time.Minute, "three replicas are ready on demand", c.whole(chat))
	chat.minimum = 3
}

// While replicas run on on-demand nodes and spot is preferred by weight, Karpenter would replace every on-demand node by a spot node at
// once. In the phase Fallback weights protect the replicas, and in the other phases a consolidation freeze does. There must be no tick
// without protection between two phases, until the last replica has returned.
func TestReplicasOnDemandAreProtectedInEveryTick(t *testing.T) {
	spotReturns := func(c *cluster, _ *simLoad) { c.pools[0].denied = false }
	for _, s := range []story{
		{name: "the probe succeeds, and batch follows batch", begin: onDemand, then: spotReturns, within: 3 * time.Hour,
			phases: []statemachine.Phase{statemachine.Fallback, statemachine.Probing, statemachine.Returning, statemachine.PreferSpot}},
		{name: "the probe's successor starts on demand", begin: onDemand, then: func(c *cluster, _ *simLoad) {
			c.pools[0].denied, c.pools[0].until = false, c.now.Add(35*time.Minute) // Karpenter launches no spot node, so no launch fails
		}, phases: []statemachine.Phase{statemachine.Fallback, statemachine.Probing, statemachine.Fallback, statemachine.Probing,
			statemachine.Returning, statemachine.PreferSpot}, within: 5 * time.Hour},
		{name: "the probe's node is lost", begin: onDemand, then: func(c *cluster, _ *simLoad) {
			c.pools[0].denied = false
			c.until(30*time.Minute, "the probe has a node", func() bool { return c.nodes(0) == 1 && c.pools[0].nodes[0].usable })
			c.lose(c.pools[0].nodes[0])
			c.disturbed--
		}, phases: []statemachine.Phase{statemachine.Fallback, statemachine.Probing, statemachine.Fallback, statemachine.Probing,
			statemachine.Returning, statemachine.PreferSpot}, within: 5 * time.Hour},
		{name: "no pod tries spot during the probe", begin: onDemand, then: func(c *cluster, chat *simLoad) {
			c.pools[0].denied = false
			chat.want, chat.neverReady = 4, true // one replica is never ready, so no batch begins
		}, phases: []statemachine.Phase{statemachine.Fallback, statemachine.Probing, statemachine.Returning}, within: time.Hour},
		{name: "known demand ends, and the probe begins", begin: func(c *cluster, chat *simLoad) {
			onDemand(c, chat)
			c.pools[0].denied = false
			c.ahead = []Span{{From: c.now.Add(10 * time.Minute), Until: c.now.Add(50 * time.Minute), GPUs: 2}}
		}, then: spotReturns, phases: []statemachine.Phase{statemachine.Fallback, statemachine.Probing, statemachine.Returning,
			statemachine.PreferSpot}, within: 4 * time.Hour},
		{name: "a schedule without spot ends", group: func(g *Group) {
			g.Schedules = []Schedule{{Window: windowOf(midnight, time.Hour), Pools: []int{0}, Limits: []Limit{{"nvidia.com/gpu", 0}}},
				{Window: windowOf(midnight, time.Hour), Pools: []int{1}, ConsolidateAfter: "Never"}}
		}, begin: func(c *cluster, chat *simLoad) {
			chat.want = 3
			c.until(15*time.Minute, "three replicas are ready on demand", c.whole(chat))
			c.until(time.Hour, "the window is over", c.in(statemachine.Returning))
		}, then: spotReturns, phases: []statemachine.Phase{statemachine.PreferSpot, statemachine.Returning, statemachine.PreferSpot},
			within: 3 * time.Hour},
		{name: "the owner's limit allows no spot node, but a spot node is free", begin: onDemand, then: func(c *cluster, _ *simLoad) {
			c.pools[0].nodes = append(c.pools[0].nodes, &simNode{name: c.id("spot"), created: c.now, changed: c.now, usable: true, pool: c.pools[0]})
			c.pools[0].fields["disruption.consolidateAfter"] = nodepool.FieldView{Value: `"Never"`, Owner: "kubectl"}
			c.pools[0].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "1", Owner: "kubectl"}
		}, phases: []statemachine.Phase{statemachine.Fallback, statemachine.Returning}, within: 30 * time.Minute},
	} {
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}

func (s *story) run(t *testing.T) {
	c := newCluster(t, s.group)
	c.eager = true
	chat := c.add("team-chat/llama", 1)
	s.begin(c, chat)
	c.phases, c.disturbed = []statemachine.Phase{c.d.Phase}, 0
	if s.phases[0] != c.d.Phase {
		c.phases = append([]statemachine.Phase{s.phases[0]}, c.phases...)
	}
	gap := time.Time{}
	c.applied = func() {
		if c.nodes(1) > 0 && !c.protected() && gap.IsZero() && !slices.Equal(c.phases, s.phases) {
			gap = c.now
			t.Errorf("%s: %v: replicas on demand are not protected\n%s", c.clock(), c.phases, c.why())
		}
	}
	s.then(c, chat)
	c.until(s.within, "the last phase begins", func() bool { return slices.Equal(c.phases, s.phases) })
	if c.disturbed != 0 {
		t.Errorf("Karpenter replaced %d nodes with replicas on them", c.disturbed)
	}
}

// After each change of the phase, up to the second fallback, the API server rejects the writes to one NodePool for 20 seconds. In the
// first case, gpuscaler may only write the weight of the spot NodePool and the budgets of the on-demand NodePool. At every time, the
// protection of either the previous phase or the next phase must apply.
func TestReplicasOnDemandAreProtectedIfAWriteFails(t *testing.T) {
	for _, consent := range [][2]nodepool.Consent{{nodepool.ConsentWeight, nodepool.ConsentDisruption}, {nodepool.ConsentAny,
		nodepool.ConsentAny}} {
		for refused := range 2 {
			c := newCluster(t, nil)
			c.eager, c.pools[0].consent, c.pools[1].consent = true, consent[0], consent[1]
			chat := c.add("team-chat/llama", 1)
			onDemand(c, chat)
			c.pools[0].denied, c.pools[0].until, c.disturbed = false, c.now.Add(35*time.Minute), 0
			phase, changed, gap := c.d.Phase, c.now.Add(-time.Hour), false
			c.observed = func() {
				if c.d.Phase != phase {
					phase, changed = c.d.Phase, c.now
				}
			}
			c.refused = func(pool int) bool {
				return pool == refused && len(c.phases) <= 4 && c.now.Sub(changed) < 20*time.Second
			}
			c.applied = func() {
				if c.nodes(1) > 0 && !c.protected() && !gap {
					gap = true
					t.Errorf("writes of %s are refused, %s: %v: replicas on demand are not protected\n%s", c.pools[refused].Name, c.clock(),
						c.phases, c.why())
				}
			}
			c.until(4*time.Hour, "all replicas are back on spot", func() bool { return c.nodes(1) == 0 && c.d.Phase == statemachine.PreferSpot })
			if want := []statemachine.Phase{statemachine.Fallback, statemachine.Probing, statemachine.Fallback, statemachine.Probing,
				statemachine.Returning, statemachine.PreferSpot}; !slices.Equal(c.phases[len(c.phases)-6:], want) {
				t.Errorf("phases %v", c.phases)
			}
			if c.disturbed != 0 {
				t.Errorf("Karpenter replaced %d nodes with replicas on them", c.disturbed)
			}
		}
	}
}

// A new leader finds the limit cap and the weights of the previous leader, and demand is known. It must keep the limit cap: without it,
// Karpenter could launch on-demand nodes before the new leader has known demand for trustInterval.
func TestNewLeaderKeepsALimitCap(t *testing.T) {
	for name, change := range map[string]func(*Group){
		"on-demand base":    func(g *Group) { g.OnDemandBase = 2 },
		"spot wait timeout": func(g *Group) { g.SpotWaitTimeout = 4 * time.Minute },
	} {
		c := newCluster(t, change)
		chat := c.add("team-chat/llama", 1)
		chat.want = 4
		c.until(20*time.Minute, "four replicas are ready", c.whole(chat))
		c.run(5 * time.Minute)
		want, writes := c.specs(), c.writes
		c.s = State{}
		for range 5 * 60 {
			c.step()
			if got := c.specs(); !slices.Equal(got, want) {
				t.Fatalf("%s: %s: a new leader changed the NodePools to %q, they were %q", name, c.clock(), got, want)
			}
		}
		if c.writes != writes || c.limit(1) < 0 || c.limit(1) >= 16 {
			t.Errorf("%s: %d writes, limit %d", name, c.writes-writes, c.limit(1))
		}
		c.s, c.known = State{}, false
		c.run(2 * time.Second)
		if c.limit(1) != 16 {
			t.Errorf("%s: demand is unknown to a new leader, and the limit is %d", name, c.limit(1))
		}
	}
}

// A pod is loading, is ready for a moment, and loads again. Its annotation is set, removed and set again. The last write is sent at once,
// although the same value was written shortly before.
func TestAnnotationIsSetAgainAtOnceAfterItWasCleared(t *testing.T) {
	g, o := pairOf(t, func(g *Group) { g.StartupShield = true })
	o.Shields = true
	o.Pools[0].Nodes = []Node{usable("spot", Spot)}
	p := onNode("pod", 0, 0)
	o.Workloads = []Workload{{Key: "team/a", Uncapped: 1, Current: 1, GPUs: 1, Known: true, Pods: []Pod{p}}}
	var s State
	for i, want := range []string{"30m", "", "30m"} {
		pod := &o.Workloads[0].Pods[0]
		pod.Loading, pod.Ready = want != "", want == ""
		var d Decision
		now := midnight.Add(time.Duration(2*i) * time.Second)
		s.Decide(g, &o, now, &d)
		if len(d.Actions) != 1 || d.Actions[0].(PodAnnotation).Value != want {
			t.Fatalf("write %d: %v, want %q", i, d.Actions, want)
		}
		if s.Decide(g, &o, now.Add(time.Second), &d); len(d.Actions) != 0 {
			t.Errorf("write %d is repeated after a second: %v", i, d.Actions)
		}
		pod.DoNotDisrupt = Annotation{Value: want, Ours: true}
	}
}
