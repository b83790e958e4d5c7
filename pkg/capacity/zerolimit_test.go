package capacity

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// zeroLimitCluster returns a cluster whose NodePools have the zero limit, the workload of the cluster, which has no pods, and the
// original specs of the NodePools.
func zeroLimitCluster(t *testing.T) (*cluster, *simLoad, []string) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit, g.LeadTime = true, 5*time.Minute })
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	c.run(statemachine.ZeroLimitDelay)
	if c.limit(0) != 16 || c.reason(explain.RuleNoZeroLimit) == nil {
		t.Errorf("a zero limit after %v: limit %d", statemachine.ZeroLimitDelay, c.limit(0))
	}
	c.run(2 * time.Second)
	if c.limit(0) != 0 || c.limit(1) != 0 {
		t.Errorf("no zero limit: %d, %d\n%s", c.limit(0), c.limit(1), c.why())
	}
	return c, chat, before
}

func TestZeroLimitIsRemovedBeforeTheTargetRises(t *testing.T) {
	c, chat, before := zeroLimitCluster(t)
	c.run(time.Hour)
	if c.writes != 2 {
		t.Errorf("%d writes in a quiet hour", c.writes)
	}
	chat.want = 1 // the target is 1, but no pod exists yet
	o := c.observe()
	c.s.Decide(c.g, &o, c.now.Add(time.Second), &c.d)
	for _, a := range c.d.Actions {
		if p, ok := a.(NodePoolPatch); !ok || !p.Loosens || p.Changes[0].To != "16" {
			t.Errorf("%+v", a)
		}
	}
	c.apply()
	for i, want := range before {
		if c.spec(i) != want {
			t.Errorf("%s", c.spec(i))
		}
	}
	c.run(5 * time.Second)
	c.untouched(before)
	c.until(5*time.Minute, "the replica is ready", c.whole(chat))
}

func TestEveryDoubtRemovesTheZeroLimit(t *testing.T) {
	for name, doubt := range map[string]struct {
		do    func(c *cluster, l *simLoad)
		after time.Duration
		lift  explain.LiftReason
	}{
		"a Job without a policy pends": {func(c *cluster, _ *simLoad) {
			c.other = append(c.other, &simPod{uid: "job", gpus: 8, since: c.now})
		}, 2 * time.Second, explain.LiftedByPendingPod},
		"a pod of unknown placement pends": {func(c *cluster, _ *simLoad) {
			c.other = append(c.other, &simPod{uid: "odd", gpus: 1, since: c.now, unsure: true})
		}, 61 * time.Second, explain.LiftedByPendingPod},
		"signals are lost":      {func(_ *cluster, l *simLoad) { l.unknown = true }, 2 * time.Second, explain.LiftedByUnknownDemand},
		"a cache is not synced": {func(c *cluster, _ *simLoad) { c.known = false }, 2 * time.Second, explain.LiftedByUnknownDemand},
		"a window opens in 6 minutes": {func(c *cluster, l *simLoad) {
			c.ahead = []Span{{From: c.now.Add(6*time.Minute + 2*time.Second), Until: c.now.Add(time.Hour), GPUs: 2, Workload: l.key, Replicas: 2}}
		}, 4 * time.Second, explain.LiftedByKnownDemand},
	} {
		c, chat, _ := zeroLimitCluster(t)
		c.pools[0].denied, c.pools[1].denied = true, true
		doubt.do(c, chat)
		c.run(doubt.after - 2*time.Second)
		if c.limit(0) != 0 {
			t.Errorf("%s: the zero limit was removed too early", name)
		}
		c.run(2 * time.Second)
		if c.limit(0) != 16 || c.limit(1) != 16 {
			t.Errorf("%s: the limit is 0\n%s", name, c.why())
		}
		if r := c.reason(explain.RuleNoZeroLimit); r == nil || explain.LiftReason(r.A) != doubt.lift {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestRestartKeepsTheZeroLimitOfItsRecord(t *testing.T) {
	c, _, before := zeroLimitCluster(t)
	writes := c.writes
	c.s = State{}
	c.run(10 * time.Minute)
	if c.limit(0) != 0 || c.writes != writes {
		t.Errorf("a restart wrote %d times, limit %d", c.writes-writes, c.limit(0))
	}
	c.s = State{}
	for _, p := range c.pools {
		p.record = "" // a user removes the record annotations
	}
	c.run(30 * time.Second)
	for i := range c.pools {
		if c.limit(i) != -1 || c.pools[i].record != "" {
			t.Errorf("limit %d, record %q", c.limit(i), c.pools[i].record)
		}
	}
	_ = before // unused: without record annotations, gpuscaler cannot restore the original specs
}

func TestJobPreventsTheZeroLimit(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit = true })
	c.add("team-chat/llama", 1)
	job := &simPod{uid: "job", name: "job", gpus: 1, since: c.now}
	c.other = []*simPod{job}
	c.run(6 * time.Hour)
	if c.writes > 0 || job.node == nil {
		t.Errorf("%d writes, node %v", c.writes, job.node)
	}
}
