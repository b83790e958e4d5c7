package capacity

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

func TestTargetsStopAskingForWhatNoPoolBringsAndOnePodStaysPending(t *testing.T) {
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
			t.Fatalf("%s: nothing pends, so nothing would bring a node", c.clock())
		}
	}
	if r := c.reason(RuleConstrained); r == nil || r.Cause != CauseRefused {
		t.Errorf("%+v", r)
	}
	c.pools[0].denied = false
	c.until(15*time.Minute, "all twelve are ready", c.whole(chat))
	if c.d.Advice[0].Cap != -1 {
		t.Errorf("advice %+v", c.d.Advice[0])
	}
}

func TestALimitAndAQuotaCapToo(t *testing.T) {
	c := newCluster(t, nil)
	c.pools[0].fields["limits[nvidia.com/gpu]"] = FieldView{Value: "2"}
	c.pools[1].fields["limits[nvidia.com/gpu]"] = FieldView{Value: `"1"`}
	chat, other := c.add("team-chat/llama", 1), c.add("team-embed/worker", 1)
	chat.want = 5
	c.run(5 * time.Minute)
	r := c.reason(RuleConstrained)
	if a := c.d.Advice[0]; a.Cap != 4 || r == nil || r.Cause != CauseLimit || r.A != 2 {
		t.Errorf("advice %+v, %+v", a, r)
	}
	chat.want = 0
	c.run(5 * time.Minute)
	other.want, other.quota = 3, true
	c.run(2 * time.Second)
	if a := c.d.Advice; a[1].Cap != 1 || a[0].Cap != -1 || c.reason(RuleConstrained).Cause != CauseQuota {
		t.Errorf("advice %+v", a)
	}
}

func TestPatienceIsNoConstraint(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.SpotPatience = 10 * time.Minute })
	chat := c.add("team-chat/llama", 1)
	c.run(3 * time.Minute)
	c.pools[0].denied = true
	chat.want = 4
	c.run(9 * time.Minute)
	if c.d.Advice[0].Cap != -1 || c.d.Demand.Pending != 4 {
		t.Errorf("advice %+v, demand %+v", c.d.Advice[0], c.d.Demand)
	}
}

func TestNoticesAndBurstsOfLossesAskForSuccessors(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 8
	c.until(10*time.Minute, "eight are ready", c.whole(chat))
	c.pools[0].nodes[0].notice = true
	c.step()
	if a := c.d.Advice[0]; a.AtRisk != 1 {
		t.Errorf("one notice: %+v", a)
	}
	doomed := chat.pods[0]
	c.run(5 * time.Minute)
	if chat.ready() < 9 || doomed.cost.Value != "-100" {
		t.Errorf("%d ready before the node goes, its pod at cost %q", chat.ready(), doomed.cost.Value)
	}
	c.lose(c.pools[0].nodes[0])
	c.step()
	if a := c.d.Advice[0]; a.AtRisk != 0 {
		t.Errorf("one loss is no burst: %+v", a)
	}
	c.lose(c.pools[0].nodes[0])
	c.lose(c.pools[0].nodes[0])
	c.step()
	if a := c.d.Advice[0]; a.AtRisk != 3 {
		t.Errorf("three losses in five minutes: %+v", a)
	}
	c.run(burstWithin + reserveFalls + time.Minute)
	if a := c.d.Advice[0]; a.AtRisk != 2 {
		t.Errorf("the burst is over, and two may go in one cold start: %+v", a)
	}
	c.run(rateWithin + reserveFalls)
	if a := c.d.Advice[0]; a.AtRisk != 0 || chat.ready() != 8 {
		t.Errorf("after an hour without losses: %+v, %d ready", a, chat.ready())
	}
}

