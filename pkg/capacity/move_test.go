package capacity

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// returning returns a cluster in the phase Returning: its two replicas run on on-demand nodes, and the probe of spot has succeeded.
func returning(t *testing.T) (*cluster, *simLoad) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.pools[0].denied = true
	c.until(15*time.Minute, "two replicas are ready on demand", c.whole(chat))
	c.pools[0].denied = false
	c.until(time.Hour, "spot has proven itself", c.in(statemachine.Returning))
	return c, chat
}

func TestTargetFallsAfterTheAnnotationIsObserved(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.pools[0].denied = true
	c.until(15*time.Minute, "two replicas are ready on demand", c.whole(chat))
	c.pools[0].denied = false
	c.until(time.Hour, "the successor is ready", func() bool { return chat.ready() == 3 })
	// without annotations of the old pods, the ReplicaSet would delete the youngest pod, which is the successor
	c.deaf = true
	c.run(10 * time.Minute)
	if c.s.Move.Step != statemachine.Annotating || chat.lastAdvice.Surge != 1 || len(chat.pods) != 3 {
		t.Errorf("step %d, advice %+v, %d pods", c.s.Move.Step, chat.lastAdvice, len(chat.pods))
	}
	victim := c.s.Move.Victims[0]
	c.deaf = false
	c.run(30 * time.Second)
	for _, p := range chat.pods {
		if p.uid == victim {
			t.Errorf("the marked pod is still there\n%s", c.why())
		}
	}
}

func TestNoMoveWhilePodsWaitOrDemandArrivesOrIsUnknown(t *testing.T) {
	for name, trouble := range map[string]func(c *cluster, l *simLoad){
		"another workload's pods wait": func(c *cluster, _ *simLoad) {
			c.pools[0].ready, c.pools[1].ready = false, false
			c.add("team-embed/worker", 1).want = 1
		},
		"demand arrives": func(c *cluster, _ *simLoad) {
			c.ahead = []Span{{From: c.now.Add(time.Minute), Until: c.now.Add(3 * time.Hour), GPUs: 2}}
		},
		"demand is not known": func(c *cluster, _ *simLoad) { c.known = false },
		"the workload is not whole": func(c *cluster, l *simLoad) {
			l.want += 3
			l.neverReady = true
		},
	} {
		c, chat := returning(t)
		c.until(20*time.Minute, "the first node is moved", func() bool { return c.nodes(1) == 1 && c.s.Move.Step == statemachine.NoMove })
		trouble(c, chat)
		for range 40 * 60 {
			if c.step(); c.d.Phase == statemachine.Returning && chat.lastAdvice.Surge > 0 {
				t.Errorf("%s, and a move begins\n%s", name, c.why())
				break
			}
		}
	}
}

// The provider takes the node of a replica while a successor for its move loads on spot. The successor must replace this replica, and no
// second successor may be added.
func TestReplicaAtRiskThatMovesHasOneSuccessor(t *testing.T) {
	c, chat := returning(t)
	c.until(20*time.Minute, "a successor loads", func() bool {
		return c.s.Move.Step == statemachine.Surging && len(chat.pods) == 3 && chat.pods[2].node != nil
	})
	victim := chat.pods[slices.IndexFunc(chat.pods, func(p *simPod) bool { return c.s.Move.Has(p.uid) })]
	victim.node.notice = true
	c.until(30*time.Second, "the notice is observed", func() bool { return c.d.Advice[0].AtRisk == 1 })
	if a := c.d.Advice[0]; a.Surge != 0 {
		t.Errorf("advice %+v\n%s", a, c.why())
	}
	c.run(10 * time.Second)
	c.lose(victim.node)
	c.until(5*time.Minute, "two replicas are ready", c.whole(chat))
}

