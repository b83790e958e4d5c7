package capacity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

func (c *cluster) nodes(pool int) int { return len(c.pools[pool].nodes) }

func (c *cluster) whole(l *simLoad) func() bool {
	return func() bool { return l.ready() == l.want && len(l.pods) == int(l.want) }
}

func (c *cluster) in(p statemachine.Phase) func() bool { return func() bool { return c.d.Phase == p } }

// limit returns the limit of a NodePool, or -1 if it has none.
func (c *cluster) limit(pool int) int64 {
	n, ok := c.pools[pool].fields["limits[nvidia.com/gpu]"].Value.Number()
	if !ok {
		return -1
	}
	return n
}

func (c *cluster) reason(r explain.Rule) *explain.Reason {
	for i := range c.d.Reasons {
		if c.d.Reasons[i].Rule == r {
			return &c.d.Reasons[i]
		}
	}
	return nil
}

func (c *cluster) finding(k explain.FindingKind) *explain.Finding {
	for i := range c.d.Findings {
		if c.d.Findings[i].Kind == k {
			return &c.d.Findings[i]
		}
	}
	return nil
}

// untouched fails the test unless every NodePool has the given spec and has neither an override nor a record annotation.
func (c *cluster) untouched(want []string) {
	c.t.Helper()
	for i, p := range c.pools {
		if got := c.spec(i); got != want[i] || p.record != "" {
			c.t.Errorf("%s: NodePool %s is not restored:\n%s\nrecord %s\nwant\n%s\n%s", c.clock(), p.Name, got, p.record, want[i], c.why())
		}
		for name, f := range p.fields {
			if f.Ours {
				c.t.Errorf("%s: gpuscaler still owns %s of NodePool %s", c.clock(), name, p.Name)
			}
		}
	}
}

func (c *cluster) specs() (all []string) {
	for i := range c.pools {
		all = append(all, c.spec(i))
	}
	return all
}

func TestFallbackAndReturnOneByOne(t *testing.T) {
	c := newCluster(t, nil)
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.until(10*time.Minute, "three replicas are ready on spot", c.whole(chat))
	c.untouched(before)
	c.pools[0].denied = true
	chat.want = 6
	c.until(3*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.until(10*time.Minute, "six replicas are ready", c.whole(chat))
	if c.nodes(0) != 3 || c.nodes(1) != 3 {
		t.Errorf("%d on spot, %d on demand\n%s", c.nodes(0), c.nodes(1), c.why())
	}
	chat.minimum = chat.ready()
	c.until(18*time.Minute, "spot is probed", c.in(statemachine.Probing)) // the fallback lasts 15 minutes, plus or minus 20 percent
	if c.limit(0) != 4 {
		t.Errorf("a probe with a limit of %d, although 3 nodes run", c.limit(0))
	}
	c.until(time.Minute, "the probe is refused", c.in(statemachine.Fallback))
	began := c.now
	c.until(36*time.Minute, "spot is probed again", c.in(statemachine.Probing))
	if wait := c.now.Sub(began); wait < 24*time.Minute {
		t.Errorf("the second fallback lasted %v, the first 15 minutes", wait)
	}
	c.pools[0].denied = false
	c.until(10*time.Minute, "the probe holds", c.in(statemachine.Returning))
	moves := []int64{c.s.Spot.Moved}
	for on := c.nodes(1); on > 0; on = c.nodes(1) {
		c.until(25*time.Minute, "a node is removed", func() bool { return c.nodes(1) < on })
		if moved := c.s.Spot.Moved; moved != moves[len(moves)-1] {
			moves = append(moves, moved)
		}
	}
	for i := 1; i < len(moves); i++ {
		if pace := statemachine.Instant(moves[i]).Sub(statemachine.Instant(moves[i-1])); pace < 15*time.Minute {
			t.Errorf("two nodes were emptied within %v at a pace of 4 per hour", pace)
		}
	}
	c.until(5*time.Minute, "the group is as it was", c.in(statemachine.PreferSpot))
	if chat.minimum < 6 {
		t.Errorf("at least %d of 6 replicas ready, want 6", chat.minimum)
	}
	c.run(5 * time.Minute)
	c.untouched(before)
	if c.writes > 12 {
		t.Errorf("%d writes to NodePools:\n%s", c.writes, strings.Join(c.log, "\n"))
	}
}

func TestHardFallbackLimitsSpotToItsSize(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.Fallback = Hard })
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	chat.want = 4
	c.until(10*time.Minute, "four replicas are ready", c.whole(chat))
	for range 3 {
		c.lose(c.pools[0].nodes[0])
	}
	c.step()
	if c.d.Phase != statemachine.Fallback || c.limit(0) != 1 {
		t.Errorf("three of four lost at once: %v, limit %d\n%s", c.d.Phase, c.limit(0), c.why())
	}
	c.until(10*time.Minute, "four replicas are ready again", func() bool { return chat.ready() >= 4 })
	if c.nodes(0) != 1 || c.nodes(1) < 3 {
		t.Errorf("%d on spot, %d on demand", c.nodes(0), c.nodes(1))
	}
	c.run(20 * time.Minute)
	chat.minimum = 4
	c.until(4*time.Hour, "everything is back", func() bool { return c.nodes(1) == 0 && c.d.Phase == statemachine.PreferSpot })
	c.run(5 * time.Minute)
	c.untouched(before)
	if chat.minimum < 4 {
		t.Errorf("at least %d of 4 replicas ready during the return, want 4", chat.minimum)
	}
}

