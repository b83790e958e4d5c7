package capacity

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// A pod requests GPUs by a resource claim (dynamic resource allocation). gpuscaler does not count such GPUs, so demand is unknown and the
// zero limit is removed.
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
	if f := c.finding(explain.FindClaims); f == nil || f.Count != 1 || !strings.Contains(f.Text(c.g.Names()), "jobs/job") {
		t.Errorf("finding %+v", f)
	}
	c.other = nil
	c.run(10 * time.Minute)
	if c.limit(0) != 0 || c.finding(explain.FindClaims) != nil {
		t.Errorf("the pod has ended: limit %d, want the zero limit\n%s", c.limit(0), c.why())
	}
}

// A gang is incomplete: some of its pods do not exist yet. The missing pods are demand, but the finding must count only existing pods,
// because a user can find only existing pods.
func TestMissingPodsOfAGangAreNotReportedAsHeld(t *testing.T) {
	c := newCluster(t, nil)
	o := c.observe()
	o.UnmanagedPods = []Pod{
		{UID: "train-0", Namespace: "jobs", Name: "train-0", GPUs: 1, Pool: -1, Node: -1, Pending: true, Held: true},
		{Namespace: "jobs", Name: "train", GPUs: 3, Pool: -1, Node: -1, Pending: true, Held: true},
	}
	d, _ := Decide(c.g, o, State{}, c.now)
	var found []explain.Finding
	for _, f := range d.Findings {
		if f.Kind == explain.FindHeld {
			found = append(found, f)
		}
	}
	if len(found) != 1 || found[0].Count != 1 || found[0].Name != "jobs/train-0" || d.Demand.UnmanagedPods != 4 {
		t.Errorf("findings %+v, demand %+v", found, d.Demand)
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
	chat.want, chat.quota = 1, true // the API server rejects the pod, so no pod exists yet
	c.run(2 * time.Second)
	if c.limit(0) != 16 || c.limit(1) != 16 || !c.d.Demand.Unknown {
		t.Errorf("limits %d and %d, demand %+v\n%s", c.limit(0), c.limit(1), c.d.Demand, c.why())
	}
	if f := c.finding(explain.FindClaims); f == nil || !strings.Contains(f.Text(c.g.Names()), "team-chat/llama") {
		t.Errorf("finding %+v", f)
	}
}

// node adds a usable node to the spot NodePool, such as a node that an administrator created.
func (c *cluster) node(gpus int64) *simNode {
	n := &simNode{name: c.id("manual"), created: c.now, changed: c.now, usable: true, pool: c.pools[0]}
	c.pools[0].gpus = gpus
	c.pools[0].nodes = append(c.pools[0].nodes, n)
	return n
}

// A Job claims two devices that are included in the demand. Karpenter ignores the pod and launches no node for it. That the pod waits
// does not show that spot has no capacity: the group must not fall back to on-demand, lower a limit or cap a target. When the pod has a
// node, the demand is known. The zero limit is set again after the pod has ended.
func TestPodWithCountedClaims(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit, g.SpotWaitTimeout = true, 2*time.Minute })
	c.add("team-chat/llama", 1)
	c.run(10 * time.Minute)
	if c.limit(0) != 0 {
		t.Fatalf("limit %d, want the zero limit\n%s", c.limit(0), c.why())
	}
	job := &simPod{uid: "job", name: "job", since: c.now, gpus: 2, claimed: true}
	c.other = append(c.other, job)
	c.run(2 * time.Second)
	if c.limit(0) != 16 || c.limit(1) != 16 {
		t.Errorf("a pod with a claim waits: limits %d and %d\n%s", c.limit(0), c.limit(1), c.why())
	}
	c.run(time.Hour)
	if d := c.d.Demand; d.UnmanagedPods != 2 || !d.Unknown || d.Pending != 0 {
		t.Errorf("demand %+v, want 2 and unknown, with no evidence about spot", d)
	}
	if c.limit(0) != 16 || c.limit(1) != 16 || c.d.Phase != statemachine.PreferSpot || c.lastAdvice() != NoAdvice {
		t.Errorf("an hour later: limits %d and %d, phase %s, advice %+v\n%s", c.limit(0), c.limit(1), c.d.Phase, c.lastAdvice(), c.why())
	}
	f := c.finding(explain.FindPendingClaims)
	if f == nil || f.Count != 1 || !strings.Contains(f.Text(c.g.Names()), "jobs/job") || !strings.Contains(f.Text(c.g.Names()),
		"--ignore-dra-requests") {
		t.Errorf("finding %+v", f)
	}

	c.node(2)
	c.run(10 * time.Second)
	if d := c.d.Demand; job.node == nil || d.UnmanagedPods != 2 || d.Unknown || c.finding(explain.FindPendingClaims) != nil {
		t.Errorf("the pod is on a node: demand %+v\n%s", d, c.why())
	}
	c.kill(job)
	c.other = nil
	c.run(10 * time.Minute)
	if c.limit(0) != 0 {
		t.Errorf("the pod has ended: limit %d, want the zero limit\n%s", c.limit(0), c.why())
	}
}