// A replica is added because a node drifts, and loads for a long time. No other replica may move to spot during this time.
func TestNoMoveDuringASurge(t *testing.T) {
	c := newCluster(t, nil)
	chat, embed := c.add("team-chat/llama", 1), c.add("team-embed/worker", 1)
	chat.want, embed.want = 2, 1
	c.pools[0].denied = true
	c.until(15*time.Minute, "all replicas are ready on demand", func() bool { return c.whole(chat)() && c.whole(embed)() })
	c.pools[0].denied = false
	c.until(time.Hour, "spot has proven itself", c.in(statemachine.Returning))
	c.until(20*time.Minute, "the first node is moved", func() bool { return c.nodes(1) == 2 && c.s.Move.Step == statemachine.NoMove })
	embed.pods[0].node.drifted, embed.neverReady = true, true
	c.until(time.Minute, "a second replica is requested", func() bool { return c.d.Advice[1].Surge == 1 })
	for c.d.Advice[1].Surge == 1 {
		if c.step(); c.s.Move.Step != statemachine.NoMove && c.s.runningSurges() > 0 {
			t.Fatalf("%s: a move begins\n%s", c.clock(), c.why())
		}
	}
	c.until(time.Hour, "the next replica moves after the surge", func() bool { return c.s.Move.Step != statemachine.NoMove })
}

func TestMoveEndsWithoutItsPreconditions(t *testing.T) {
	for name, event := range map[string]func(c *cluster, l *simLoad){
		"the policy is deleted": func(c *cluster, _ *simLoad) { c.loads = nil },
		"a person pauses it":    func(_ *cluster, l *simLoad) { l.paused = true },
		"its readings are lost": func(_ *cluster, l *simLoad) { l.unknown = true },
		"another manager annotates the pod": func(_ *cluster, l *simLoad) {
			l.pods[0].cost, l.pods[1].cost = Annotation{"5", false}, Annotation{"5", false}
		},
		"spot is refused once more": func(c *cluster, _ *simLoad) {
			for i := range 3 {
				c.pools[0].losses = append(c.pools[0].losses, evidence.Loss{UID: string(rune('a' + i)), At: c.now})
			}
		},
	} {
		c, chat := returning(t)
		c.deaf = true
		c.run(2 * time.Second)
		event(c, chat)
		c.run(2 * time.Second)
		if m := c.s.Move; m.Step == statemachine.Shrinking || len(c.d.Advice) > 0 && c.d.Advice[0].Surge != 0 {
			t.Errorf("%s: %+v, advice %+v", name, m, c.d.Advice)
		}
	}
}

func TestBootingNodeIsNoShortageButRequestedClaimIs(t *testing.T) {
	old := midnight.Add(-time.Hour)
	for name, n := range map[string]struct {
		node Node
		want int64
	}{
		"it boots":                        {Node{Stage: Launched, GPUs: 8, Created: midnight}, 0},
		"it has no instance yet":          {Node{Stage: Requested, GPUs: 8, Created: midnight}, 8},
		"it boots for an hour":            {Node{Stage: Launched, GPUs: 8, Created: old}, 8},
		"it is ready, and free":           {Node{Stage: Usable, Ready: true, GPUs: 8, Created: old}, 0},
		"it is not ready":                 {Node{Stage: Usable, GPUs: 8, Created: old}, 8},
		"it is full":                      {Node{Stage: Usable, Ready: true, GPUs: 8, Used: 8, Created: old}, 8},
		"it has room for half of a pod":   {Node{Stage: Usable, Ready: true, GPUs: 8, Used: 6, Created: old}, 8},
		"it has room for one of two pods": {Node{Stage: Usable, Ready: true, GPUs: 8, Used: 4, Created: old}, 4},
		"it is going":                     {Node{Stage: Usable, Ready: true, GPUs: 8, Created: old, Deleting: true}, 8},
	} {
		g, err := NewGroup(Group{Resource: "nvidia.com/gpu", Pools: []Pool{{"a", Spot}}})
		if err != nil {
			t.Fatal(err)
		}
		pods := []Pod{{UID: "1", GPUs: 4, Pool: -1, Pending: true}, {UID: "2", GPUs: 4, Pool: -1, Pending: true}}
		o := Observation{Pools: []PoolView{{Exists: true, Ready: true, Nodes: []Node{n.node}}}, UnmanagedPods: pods}
		if d, _ := Decide(g, o, State{}, midnight); d.Demand.Pending != n.want || d.Demand.UnmanagedPods != 8 {
			t.Errorf("%s: %+v, want %d", name, d.Demand, n.want)
		}
	}
}
