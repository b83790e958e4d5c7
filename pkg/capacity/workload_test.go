package capacity

import (
	"maps"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

func TestTargetCapLeavesOnePendingReplica(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.until(10*time.Minute, "two are ready", c.whole(chat))
	c.pools[0].denied, c.pools[1].denied = true, true
	chat.want = 3
	c.until(5*time.Minute, "the group is constrained", func() bool { return c.d.Advice[0].Cap == 3 })
	chat.want = 12
	for range 20 * 60 {
		if c.step(); len(chat.pods) < 3 {
			t.Fatalf("%s: no pod is pending, so Karpenter would launch no node", c.clock())
		}
	}
	if r := c.reason(explain.RuleConstrained); r == nil || r.Cause != explain.CauseRefused {
		t.Errorf("%+v", r)
	}
	c.pools[0].denied = false
	c.until(15*time.Minute, "all twelve are ready", c.whole(chat))
	if c.d.Advice[0].Cap != -1 {
		t.Errorf("advice %+v", c.d.Advice[0])
	}
}

func TestOwnersLimitAndQuotaCapTargets(t *testing.T) {
	c := newCluster(t, nil)
	c.pools[0].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "2"}
	c.pools[1].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: `"1"`}
	chat, other := c.add("team-chat/llama", 1), c.add("team-embed/worker", 1)
	chat.want = 5
	c.run(5 * time.Minute)
	r := c.reason(explain.RuleConstrained)
	if a := c.d.Advice[0]; a.Cap != 4 || r == nil || r.Cause != explain.CauseLimit || r.A != 2 {
		t.Errorf("advice %+v, %+v", a, r)
	}
	chat.want = 0
	c.run(5 * time.Minute)
	other.want, other.quota = 3, true
	c.run(2 * time.Second)
	if a := c.d.Advice; a[1].Cap != 1 || a[0].Cap != -1 || c.reason(explain.RuleConstrained).Cause != explain.CauseQuota {
		t.Errorf("advice %+v", a)
	}
}

// The autoscaler reports in the status of a CapacityBuffer that no node has space for a replica. The target is then capped at one replica
// more than the replicas that have nodes. The cap ends when the autoscaler no longer reports this status.
func TestInfeasibleBufferCapsTheTargetOfItsWorkload(t *testing.T) {
	c := newCluster(t, nil)
	chat, other := c.add("team-chat/llama", 1), c.add("team-embed/worker", 1)
	chat.want, other.want = 2, 2
	c.run(5 * time.Minute)
	chat.want, other.want, chat.infeasible = 6, 3, true
	c.run(2 * time.Second)
	r := c.reason(explain.RuleConstrained)
	if a := c.d.Advice; a[0].Cap != 3 || a[1].Cap != -1 || r == nil || r.Cause != explain.CauseInfeasible || r.A != 4 {
		t.Errorf("advice %+v, %+v", a, r)
	}
	if d := c.d.Closed; len(d) != 2 || d[0].Cause != explain.CauseInfeasible || !c.d.Until.IsZero() {
		t.Errorf("closed %+v until %s", d, c.d.Until)
	}
	chat.infeasible = false
	c.run(2 * time.Second)
	if a := c.d.Advice; a[0].Cap != -1 || len(c.d.Closed) > 0 {
		t.Errorf("after the report: advice %+v, closed %+v", a, c.d.Closed)
	}
}

// Existing nodes have free GPUs, so the cap must include the replicas for which these nodes have space.
func TestInfeasibleBufferLeavesTheFreeGPUsOfExistingNodes(t *testing.T) {
	c := newCluster(t, nil)
	for _, p := range c.pools {
		p.gpus = 8
	}
	chat := c.add("team-chat/llama", 2)
	chat.want = 1
	c.run(5 * time.Minute)
	chat.infeasible = true
	for _, p := range c.pools {
		p.until = c.now.Add(time.Hour) // the NodePool launches no node during the test
	}
	c.step()
	chat.want = 6
	c.step()
	if a := c.d.Advice[0]; a.Cap != 5 { // the four replicas that fit on the node, plus one
		t.Errorf("advice %+v\n%s", a, c.why())
	}
	c.run(5 * time.Minute)
	if a := c.d.Advice[0]; a.Cap != 5 || chat.ready() != 4 || len(chat.pods) != 5 {
		t.Errorf("advice %+v, %d ready of %d pods", a, chat.ready(), len(chat.pods))
	}
}