func TestWhatStandsByIsWhatOneColdStartIsExpectedToLose(t *testing.T) {
	for name, c := range map[string]struct {
		ages []time.Duration // of the losses
		lead time.Duration
		want int32
	}{
		"nothing was lost":               {nil, 0, 0},
		"one loss is no rate":            {[]time.Duration{30 * time.Minute}, 0, 0},
		"two in the hour":                {[]time.Duration{30 * time.Minute, 50 * time.Minute}, 0, 1},
		"four, one at a time":            {[]time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 40 * time.Minute}, 0, 1},
		"four at once":                   {[]time.Duration{30 * time.Minute, 30 * time.Minute, 30 * time.Minute, 30 * time.Minute}, 0, 3},
		"four with a long cold start":    {[]time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 40 * time.Minute}, 20 * time.Minute, 4},
		"four just now":                  {[]time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}, 0, 4},
		"yesterday's":                    {[]time.Duration{24 * time.Hour, 24 * time.Hour, 24 * time.Hour}, 0, 0},
		"more than half of what is left": {[]time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, 5},
	} {
		g, o := pairOf(t, func(g *Group) { g.LeadTime = c.lead })
		now := midnight.Add(25 * time.Hour)
		for i, age := range c.ages {
			o.Pools[0].Losses = append(o.Pools[0].Losses, Loss{string(rune('a' + i)), now.Add(-age)})
		}
		// Two workloads on ten spot nodes: the greater one has the greater part of what stands by.
		o.Workloads = []Workload{{Key: "team/a", Uncapped: 8, Current: 8, GPUs: 1, Known: true}, {Key: "team/b", Uncapped: 2, Current: 2, GPUs: 1, Known: true}}
		for i := range 10 {
			name := string(rune('a' + i))
			o.Pools[0].Nodes = append(o.Pools[0].Nodes, Node{Name: name, UID: name, Type: Spot, Stage: Usable, Ready: true, GPUs: 1, Used: 1, Created: midnight})
			w := &o.Workloads[i/8]
			w.Pods = append(w.Pods, Pod{UID: name, Name: name, Owner: OwnerReplicaSet, GPUs: 1, Node: i, Ready: true})
		}
		d, s := Decide(g, o, State{}, now)
		if a, b := d.Advice[0].AtRisk, d.Advice[1].AtRisk; s.reserve.size != c.want || a+b < c.want || a+b > c.want+1 || a < b {
			t.Errorf("%s: %d stand by, %d and %d, want %d", name, s.reserve.size, a, b, c.want)
		}
	}
}

// A node that goes takes all of its replicas, and only what is ours of it; what stands by is not exposed once more.
func TestANodeThatGoesTakesAsManyReplicasAsItCarries(t *testing.T) {
	lost := func(n int) (all []Loss) {
		for i := range n {
			all = append(all, Loss{fmt.Sprint("lost-", i), midnight.Add(-time.Minute)})
		}
		return all
	}
	for name, c := range map[string]struct {
		nodes, each int   // spot nodes of 8, and replicas on each
		gpus        int64 // of a replica
		jobs        int   // nodes more, each full of somebody's Job
		needs       int32
		lost, want  int32
	}{
		"one replica fills a node":                   {10, 1, 8, 0, 10, 2, 2},
		"eight on each":                              {10, 8, 1, 0, 80, 2, 16},
		"two of four each":                           {10, 2, 4, 0, 20, 3, 6},
		"half of the market carries Jobs":            {5, 8, 1, 5, 40, 2, 8},
		"two nodes gone of two that are left":        {2, 8, 1, 0, 32, 2, 8},
		"half of what stands is what stands by":      {12, 1, 8, 0, 6, 12, 3},
		"nothing of it is needed any more":           {4, 1, 8, 0, 0, 4, 0},
		"what stands by is needed when a node falls": {3, 1, 8, 0, 2, 2, 1},
	} {
		g, o := pairOf(t, nil)
		w := Workload{Key: "team/a", Uncapped: c.needs, Current: c.needs, GPUs: c.gpus, Known: true}
		for i := range c.nodes + c.jobs {
			n := Node{Name: fmt.Sprint(i), UID: fmt.Sprint(i), Type: Spot, Stage: Usable, Ready: true, GPUs: 8, Used: 8, Created: midnight.Add(-2 * time.Hour)}
			o.Pools[0].Nodes = append(o.Pools[0].Nodes, n)
			if i >= c.nodes {
				o.Others = append(o.Others, Pod{UID: fmt.Sprint("job-", i), GPUs: 8, Node: i, Ready: true})
				continue
			}
			for j := range c.each {
				uid := fmt.Sprint(i, "-", j)
				w.Pods = append(w.Pods, Pod{UID: uid, Name: uid, Owner: OwnerReplicaSet, GPUs: c.gpus, Node: i, Ready: true})
			}
		}
		o.Workloads, o.Pools[0].Losses = []Workload{w}, lost(int(c.lost))
		if d, _ := Decide(g, o, State{}, midnight); d.Advice[0].AtRisk != c.want {
			t.Errorf("%s: %d stand by, want %d", name, d.Advice[0].AtRisk, c.want)
		}
	}
}

// Evidence that goes and comes back within a cold start moves nobody: a replica that is dropped and asked for again is a cold start.
func TestAReserveFallsACalmColdStartAfterItWasNeededLast(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 12
	c.until(10*time.Minute, "twelve are ready", c.whole(chat))
	for range 3 {
		c.lose(c.pools[0].nodes[0])
	}
	c.step()
	began := c.now
	for c.s.reserve.size == 3 && c.now.Sub(began) < time.Hour {
		c.step()
	}
	if stood := c.now.Sub(began); stood < burstWithin+reserveFalls-2*time.Second || stood > burstWithin+reserveFalls+2*time.Second || c.s.reserve.size != 2 {
		t.Errorf("%d stand by after %v; three were needed until %v", c.s.reserve.size, stood, burstWithin)
	}
}