func TestKarpenterDeletionsAreNoLosses(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 6
	c.until(10*time.Minute, "six replicas are ready", c.whole(chat))
	chat.want = 1
	c.run(10 * time.Minute) // Karpenter removes five empty nodes
	if c.nodes(0) != 1 || c.d.Phase != statemachine.PreferSpot || c.writes > 0 {
		t.Errorf("%d nodes, %v, %d writes\n%s", c.nodes(0), c.d.Phase, c.writes, c.why())
	}
}

func TestFewRefusalsCauseNoFallback(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.pools[0].failures = []evidence.Failure{{UID: "a", At: c.now, Capacity: true}, {UID: "b", At: c.now, Capacity: true}}
	// each refusal is twice in the list, because Kubernetes repeats Events
	c.pools[0].failures = append(c.pools[0].failures, c.pools[0].failures...)
	for i := range 9 {
		// failures for another reason than lack of capacity are ignored
		c.pools[0].failures = append(c.pools[0].failures, evidence.Failure{UID: string(rune('c' + i)), At: c.now})
	}
	c.run(20 * time.Minute)
	if len(c.phases) != 1 || c.phases[0] != statemachine.PreferSpot {
		t.Errorf("phases %v", c.phases)
	}
}

func TestInterruptedProbeFails(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.pools[0].denied = true
	c.until(5*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.pools[0].denied = false
	c.until(20*time.Minute, "spot is probed", c.in(statemachine.Probing))
	c.until(5*time.Minute, "a spot node is usable", func() bool { return c.nodes(0) == 1 && c.pools[0].nodes[0].usable })
	c.lose(c.pools[0].nodes[0])
	c.step()
	if c.d.Phase != statemachine.Fallback || c.s.Spot.Level != 2 {
		t.Errorf("%v, level %d", c.d.Phase, c.s.Spot.Level)
	}
}

func TestReturnMovesNoJobStatefulSetOrPausedWorkload(t *testing.T) {
	c := newCluster(t, nil)
	stateful, paused := c.add("team/db", 1), c.add("team/paused", 1)
	stateful.owner, stateful.want = OwnerStatefulSet, 1
	paused.want = 1
	job := &simPod{uid: "job", name: "job", gpus: 1, since: c.now, pinned: true}
	c.other = append(c.other, job)
	c.pools[0].denied = true
	c.until(20*time.Minute, "all run on demand", func() bool { return stateful.ready()+paused.ready() == 2 && job.node != nil })
	c.pools[0].denied, paused.paused = false, true
	nodes := slices.Clone(c.pools[1].nodes)
	c.pools[1].fields["disruption.consolidationPolicy"] = nodepool.FieldView{Value: `"WhenEmpty"`}
	c.run(3 * time.Hour)
	if !slices.Equal(nodes, c.pools[1].nodes) || c.nodes(0) != 0 {
		t.Errorf("nodes %d and %d\n%s", c.nodes(0), c.nodes(1), c.why())
	}
	if f := c.finding(explain.FindUnmovable); f == nil || f.Name != "team/db" || f.Count != 1 {
		t.Errorf("findings %+v", c.d.Findings)
	}
	if c.d.Phase != statemachine.PreferSpot || c.pools[1].record != "" {
		t.Errorf("phase %v: a freeze although no replica can move\n%s", c.d.Phase, c.why())
	}
}

func TestGrowingDemandKeepsTheSurge(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.pools[0].denied = true
	c.until(15*time.Minute, "two replicas are ready on demand", c.whole(chat))
	c.pools[0].denied = false
	c.until(time.Hour, "a pod is marked", func() bool { return c.s.Move.Step == statemachine.Annotating })
	chat.want = 4
	chat.minimum = chat.ready()
	c.run(40 * time.Minute)
	if chat.minimum < 2 || chat.ready() < 4 {
		t.Errorf("at least %d ready, %d now\n%s", chat.minimum, chat.ready(), c.why())
	}
	c.until(2*time.Hour, "all are back on spot", func() bool { return c.nodes(1) == 0 && c.d.Phase == statemachine.PreferSpot })
	for _, p := range chat.pods {
		if p.cost.Value != "" {
			t.Errorf("pod %s keeps its deletion cost", p.name)
		}
	}
}

func TestLargeNodesAreEmptiedOneByOne(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ReturnNodesPerHour = 1 })
	chat := c.add("team-chat/llama", 1)
	for _, p := range c.pools {
		p.gpus = 4
	}
	chat.want = 8
	c.pools[0].denied = true
	c.until(20*time.Minute, "eight replicas are ready on two nodes", c.whole(chat))
	c.pools[0].denied = false
	c.until(time.Hour, "a node is chosen", func() bool { return c.s.Move.Step == statemachine.Surging })
	began, first := c.now, c.s.Move.Node
	chat.minimum = chat.ready()
	c.until(time.Hour, "the first node is gone", func() bool { return c.nodes(1) == 1 })
	if c.pools[1].nodes[0].name == first {
		t.Error("a node that was not chosen was removed")
	}
	if took := c.now.Sub(began); took > 40*time.Minute {
		t.Errorf("four replicas of one node took %v: the pace counts nodes", took)
	}
	c.until(3*time.Hour, "the second is gone", func() bool { return c.nodes(1) == 0 })
	if c.now.Sub(began) < time.Hour || chat.minimum < 8 {
		t.Errorf("after %v, %d ready at the least", c.now.Sub(began), chat.minimum)
	}
}