// The API server rejects the pods of one workload, and no node can have space for the pods of another workload. The decision must contain
// one reason for each of these two causes.
func TestEachCauseOfACapHasItsReason(t *testing.T) {
	c := newCluster(t, nil)
	chat, other := c.add("team-chat/llama", 1), c.add("team-embed/worker", 1)
	chat.want, other.want = 1, 1
	c.run(5 * time.Minute)
	chat.want, chat.infeasible = 5, true
	other.want, other.quota = 3, true
	c.run(2 * time.Second)
	missing := map[explain.Cause]float64{}
	for _, r := range c.d.Reasons {
		if r.Rule == explain.RuleConstrained {
			missing[r.Cause] = r.A
		}
	}
	if want := map[explain.Cause]float64{explain.CauseInfeasible: 4, explain.CauseQuota: 2}; !maps.Equal(missing, want) {
		t.Errorf("replicas without a node %v, want %v", missing, want)
	}
}

func TestSpotWaitTimeoutCapsNoTarget(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.SpotWaitTimeout = 10 * time.Minute })
	chat := c.add("team-chat/llama", 1)
	c.run(3 * time.Minute)
	c.pools[0].denied = true
	chat.want = 4
	c.run(9 * time.Minute)
	if c.d.Advice[0].Cap != -1 || c.d.Demand.Pending != 4 {
		t.Errorf("advice %+v, demand %+v", c.d.Advice[0], c.d.Demand)
	}
}

func TestBufferKeepsNodesForFutureReplicas(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.Buffer, g.LeadTime = true, 10*time.Minute })
	chat := c.add("team-chat/llama", 1)
	chat.want = 1
	eight := office(c, chat)
	c.now = eight.Add(-30 * time.Minute)
	c.run(time.Minute)
	if chat.buffer != 0 {
		t.Errorf("%d half an hour before", chat.buffer)
	}
	c.now = eight.Add(-10 * time.Minute)
	c.step()
	if f := c.finding(explain.FindUnsupported); chat.buffer != 0 || f == nil || f.Rule != explain.RuleBuffer {
		t.Errorf("no cluster serves it: %d, %+v", chat.buffer, c.d.Findings)
	}
	decide := func() {
		o := c.observe()
		o.Buffers = true
		c.now = c.now.Add(time.Second)
		c.s.Decide(c.g, &o, c.now, &c.d)
		c.apply()
	}
	decide()
	if chat.buffer != 3 {
		t.Errorf("%d for a floor of 4 with 1 there", chat.buffer)
	}
	chat.current = 4
	decide()
	if chat.buffer != 0 {
		t.Errorf("%d with all 4 asked for", chat.buffer)
	}
}

// cronAt returns the cron expression "minute hour * * *".
func cronAt(minute, hour int) calendar.Cron {
	const star = 1 << 63
	return calendar.Cron{Minute: 1 << minute, Hour: 1 << hour, DayOfMonth: star | 1<<32 - 2, Month: star | 1<<13 - 2,
		DayOfWeek: star | 1<<7 - 1}
}

func TestWindowOverridesFieldsAndRestoresThem(t *testing.T) {
	night := calendar.Window{Name: "night", Start: cronAt(0, 22), End: cronAt(0, 6)}
	late := calendar.Window{Name: "late", Start: cronAt(0, 23), End: cronAt(0, 1)}
	c := newCluster(t, func(g *Group) {
		g.Schedules = []Schedule{
			{Window: night, Pools: []int{1}, Limits: []Limit{{"nvidia.com/gpu", 2}, {"cpu", 64}}, Weight: 5, ConsolidateAfter: "Never",
				ConsolidationPolicy: "WhenEmpty"},
			{Window: late, Limits: []Limit{{"nvidia.com/gpu", 4}}},
		}
	})
	before := c.specs()
	c.now = midnight.Add(21*time.Hour + 59*time.Minute)
	c.run(58 * time.Second)
	c.untouched(before)
	c.run(3 * time.Second)
	p := c.pools[1].fields
	if p["limits[nvidia.com/gpu]"].Value != `"2"` || p["limits[cpu]"].Value != `"64"` || p["weight"].Value != "5" ||
		p["disruption.consolidateAfter"].Value != `"Never"` || p["disruption.consolidationPolicy"].Value != `"WhenEmpty"` || c.limit(0) != 16 {
		t.Errorf("at night:\n%s\n%s", c.spec(0), c.spec(1))
	}
	c.now = midnight.Add(23 * time.Hour)
	c.run(3 * time.Second)
	if c.limit(0) != 4 || c.limit(1) != 4 {
		t.Errorf("the later in the list wins: %d, %d", c.limit(0), c.limit(1))
	}
	if c.finding(explain.FindNever) != nil {
		t.Error("what the schedule itself says is no finding")
	}
	c.now = midnight.Add(30 * time.Hour)
	c.run(5 * time.Second)
	c.untouched(before)
}

func TestSmallerOfScheduledLimitAndLimitCapApplies(t *testing.T) {
	always := calendar.Window{Name: "always", From: midnight}
	c := newCluster(t, func(g *Group) {
		g.SpotWaitTimeout = 10 * time.Minute
		g.Schedules = []Schedule{{Window: always, Pools: []int{1}, Limits: []Limit{{"nvidia.com/gpu", 3}}}}
	})
	job := &simPod{uid: "job", gpus: 1, since: c.now, pinned: true}
	c.other = []*simPod{job}
	c.run(5 * time.Minute)
	if c.limit(1) != 1 {
		t.Errorf("limit %d where one node runs and 3 are allowed", c.limit(1))
	}
	c.known = false
	c.run(3 * time.Second)
	if c.limit(1) != 3 {
		t.Errorf("limit %d without the limit cap", c.limit(1))
	}
}

