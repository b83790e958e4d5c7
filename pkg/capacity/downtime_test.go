package capacity

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// A user edits an overridden field while no leader runs. The next leader keeps the edit and does not override the field for ten minutes,
// as it does for an edit while a leader runs.
func TestEditWithoutLeaderStays(t *testing.T) {
	c, _, before := zeroLimitCluster(t)
	c.silent = true
	c.run(time.Minute)
	c.edit(0, "limits[nvidia.com/gpu]", `16`)
	c.silent, c.s = false, State{}
	writes := c.writes
	c.run(9 * time.Minute)
	if c.limit(0) != 16 || c.writes != writes || c.reason(explain.RuleForeignEdit) == nil {
		t.Errorf("limit %d after %d writes\n%s", c.limit(0), c.writes-writes, c.why())
	}
	if c.limit(1) != 0 {
		t.Error("the edit of one NodePool changed the other NodePool")
	}
	c.run(2 * time.Minute)
	if c.limit(0) != 0 {
		t.Errorf("limit %d, ten minutes later", c.limit(0))
	}
	c.releasing = true
	c.run(time.Minute)
	before[0] = strings.ReplaceAll(before[0], "limits[nvidia.com/gpu]=16 by kubectl", "limits[nvidia.com/gpu]=16 by kubectl-edit")
	c.untouched(before)
}

// A leader restores all values and crashes before it removes the record annotations. The next leader cannot distinguish this restore from
// an edit to the original values. It must override nothing for ten minutes, and must then remove the records.
func TestIncompleteRestoreLeavesNoRecord(t *testing.T) {
	c, chat, before := zeroLimitCluster(t)
	c.silent = true
	for pool := range c.pools {
		c.edit(pool, "limits[nvidia.com/gpu]", `16`)
	}
	chat.want = 1
	c.silent, c.s = false, State{}
	c.run(time.Minute)
	for i, p := range c.pools {
		if r, ok := recordOf(p.record); !ok || len(r.Fields) != 1 || r.Fields[0].On || r.Fields[0].Overwrites != 0 {
			t.Errorf("NodePool %s has the record %s, want one that contains only the wait", p.Name, p.record)
		}
		before[i] = strings.ReplaceAll(before[i], "limits[nvidia.com/gpu]=16 by kubectl", "limits[nvidia.com/gpu]=16 by kubectl-edit")
	}
	c.run(10 * time.Minute)
	c.untouched(before)
}

// A user sets an overridden field to its original value while no leader runs. The field is not overridden for ten minutes, even if the
// leader changes again within these ten minutes.
func TestEditToTheOriginalValueStaysAfterTwoChangesOfLeader(t *testing.T) {
	c, _, before := zeroLimitCluster(t)
	c.silent = true
	c.edit(0, "limits[nvidia.com/gpu]", `16`)
	c.silent, c.s = false, State{}
	for range 9 {
		c.run(time.Minute)
		c.s = State{}
		if c.limit(0) != 16 {
			t.Fatalf("limit %d at %s\n%s", c.limit(0), c.clock(), c.why())
		}
	}
	c.run(2 * time.Minute)
	if c.limit(0) != 0 {
		t.Errorf("limit %d, ten minutes later\n%s", c.limit(0), c.why())
	}
	c.releasing = true
	c.run(time.Minute)
	before[0] = strings.ReplaceAll(before[0], "limits[nvidia.com/gpu]=16 by kubectl", "limits[nvidia.com/gpu]=16 by kubectl-edit")
	c.untouched(before)
}

// The PlatformConfig names NodePools, and none of them exists. Targets must not be capped, because it is unknown which nodes these
// NodePools would provide. If at least one NodePool exists and no existing NodePool is ready, targets must be capped.
func TestMissingNodePoolsCapNoTarget(t *testing.T) {
	for name, w := range map[string]struct {
		gone, shut [2]bool
		capped     bool
	}{
		"both are misspelt":                          {gone: [2]bool{true, true}},
		"one is misspelt, the other open":            {gone: [2]bool{true, false}},
		"one is misspelt, the other not ready":       {gone: [2]bool{true, false}, shut: [2]bool{false, true}, capped: true},
		"both exist and neither is ready":            {shut: [2]bool{true, true}, capped: true},
		"both exist and one of the two is not ready": {shut: [2]bool{true, false}},
	} {
		c := newCluster(t, nil)
		for i, p := range c.pools {
			p.gone, p.ready = w.gone[i], !w.shut[i]
		}
		chat := c.add("team-chat/llama", 1)
		chat.want = 5
		for range 10 * 60 {
			c.step()
			if capped := chat.lastAdvice.Cap != NoAdvice.Cap; capped && !w.capped {
				t.Fatalf("%s: a cap of %d\n%s", name, chat.lastAdvice.Cap, c.why())
			}
		}
		if w.capped && c.s.TargetCap.Level == 0 {
			t.Errorf("%s: no cap\n%s", name, c.why())
		}
	}
}

// A limit may be overridden only while demand is known. While demand is unknown, a hard fallback does not limit spot and only changes the
// weight.
func TestHardFallbackSetsNoLimitWhileDemandIsUnknown(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.Fallback = Hard })
	chat := c.add("team-chat/llama", 1)
	chat.want = 4
	c.until(10*time.Minute, "four replicas are ready", c.whole(chat))
	for range 3 {
		c.lose(c.pools[0].nodes[0])
	}
	c.run(3 * time.Second)
	if c.d.Phase != statemachine.Fallback || c.limit(0) != 1 {
		t.Fatalf("%v, limit %d", c.d.Phase, c.limit(0))
	}
	c.known = false
	c.run(30 * time.Second)
	if c.d.Phase != statemachine.Fallback || c.limit(0) != 16 || c.pools[1].fields["weight"].Value != "81" {
		t.Errorf("unknown: %v, limit %d, weight %s\n%s", c.d.Phase, c.limit(0), c.pools[1].fields["weight"].Value, c.why())
	}
	writes := c.writes
	for i := range 60 { // demand is alternately known and unknown, for ten seconds each
		c.known = i%2 == 0
		c.run(10 * time.Second)
	}
	if c.writes != writes {
		t.Errorf("%d writes while demand alternates between known and unknown", c.writes-writes)
	}
	c.known = true
	c.run(2*time.Minute + 3*time.Second)
	if c.limit(0) == 16 {
		t.Errorf("demand is known again, and spot has no limit\n%s", c.why())
	}
}