func TestOnlyNodesThatAreTakenPutReplicasAtRisk(t *testing.T) {
	g, err := NewGroup(Group{Resource: "nvidia.com/gpu", Pools: []Pool{{"a", Spot}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		node Node
		want int32
	}{
		"all is well":                    {Node{}, 0},
		"the provider gave notice":       {Node{Notice: true}, 1},
		"it goes, and nobody asked":      {Node{Deleting: true}, 1},
		"Karpenter consolidates it":      {Node{Deleting: true, Voluntary: true}, 0},
		"Karpenter has chosen it anyway": {Node{Notice: true, Deleting: true, Voluntary: true}, 0},
	} {
		c.node.Stage, c.node.Ready, c.node.GPUs, c.node.Used, c.node.Type = Usable, true, 1, 1, Spot
		o := Observation{Pools: []PoolView{{Exists: true, Ready: true, Nodes: []Node{c.node}}},
			Workloads: []Workload{{Key: "a/b", Uncapped: 2, Current: 2, GPUs: 1, Known: true, Pods: []Pod{{UID: "1", GPUs: 1, Ready: true}, {UID: "2", GPUs: 1, Loading: true}}}}}
		if d, _ := Decide(g, o, State{}, midnight); d.Advice[0].AtRisk != c.want {
			t.Errorf("%s: %+v", name, d.Advice[0])
		}
	}
}

func TestLoadingPodsAreShieldedUntilTheyAreReady(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.StartupShield, g.LeadTime = true, 20*time.Minute })
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.until(5*time.Minute, "a pod loads", func() bool { return len(chat.pods) > 0 && chat.pods[0].shield.Value != "" })
	if v := chat.pods[0].shield.Value; v != "40m" {
		t.Errorf("shield %q", v)
	}
	c.until(5*time.Minute, "both are ready", c.whole(chat))
	c.run(2 * time.Second)
	for _, p := range chat.pods {
		if p.shield.Value != "" {
			t.Errorf("%s is ready and shielded", p.name)
		}
	}
	own := chat.pods[0]
	own.shield, own.ready, own.bound = Mark{"true", false}, false, c.now
	c.run(30 * time.Second)
	if own.shield != (Mark{"true", false}) {
		t.Errorf("somebody's own annotation became %+v", own.shield)
	}
}

func TestScaleInTakesIdlePodsAndThoseOnDemandAndThoseThatFreeANode(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.EmptyWholeNodes = true })
	c.pools[0].gpus = 2
	chat := c.add("team-chat/llama", 1)
	chat.want = 5 // three nodes of two: the last one carries one
	c.until(10*time.Minute, "five are ready", c.whole(chat))
	last := chat.pods[4]
	for _, p := range chat.pods {
		if c.used(p.node) == 1 {
			last = p
		}
	}
	chat.pods[0].idle = true
	c.run(2 * time.Second)
	if last.cost.Value != "-10" || chat.pods[0].cost.Value != "-40" {
		t.Errorf("the lonely one %q, the idle one %q", last.cost.Value, chat.pods[0].cost.Value)
	}
	chat.pods[0].idle = false
	c.run(2 * time.Second)
	chat.want = 4
	c.run(3 * time.Minute)
	if c.nodes(0) != 2 {
		t.Errorf("%d nodes for four replicas", c.nodes(0))
	}
	c.releasing = true
	c.run(15 * time.Second)
	for _, p := range chat.pods {
		if p.cost.Value != "" {
			t.Errorf("%s keeps %q", p.name, p.cost.Value)
		}
	}
}