func TestBaseRunsOnDemandAndTheRestOnSpot(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.OnDemandBase = 2 })
	before := c.specs()
	c.run(3 * time.Minute) // after this time, demand has been known for trustInterval, so limits may depend on it
	chat := c.add("team-chat/llama", 1)
	chat.want = 5
	c.until(10*time.Minute, "five replicas are ready", c.whole(chat))
	if c.nodes(0) != 3 || c.nodes(1) != 2 || c.limit(1) != 2 {
		t.Errorf("%d on spot, %d on demand, limit %d\n%s", c.nodes(0), c.nodes(1), c.limit(1), c.why())
	}
	c.run(2 * time.Hour)
	if c.nodes(0) != 3 || c.nodes(1) != 2 || chat.minimum < 0 {
		t.Errorf("later %d on spot, %d on demand\n%s", c.nodes(0), c.nodes(1), c.why())
	}
	c.pools[0].denied = true
	chat.want = 7
	c.until(2*time.Minute, "on-demand may grow", c.in(statemachine.Fallback))
	c.until(10*time.Minute, "seven replicas are ready", c.whole(chat))
	c.pools[0].denied = false
	chat.minimum = chat.ready()
	c.until(5*time.Hour, "all but the base is back on spot", func() bool { return c.nodes(1) == 2 && c.d.Phase == statemachine.PreferSpot })
	c.run(time.Hour)
	if c.nodes(0) != 5 || c.nodes(1) != 2 || chat.minimum < 7 {
		t.Errorf("%d on spot, %d on demand, %d ready at the least\n%s", c.nodes(0), c.nodes(1), chat.minimum, c.why())
	}
	c.releasing = true
	c.run(time.Minute)
	c.untouched(before)
}