func (c *cluster) lastAdvice() Advice { return c.loads[0].lastAdvice }

// The replicas of a workload claim their GPUs. Before any pod exists, the replicas of the target count as demand, and no limit is
// lowered. A replica on an on-demand node is not moved to spot, because Karpenter would launch no node for its successor.
func TestWorkloadWithCountedClaims(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit = true })
	chat := c.add("team-chat/llama", 1)
	chat.claimed = true
	c.run(10 * time.Minute)
	chat.want, chat.quota = 1, true // the API server rejects the pod, so no pod exists yet
	c.run(2 * time.Second)
	if d := c.d.Demand; c.limit(0) != 16 || !d.Unknown || d.Policies != 1 || c.finding(explain.FindPendingClaims) == nil {
		t.Errorf("limit %d, demand %+v\n%s", c.limit(0), d, c.why())
	}
	chat.quota = false
	onDemand := &simNode{name: "manual", created: c.now, changed: c.now, usable: true, pool: c.pools[1]}
	c.pools[1].nodes = append(c.pools[1].nodes, onDemand)
	c.run(6 * time.Hour)
	if len(chat.pods) != 1 || chat.pods[0].node != onDemand || len(c.pools[0].nodes) != 0 || c.d.Demand.Unknown {
		t.Errorf("the replica runs on an on-demand node: %d pods, demand %+v\n%s", len(chat.pods), c.d.Demand, c.why())
	}
	f := c.finding(explain.FindUnmovable)
	if f == nil || f.Blocker != explain.BlockedByClaims {
		t.Errorf("finding %+v", f)
	}
}

// A group counts the devices of a DeviceClass. No rule may set a limit for these devices, because Karpenter's limits do not count them.
// The test covers a probe of spot after a fallback, and a time without demand.
func TestGroupOfADeviceClassSetsNoLimit(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.Resource, g.ZeroLimit = DeviceClassPrefix+"gpu.nvidia.com", true })
	chat := c.add("team-chat/llama", 1)
	c.applied = func() {
		for _, p := range c.pools {
			for name, f := range p.fields {
				if strings.HasPrefix(name, "limits[") && f.Ours {
					t.Errorf("%s: gpuscaler sets %s of %s", c.clock(), name, p.Name)
				}
			}
		}
	}
	c.run(10 * time.Minute)
	chat.want, c.pools[0].denied = 2, true
	c.until(30*time.Minute, "the group falls back", func() bool { return c.d.Phase == statemachine.Fallback })
	c.pools[0].denied = false
	c.until(6*time.Hour, "a probe tests spot", func() bool { return c.d.Phase == statemachine.Probing })
	c.run(10 * time.Minute)
}