func TestKeptEmptyNodesAreReportedWithTheirPrice(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.until(10*time.Minute, "three are ready", c.whole(chat))
	c.pools[0].fields["disruption.consolidateAfter"] = nodepool.FieldView{Value: `"Never"`}
	chat.want = 0
	c.run(30 * time.Minute)
	if f := c.finding(explain.FindNever); f == nil || f.Count != 3 || !(f.Hourly >= 1.19 && f.Hourly <= 1.21) {
		t.Errorf("%+v", c.d.Findings)
	}
	c.pools[0].fields["disruption.consolidateAfter"] = nodepool.FieldView{Value: `"60s"`}
	c.pools[0].fields["disruption.budgets"] = nodepool.FieldView{Value: `[{"nodes":"10%"},{"nodes":"0","reasons":["Empty"]}]`}
	c.pools[0].nodes[0].blockingPods = 2
	c.run(time.Minute)
	if a, b := c.finding(explain.FindZeroBudget), c.finding(explain.FindBlockingPods); a == nil || a.Count != 2 || b == nil || b.Count != 1 {
		t.Errorf("%+v", c.d.Findings)
	}
	c.pools[1].gone = true
	c.run(time.Second)
	if c.finding(explain.FindMissing) == nil {
		t.Errorf("%+v", c.d.Findings)
	}
}

func TestMixedNodePoolIsOnlyObserved(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.Pools = []Pool{{"mixed", Mixed}}; g.SpotWaitTimeout, g.OnDemandBase = time.Minute, 2 })
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.run(10 * time.Minute)
	c.pools[0].denied = true
	chat.want = 5
	c.run(time.Hour)
	c.untouched(before)
	if c.finding(explain.FindMixed) == nil || c.writes > 0 {
		t.Errorf("%d writes, %+v", c.writes, c.d.Findings)
	}
}

func TestClockStepBackKeepsFreezesAndWaits(t *testing.T) {
	c := newCluster(t, nil)
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.pools[0].denied = true
	c.until(5*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.pools[0].denied = false
	c.now = c.now.Add(-3 * time.Hour)
	for _, p := range c.pools {
		p.failures, p.until = nil, time.Time{}
		for _, n := range p.nodes {
			n.created, n.changed = n.created.Add(-3*time.Hour), n.changed.Add(-3*time.Hour)
		}
	}
	c.run(10 * time.Minute)
	if c.d.Phase != statemachine.Fallback {
		t.Errorf("%v ten minutes into a hold of fifteen", c.d.Phase)
	}
	c.until(10*time.Minute, "spot is probed", c.in(statemachine.Probing))
	c.until(3*time.Hour, "everything is back", func() bool { return c.nodes(1) == 0 && c.d.Phase == statemachine.PreferSpot })
	c.run(5 * time.Minute)
	c.untouched(before)
}

// When a target cap ends, the full target must be tried, although launches were refused shortly before. Only a new refusal may start
// another cap, which then lasts longer.
func TestTargetCapIsRetriedAndReturnsAfterNewRefusals(t *testing.T) {
	g, o := pairOf(t, nil)
	var s State
	now := midnight
	refuse := func() {
		for i := range o.Pools {
			o.Pools[i].Failures = append(o.Pools[i].Failures, evidence.Failure{UID: now.String(), At: now, Capacity: true})
		}
	}
	o.Workloads = []Workload{{Key: "a/b", Uncapped: 9, Current: 9, GPUs: 1, Known: true,
		Pods: []Pod{{UID: "1", GPUs: 1, Pool: -1, Pending: true}}}}
	tick := func(d time.Duration) (limit int32) {
		for range int(d / time.Second) {
			now = now.Add(time.Second)
			var out Decision
			out, s = Decide(g, o, s, now)
			limit = out.Advice[0].Cap
		}
		return limit
	}
	refuse()
	if limit := tick(62 * time.Second); limit != 1 {
		t.Fatalf("cap %d", limit)
	}
	first := s.TargetCap.Until - s.TargetCap.Since
	if limit := tick(time.Duration(first)*time.Millisecond + 5*time.Second); limit != -1 {
		t.Errorf("cap %d after its time: nothing was refused since", limit)
	}
	refuse()
	if limit := tick(2 * time.Second); limit != 1 || s.TargetCap.Until-s.TargetCap.Since < first*3/2 {
		t.Errorf("cap %d for %d ms, the first time %d", limit, s.TargetCap.Until-s.TargetCap.Since, first)
	}
}