func TestPodsWaitForTheSpotWaitTimeout(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.SpotWaitTimeout = 4 * time.Minute })
	before := c.specs()
	c.run(3 * time.Minute)
	if c.limit(1) != 0 || c.finding(explain.FindPermanentLimit) == nil {
		t.Errorf("limit %d on an on-demand pool without nodes\n%s", c.limit(1), c.why())
	}
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.boot = 6 * time.Minute
	c.run(15 * time.Minute) // a cold start that is longer than the spot wait timeout does not count as waiting
	if chat.ready() != 2 || c.nodes(0) != 2 || len(c.phases) != 1 {
		t.Errorf("%d ready, %d on spot, %v", chat.ready(), c.nodes(0), c.phases)
	}
	c.boot = 90 * time.Second
	c.pools[0].denied = true
	chat.want = 3
	began := c.now
	c.until(10*time.Minute, "on-demand may grow", c.in(statemachine.Fallback))
	if waited := c.now.Sub(began); waited < 4*time.Minute || waited > 4*time.Minute+5*time.Second {
		t.Errorf("waited %v", waited)
	}
	if c.limit(1) != 16 || c.d.Actions == nil {
		t.Errorf("limit %d after the spot wait timeout", c.limit(1))
	}
	c.until(10*time.Minute, "three are ready", c.whole(chat))
	c.pools[0].denied = false
	c.until(4*time.Hour, "the third is back on spot", func() bool { return c.nodes(1) == 0 && c.d.Phase == statemachine.PreferSpot })
	c.known = false
	c.run(2 * time.Second)
	if c.limit(1) != 16 {
		t.Errorf("demand is unknown, and the limit is %d", c.limit(1))
	}
	c.known = true
	c.run(5 * time.Minute)
	if c.limit(1) != 0 {
		t.Errorf("limit %d after demand is known again", c.limit(1))
	}
	o := c.observe()
	c.s.Shutdown(c.g, &o, c.now, &c.d)
	c.apply()
	c.silent = true
	c.run(time.Minute)
	if c.limit(1) != 16 || c.spec(1) != before[1] {
		t.Errorf("after a shutdown:\n%s", c.spec(1))
	}
}

func TestSpotWaitTimeoutWithoutConsentIsReported(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.SpotWaitTimeout, g.OnDemandBase = 4*time.Minute, 1 })
	c.pools[1].consent = nodepool.ConsentWeight
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.pools[0].denied = true
	c.until(5*time.Minute, "the group falls back on evidence", c.in(statemachine.Fallback))
	c.run(2 * time.Hour)
	if f := c.finding(explain.FindNotConsented); c.limit(1) != 16 || c.d.Phase != statemachine.Fallback && f == nil {
		t.Errorf("limit %d, findings %+v", c.limit(1), c.d.Findings)
	}
}