func TestABufferHoldsNodesForTheReplicasThatAreNotAskedForYet(t *testing.T) {
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
	if f := c.finding(FindUnsupported); chat.buffer != 0 || f == nil || f.Rule != RuleBuffer {
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

// cronAt is "minute hour * * *".
func cronAt(minute, hour int) calendar.Cron {
	const star = 1 << 63
	return calendar.Cron{Minute: 1 << minute, Hour: 1 << hour, DayOfMonth: star | 1<<32 - 2, Month: star | 1<<13 - 2, DayOfWeek: star | 1<<7 - 1}
}

func TestAWindowChangesLimitsWeightAndDisruptionAndEverythingReturnsWithIt(t *testing.T) {
	night := calendar.Window{Name: "night", Start: cronAt(0, 22), End: cronAt(0, 6)}
	late := calendar.Window{Name: "late", Start: cronAt(0, 23), End: cronAt(0, 1)}
	c := newCluster(t, func(g *Group) {
		g.Schedules = []Schedule{
			{Window: night, Pools: []int{1}, Limits: []Limit{{"nvidia.com/gpu", 2}, {"cpu", 64}}, Weight: 5, ConsolidateAfter: "Never", ConsolidationPolicy: "WhenEmpty"},
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
	if c.finding(FindNever) != nil {
		t.Error("what the schedule itself says is no finding")
	}
	c.now = midnight.Add(30 * time.Hour)
	c.run(5 * time.Second)
	c.untouched(before)
}

func TestAScheduledLimitBelowALidWinsAndOneAboveDoesNot(t *testing.T) {
	always := calendar.Window{Name: "always", From: midnight}
	c := newCluster(t, func(g *Group) {
		g.SpotPatience = 10 * time.Minute
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
		t.Errorf("limit %d without the lid", c.limit(1))
	}
}

func TestWhatKeepsEmptyNodesIsReportedWithItsPrice(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.until(10*time.Minute, "three are ready", c.whole(chat))
	c.pools[0].fields["disruption.consolidateAfter"] = FieldView{Value: `"Never"`}
	chat.want = 0
	c.run(30 * time.Minute)
	if f := c.finding(FindNever); f == nil || f.Count != 3 || f.Hourly < 1.19 || f.Hourly > 1.21 {
		t.Errorf("%+v", c.d.Findings)
	}
	c.pools[0].fields["disruption.consolidateAfter"] = FieldView{Value: `"60s"`}
	c.pools[0].fields["disruption.budgets"] = FieldView{Value: `[{"nodes":"10%"},{"nodes":"0","reasons":["Empty"]}]`}
	c.pools[0].nodes[0].squatters = 2
	c.run(time.Minute)
	if a, b := c.finding(FindZeroBudget), c.finding(FindSquatters); a == nil || a.Count != 2 || b == nil || b.Count != 1 {
		t.Errorf("%+v", c.d.Findings)
	}
	c.pools[1].gone = true
	c.run(time.Second)
	if c.finding(FindMissing) == nil {
		t.Errorf("%+v", c.d.Findings)
	}
}

func TestAMixedPoolIsObservedOnly(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.Pools = []Pool{{"mixed", Mixed}}; g.SpotPatience, g.OnDemandBase = time.Minute, 2 })
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.run(10 * time.Minute)
	c.pools[0].denied = true
	chat.want = 5
	c.run(time.Hour)
	c.untouched(before)
	if c.finding(FindMixed) == nil || c.writes > 0 {
		t.Errorf("%d writes, %+v", c.writes, c.d.Findings)
	}
}

func TestAClockThatStepsBackEndsNoHoldAndForgetsNothing(t *testing.T) {
	c := newCluster(t, nil)
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.pools[0].denied = true
	c.until(5*time.Minute, "the group falls back", c.in(Fallback))
	c.pools[0].denied = false
	c.now = c.now.Add(-3 * time.Hour)
	for _, p := range c.pools {
		p.failures, p.until = nil, time.Time{}
		for _, n := range p.nodes {
			n.created, n.changed = n.created.Add(-3*time.Hour), n.changed.Add(-3*time.Hour)
		}
	}
	c.run(10 * time.Minute)
	if c.d.Phase != Fallback {
		t.Errorf("%v ten minutes into a hold of fifteen", c.d.Phase)
	}
	c.until(10*time.Minute, "spot is probed", c.in(Probing))
	c.until(3*time.Hour, "everything is back", func() bool { return c.nodes(1) == 0 && c.d.Phase == PreferSpot })
	c.run(5 * time.Minute)
	c.untouched(before)
}

// The whole ask is tried again although the refusals of before are still fresh; only a new one caps again, for longer.
func TestACapIsLiftedForATryAndOnlyNewRefusalsBringItBack(t *testing.T) {
	g, o := pairOf(t, nil)
	var s State
	now := midnight
	refuse := func() {
		for i := range o.Pools {
			o.Pools[i].Failures = append(o.Pools[i].Failures, Failure{UID: now.String(), At: now, Capacity: true})
		}
	}
	o.Workloads = []Workload{{Key: "a/b", Uncapped: 9, Current: 9, GPUs: 1, Known: true, Pods: []Pod{{UID: "1", GPUs: 1, Pool: -1, Pending: true}}}}
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
	first := s.capped.until - s.capped.since
	if limit := tick(time.Duration(first)*time.Millisecond + 5*time.Second); limit != -1 {
		t.Errorf("cap %d after its time: nothing was refused since", limit)
	}
	refuse()
	if limit := tick(2 * time.Second); limit != 1 || s.capped.until-s.capped.since < first*3/2 {
		t.Errorf("cap %d for %d ms, the first time %d", limit, s.capped.until-s.capped.since, first)
	}
}
