package capacity

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

func TestBaseIsRoundedUpToWholeNodes(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.OnDemandBase = 1 })
	for _, p := range c.pools {
		p.gpus = 8
	}
	c.nodeGPUs = true
	c.run(3 * time.Minute)
	chat := c.add("team-chat/llama", 4)
	chat.want = 4
	c.until(10*time.Minute, "four replicas are ready", c.whole(chat))
	if c.nodes(0) != 1 || c.nodes(1) != 1 || c.limit(1) != 8 {
		t.Errorf("%d on spot, %d on demand, limit %d\n%s", c.nodes(0), c.nodes(1), c.limit(1), c.why())
	}
	c.run(3 * time.Hour)
	if c.nodes(1) != 1 || c.d.Phase != statemachine.PreferSpot {
		t.Errorf("the node of the on-demand base must not move to spot: %d, %v", c.nodes(1), c.d.Phase)
	}
	o := c.observe()
	c.s.Shutdown(c.g, &o, c.now, &c.d)
	c.apply()
	if w := c.pools[1].fields["weight"].Value; w != "20" || c.limit(1) != 16 {
		t.Errorf("after a shutdown weight %s, limit %d: without the limit all replicas would use on-demand", w, c.limit(1))
	}
}

// The owner of the NodePools gives on-demand the higher weight. No replica may move to spot, because Karpenter would launch another
// on-demand node for its successor.
func TestNoReturnWhileOwnerPrefersOnDemand(t *testing.T) {
	c := newCluster(t, nil)
	c.pools[1].fields["weight"] = nodepool.FieldView{Value: "90", Owner: "kubectl"}
	c.pools[1].fields["disruption.consolidationPolicy"] = nodepool.FieldView{Value: `"WhenEmpty"`}
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.run(3 * time.Hour)
	if c.nodes(1) != 3 || len(chat.pods) != 3 || c.finding(explain.FindWeights) == nil {
		t.Errorf("%d on demand, %d pods, %+v", c.nodes(1), len(chat.pods), c.d.Findings)
	}
	c.untouched(before)
}

func TestPreferOnDemandUsesTheWritableWeight(t *testing.T) {
	for name, w := range map[string]struct {
		spot, onDemand       nodepool.Value
		consents             [2]nodepool.Consent
		wantSpot, wantDemand nodepool.Value
	}{
		"on-demand is raised":               {"80", "20", [2]nodepool.Consent{7, 7}, "80", "81"},
		"an absent weight is 0":             {"", "", [2]nodepool.Consent{7, 7}, "", "1"},
		"equal weights":                     {"50", "50", [2]nodepool.Consent{7, 7}, "50", "51"},
		"at the top both move":              {"100", "100", [2]nodepool.Consent{7, 7}, "99", "100"},
		"spot is lowered where only it may": {"80", "20", [2]nodepool.Consent{7, 5}, "19", "20"},
		"neither may":                       {"80", "20", [2]nodepool.Consent{5, 5}, "80", "20"},
		"spot cannot go below 1":            {"80", "1", [2]nodepool.Consent{7, 5}, "80", "1"},
		"it is first already":               {"20", "80", [2]nodepool.Consent{7, 7}, "20", "80"},
	} {
		c := newCluster(t, nil)
		for i, v := range []nodepool.Value{w.spot, w.onDemand} {
			c.pools[i].fields["weight"] = nodepool.FieldView{Value: v}
			c.pools[i].consent = w.consents[i]
		}
		chat := c.add("team-chat/llama", 1)
		chat.want = 4
		c.step()
		for i := range 4 {
			c.pools[0].losses = append(c.pools[0].losses, evidence.Loss{UID: string(rune('a' + i)), At: c.now})
		}
		c.run(3 * time.Second)
		if c.d.Phase != statemachine.Fallback || c.pools[0].fields["weight"].Value != w.wantSpot ||
			c.pools[1].fields["weight"].Value != w.wantDemand {
			t.Errorf("%s: spot %s, on-demand %s\n%s", name, c.pools[0].fields["weight"].Value, c.pools[1].fields["weight"].Value, c.why())
		}
	}
}

func TestUnreadableLimitIsNotOverridden(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.SpotWaitTimeout = time.Minute })
	c.pools[1].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: `"1.5e3"`}
	before := c.specs()
	c.run(10 * time.Minute)
	c.untouched(before)
	if c.finding(explain.FindUnreadable) == nil {
		t.Errorf("%+v", c.d.Findings)
	}
}

func TestLimitCapFollowsUsageUpAtOnceAndDownWithDelay(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.SpotWaitTimeout = 20 * time.Minute })
	var jobs []*simPod
	for range 4 {
		jobs = append(jobs, &simPod{uid: c.id("job"), gpus: 1, since: c.now, pinned: true})
	}
	c.other = jobs
	c.run(4 * time.Minute)
	if c.limit(1) != 4 {
		t.Fatalf("limit %d although four nodes run", c.limit(1))
	}
	c.other = jobs[:2]
	writes := c.writes
	c.run(10 * time.Minute)
	if c.limit(1) != 2 || c.writes-writes > 2 {
		t.Errorf("limit %d after %d writes", c.limit(1), c.writes-writes)
	}
	// Karpenter launches a node before it observes the limit
	c.pools[1].nodes = append(c.pools[1].nodes, &simNode{name: "late", created: c.now, changed: c.now, pool: c.pools[1]})
	c.run(2 * time.Second)
	if c.limit(1) != 3 {
		t.Errorf("limit %d although three nodes run", c.limit(1))
	}
}

