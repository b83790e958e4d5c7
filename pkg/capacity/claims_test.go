package capacity

import (
	"strings"
	"testing"
	"time"
)

// A pod requests GPUs by a resource claim (dynamic resource allocation). Such GPUs are not counted yet, so demand is unknown and the zero
// limit is removed.
func TestZeroLimitIsRemovedForPodsWithResourceClaims(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit = true })
	c.add("team-chat/llama", 1)
	c.run(10 * time.Minute)
	if c.limit(0) != 0 || c.limit(1) != 0 {
		t.Fatalf("limits %d and %d, want the zero limit\n%s", c.limit(0), c.limit(1), c.why())
	}
	before := c.writes
	job := &simPod{uid: "job", name: "job", since: c.now, claims: true}
	c.other = append(c.other, job)
	c.run(2 * time.Second)
	if c.limit(0) != 16 || c.limit(1) != 16 || !c.d.Demand.Unknown {
		t.Errorf("a pod with a claim waits: limits %d and %d, demand %+v\n%s", c.limit(0), c.limit(1), c.d.Demand, c.why())
	}
	job.ready = true
	c.run(time.Hour)
	if c.limit(0) != 16 || c.writes != before+2 {
		t.Errorf("an hour later: limit %d, %d writes", c.limit(0), c.writes-before)
	}
	if f := c.finding(FindClaims); f == nil || f.Count != 1 || !strings.Contains(f.Text(c.g), "jobs/job") {
		t.Errorf("finding %+v", f)
	}
	c.other = nil
	c.run(10 * time.Minute)
	if c.limit(0) != 0 || c.finding(FindClaims) != nil {
		t.Errorf("it has ended: limit %d\n%s", c.limit(0), c.why())
	}
}

// Demand is unknown as soon as the target is above 0, even if no pod exists yet, because the workload's pod template has a resource claim.
func TestResourceClaimsMakeDemandUnknown(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit, g.SpotWaitTimeout = true, 2*time.Minute })
	chat := c.add("team-chat/llama", 0)
	chat.claims = true
	c.run(10 * time.Minute)
	if c.limit(0) != 0 {
		t.Fatalf("no replica is requested: limit %d\n%s", c.limit(0), c.why())
	}
	chat.want, chat.quota = 1, true // the pod itself does not exist yet
	c.run(2 * time.Second)
	if c.limit(0) != 16 || c.limit(1) != 16 || !c.d.Demand.Unknown {
		t.Errorf("limits %d and %d, demand %+v\n%s", c.limit(0), c.limit(1), c.d.Demand, c.why())
	}
	if f := c.finding(FindClaims); f == nil || !strings.Contains(f.Text(c.g), "team-chat/llama") {
		t.Errorf("finding %+v", f)
	}
}