func TestProbeSetsNoLimitWhileDemandIsUnknown(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.until(10*time.Minute, "three replicas are ready on spot", c.whole(chat))
	c.pools[0].denied = true
	chat.want = 6
	c.until(3*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.until(10*time.Minute, "six replicas are ready", c.whole(chat))
	c.pools[0].denied, c.pools[0].ready = false, false // Karpenter launches nothing in a NodePool that is not ready, so the probe waits
	c.until(20*time.Minute, "spot is probed", c.in(statemachine.Probing))
	c.run(3 * time.Second)
	if c.limit(0) != 4 {
		t.Fatalf("a probe with a limit of %d", c.limit(0))
	}
	c.known = false
	c.run(30 * time.Second)
	if c.d.Phase != statemachine.Probing || c.limit(0) != 16 {
		t.Errorf("%v, limit %d\n%s", c.d.Phase, c.limit(0), c.why())
	}
}

// A fallback must end eventually, even if demand stays unknown.
func TestFallbackEndsWhileDemandStaysUnknown(t *testing.T) {
	c := newCluster(t, nil)
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.until(10*time.Minute, "three replicas are ready on spot", c.whole(chat))
	c.pools[0].denied = true
	chat.want = 6
	c.until(3*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.known = false
	c.run(30 * time.Minute)
	if c.d.Phase != statemachine.Fallback {
		t.Errorf("phase %v after half an hour of unknown demand", c.d.Phase)
	}
	c.pools[0].denied = false
	c.until(2*time.Hour, "the fallback ends", func() bool { return c.d.Phase != statemachine.Fallback })
	if c.limit(0) != 16 {
		t.Errorf("limit %d", c.limit(0))
	}
	c.releasing = true
	c.run(time.Minute)
	c.untouched(before)
}

// If on-demand provides no node either, a group in a hard fallback must remove its limit on spot while pods wait.
func TestHardFallbackDoesNotLimitSpotWhileOnDemandIsClosed(t *testing.T) {
	for name, shut := range map[string]func(c *cluster, shut bool){
		"refused":   func(c *cluster, shut bool) { c.pools[1].denied = shut },
		"not ready": func(c *cluster, shut bool) { c.pools[1].ready = !shut },
		"at its limit": func(c *cluster, shut bool) {
			limit := nodepool.Value("16")
			if shut {
				limit = nodepool.Value(strconv.Itoa(c.nodes(1)))
			}
			c.pools[1].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: limit, Owner: "kubectl"}
		},
	} {
		c := newCluster(t, func(g *Group) { g.Fallback = Hard })
		before := c.specs()
		chat := c.add("team-chat/llama", 1)
		chat.want = 4
		c.until(10*time.Minute, "four replicas are ready", c.whole(chat))
		for range 3 {
			c.lose(c.pools[0].nodes[0])
		}
		c.run(3 * time.Second)
		if c.d.Phase != statemachine.Fallback || c.limit(0) != 1 {
			t.Fatalf("%s: %v, limit %d", name, c.d.Phase, c.limit(0))
		}
		shut(c, true)
		began := c.now
		c.until(6*time.Minute, "all are ready on spot: "+name, func() bool { return chat.ready() >= 4 })
		if c.d.Phase != statemachine.Fallback || c.pools[1].fields["weight"].Value != "81" {
			t.Errorf("%s: %v after %v, weight %s\n%s", name, c.d.Phase, c.now.Sub(began), c.pools[1].fields["weight"].Value, c.why())
		}
		shut(c, false)
		chat.want = 4
		c.run(4 * time.Minute)
		if c.d.Phase == statemachine.Fallback && c.limit(0) == 16 {
			t.Errorf("%s: no pod waits any more, and spot has no limit\n%s", name, c.why())
		}
		c.releasing = true
		c.run(time.Minute)
		c.untouched(before)
	}
}

// Spot and on-demand refuse launches for half an hour. The target cap ends from time to time for another attempt, but both NodePools
// still refuse launches. Spot must not be limited again during this half hour.
func TestSpotStaysUnlimitedWhileBothNodePoolsRefuse(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.Fallback = Hard })
	chat := c.add("team-chat/llama", 1)
	chat.want = 4
	c.until(10*time.Minute, "four replicas are ready", c.whole(chat))
	c.pools[0].denied, c.pools[1].denied = true, true
	for range 3 {
		c.lose(c.pools[0].nodes[0])
	}
	c.until(6*time.Minute, "spot closes", func() bool { return c.limit(0) == 1 })
	c.until(6*time.Minute, "spot opens", func() bool { return c.limit(0) == 16 })
	capped, closed := 0, 0
	began := c.now
	for c.now.Sub(began) < 30*time.Minute {
		c.step()
		if c.s.TargetCap.On {
			capped++
		}
		if c.limit(0) != 16 {
			closed++
		}
	}
	if closed > 0 || capped == 0 {
		t.Errorf("closed for %d steps, capped for %d\n%s", closed, capped, c.why())
	}
}