func TestValuesAreReadAsKubernetesWritesThem(t *testing.T) {
	for v, want := range map[nodepool.Value]int64{"8": 8, `"8"`: 8, `"2k"`: 2000, `"1M"`: 1_000_000, "-1": -1, "0": 0} {
		if n, ok := v.Number(); !ok || n != want {
			t.Errorf("%s is %d, %v", v, n, ok)
		}
	}
	for _, v := range []nodepool.Value{"", `""`, `"8Gi"`, `"800m"`, `"x"`, "99999999999999999999", "null", "1.5"} {
		if n, ok := v.Number(); ok {
			t.Errorf("%s is read as %d", v, n)
		}
	}
	if !nodepool.Value("8").Same(`"8"`) || nodepool.Value("").Same("0") || nodepool.Value(`"a"`).Same(`"b"`) || !nodepool.Value("").Same("") {
		t.Error("Same is wrong: only 8 and \"8\", and two empty values, are the same")
	}
}

func TestConsentIsAListOfWords(t *testing.T) {
	for text, want := range map[string]nodepool.Consent{"": 0, "limits": nodepool.ConsentLimits,
		" weight , disruption": nodepool.ConsentWeight | nodepool.ConsentDisruption,
		"limits,limits,":       nodepool.ConsentLimits} {
		if got, unknown := nodepool.ConsentOf(text); got != want || unknown != "" {
			t.Errorf("%q: %v, %q", text, got, unknown)
		}
	}
	if got, unknown := nodepool.ConsentOf("limits,template"); got != nodepool.ConsentLimits || unknown != "template" {
		t.Errorf("%v, %q", got, unknown)
	}
}

func TestGroupBeyondTheBoundsIsRefused(t *testing.T) {
	good := Group{Resource: "nvidia.com/gpu", Pools: []Pool{{"a", Spot}}}
	many := good
	many.Schedules = []Schedule{{Limits: []Limit{{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}}}}
	wrong := good
	wrong.Schedules = []Schedule{{Pools: []int{1}}}
	for _, g := range []Group{{Pools: good.Pools}, {Resource: "x"}, {Resource: "x", Pools: make([]Pool, nodepool.MaxPools+1)},
		{Resource: "x", Pools: good.Pools, Schedules: make([]Schedule, MaxSchedules+1)}, many, wrong} {
		if _, err := NewGroup(g); err == nil {
			t.Errorf("%+v", g)
		}
	}
	if g, err := NewGroup(good); err != nil || g.ReturnNodesPerHour != DefaultReturn || len(g.Limits()) != 1 {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestLimitCapIsLoweredEveryTwoMinutesAtMost(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.SpotWaitTimeout = 20 * time.Minute })
	p := c.pools[1]
	p.fields["disruption.consolidateAfter"] = nodepool.FieldView{Value: `"Never"`}
	for i := range 3 {
		p.nodes = append(p.nodes, &simNode{name: string(rune('x' + i)), created: c.now, changed: c.now, usable: true, pool: p})
	}
	all := p.nodes
	c.run(5 * time.Minute)
	writes := c.writes
	for i := range 60 { // the test alternately adds and removes a node
		p.nodes = all[:2+i%2]
		c.run(20 * time.Second)
	}
	if n := c.writes - writes; n < 2 || n > 20 {
		t.Errorf("%d writes in 20 minutes", n)
	}
}

func TestProbeFailsWhenTheSpotWaitTimeoutExpires(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.SpotWaitTimeout = 2 * time.Minute })
	c.run(3 * time.Minute)
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.pools[0].denied = true
	c.until(10*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.until(10*time.Minute, "both are ready", c.whole(chat))
	c.until(20*time.Minute, "spot is probed", c.in(statemachine.Probing))
	c.pools[0].ready = false // Karpenter skips a NodePool that is not ready: it launches no node, so no launch is refused
	began := c.now
	c.until(10*time.Minute, "the probe is over", c.in(statemachine.Fallback))
	if took := c.now.Sub(began); took > 2*time.Minute+15*time.Second {
		t.Errorf("a replica waited %v below the limit", took)
	}
}

func TestShutdownRestoresEveryLimit(t *testing.T) {
	c := newCluster(t, func(g *Group) {
		g.Fallback = Hard
		g.Schedules = []Schedule{{Window: windowOf(midnight, 10*time.Hour), Pools: []int{1}, Limits: []Limit{{"cpu", 64}}, Weight: 30}}
	})
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.until(10*time.Minute, "three are ready", c.whole(chat))
	for range 2 {
		c.lose(c.pools[0].nodes[0])
	}
	c.run(3 * time.Second)
	if c.limit(0) != 1 || c.pools[1].fields["limits[cpu]"].Value != `"64"` {
		t.Fatalf("limits %d and %s", c.limit(0), c.pools[1].fields["limits[cpu]"].Value)
	}
	for range 3 {
		o := c.observe()
		c.now = c.now.Add(time.Second)
		c.s.Shutdown(c.g, &o, c.now, &c.d)
		c.apply()
	}
	if c.limit(0) != 16 || c.pools[1].fields["limits[cpu]"].Value != `"400"` || c.pools[1].fields["weight"].Value != "81" {
		t.Errorf("after a shutdown:\n%s\n%s", c.spec(0), c.spec(1))
	}
	c.s = State{} // the next leader continues with an empty state
	c.run(3 * time.Second)
	if c.d.Phase != statemachine.Fallback || c.limit(0) != 1 {
		t.Errorf("%v, limit %d", c.d.Phase, c.limit(0))
	}
}
