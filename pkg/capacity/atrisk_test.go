package capacity

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

func TestNoticesAndBurstsOfLossesAddSuccessors(t *testing.T) {
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
		t.Errorf("%d ready before the node is deleted; deletion cost of its pod %q", chat.ready(), doomed.cost.Value)
	}
	c.lose(c.pools[0].nodes[0])
	c.step()
	if a := c.d.Advice[0]; a.AtRisk != 0 {
		t.Errorf("one loss must not count as a burst: %+v", a)
	}
	c.lose(c.pools[0].nodes[0])
	c.lose(c.pools[0].nodes[0])
	c.step()
	if a := c.d.Advice[0]; a.AtRisk != 3 {
		t.Errorf("three losses in five minutes: %+v", a)
	}
	c.run(evidence.BurstWindow + statemachine.ReserveDecay + time.Minute)
	if a := c.d.Advice[0]; a.AtRisk != 2 {
		t.Errorf("after the burst, two losses are expected during a cold start: %+v", a)
	}
	c.run(evidence.RateWindow + statemachine.ReserveDecay)
	if a := c.d.Advice[0]; a.AtRisk != 0 || chat.ready() != 8 {
		t.Errorf("after an hour without losses: %+v, %d ready", a, chat.ready())
	}
}

func TestReserveIsTheExpectedLossOfOneColdStart(t *testing.T) {
	for name, c := range map[string]struct {
		ages []time.Duration // how long ago the provider took each lost node
		lead time.Duration
		want int32
	}{
		"nothing was lost":    {nil, 0, 0},
		"one loss is no rate": {[]time.Duration{30 * time.Minute}, 0, 0},
		"two in the hour":     {[]time.Duration{30 * time.Minute, 50 * time.Minute}, 0, 1},
		"four, one at a time": {[]time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 40 * time.Minute}, 0, 1},
		"four at once":        {[]time.Duration{30 * time.Minute, 30 * time.Minute, 30 * time.Minute, 30 * time.Minute}, 0, 3},
		"four with a long cold start": {[]time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 40 * time.Minute},
			20 * time.Minute, 4},
		"four just now":                  {[]time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}, 0, 4},
		"yesterday's":                    {[]time.Duration{24 * time.Hour, 24 * time.Hour, 24 * time.Hour}, 0, 0},
		"more than half of what is left": {[]time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, 5},
	} {
		g, o := pairOf(t, func(g *Group) { g.LeadTime = c.lead })
		now := midnight.Add(25 * time.Hour)
		for i, age := range c.ages {
			o.Pools[0].Losses = append(o.Pools[0].Losses, evidence.Loss{UID: string(rune('a' + i)), At: now.Add(-age)})
		}
		// Two workloads run on ten spot nodes. The workload with eight of these nodes must get the greater part of the reserve for expected
		// losses.
		o.Workloads = []Workload{{Key: "team/a", Uncapped: 8, Current: 8, GPUs: 1, Known: true},
			{Key: "team/b", Uncapped: 2, Current: 2, GPUs: 1, Known: true}}
		for i := range 10 {
			name := string(rune('a' + i))
			o.Pools[0].Nodes = append(o.Pools[0].Nodes, Node{Name: name, UID: name, Type: Spot, Stage: Usable, Ready: true, GPUs: 1, Used: 1,
				Created: midnight})
			w := &o.Workloads[i/8]
			w.Pods = append(w.Pods, Pod{UID: name, Name: name, Owner: OwnerReplicaSet, GPUs: 1, Node: i, Ready: true})
		}
		d, s := Decide(g, o, State{}, now)
		for _, a := range d.Advice {
			if a.Reserve != a.AtRisk {
				t.Errorf("%s: no node has a notice: advice %+v", name, a)
			}
		}
		if a, b := d.Advice[0].AtRisk, d.Advice[1].AtRisk; s.Reserve.Size != c.want || a+b < c.want || a+b > c.want+1 || a < b {
			t.Errorf("%s: reserve %d, %d and %d, want %d", name, s.Reserve.Size, a, b, c.want)
		}
	}
}

// A group without a lead time uses the longest lead time that was learned for its workloads. Replicas for known demand start earlier by
// this time, and the reserve covers the node losses that are expected during this time.
func TestGroupWithoutALeadTimeUsesTheLongestLearnedOne(t *testing.T) {
	for name, c := range map[string]struct {
		own, first, second, want time.Duration
	}{
		"nothing was learned":         {0, 0, 0, 0},
		"one workload":                {0, 0, 4 * time.Minute, 4 * time.Minute},
		"the longest":                 {0, 20 * time.Minute, 4 * time.Minute, 20 * time.Minute},
		"the user's has precedence":   {3 * time.Minute, 20 * time.Minute, 4 * time.Minute, 3 * time.Minute},
		"the user's, nothing learned": {3 * time.Minute, 0, 0, 3 * time.Minute},
	} {
		g, o := pairOf(t, func(g *Group) { g.LeadTime, g.ConsolidationFreeze = c.own, true })
		o.Workloads = []Workload{{Key: "team/a", LeadTime: c.first}, {Key: "team/b", LeadTime: c.second}}
		o.Ahead = []Span{{From: midnight.Add(time.Hour), Until: midnight.Add(2 * time.Hour), GPUs: 1, Workload: "team/a", Replicas: 1}}
		begins := midnight.Add(time.Hour - c.want - freezeLead)
		for _, now := range []time.Time{begins.Add(-time.Second), begins} {
			a := analysis{g: g, o: &o, now: now, at: statemachine.Stamp(now)}
			if _, inUse := a.knownDemandUntil(); (inUse > 0) != now.Equal(begins) {
				t.Errorf("%s: known demand at %v: %v, want it from %v on", name, now, inUse > 0, begins)
			}
		}
		for i := range 4 {
			at := midnight.Add(time.Duration(i+1) * -10 * time.Minute)
			o.Pools[0].Losses = append(o.Pools[0].Losses, evidence.Loss{UID: string(rune('a' + i)), At: at})
		}
		a := analysis{g: g, o: &o, now: midnight, at: statemachine.Stamp(midnight)}
		if n := a.expectedLosses(); (n > 1) != (c.want >= 20*time.Minute) {
			t.Errorf("%s: %d expected losses in a cold start of %v", name, n, c.want)
		}
	}
}

func TestReserveCountsTheReplicasOfANode(t *testing.T) {
	lost := func(n int) (all []evidence.Loss) {
		for i := range n {
			all = append(all, evidence.Loss{UID: fmt.Sprint("lost-", i), At: midnight.Add(-time.Minute)})
		}
		return all
	}
	for name, c := range map[string]struct {
		nodes, each int   // number of spot nodes with 8 GPUs, and number of replicas on each node
		gpus        int64 // GPUs of a replica
		jobs        int   // number of additional nodes, each fully used by a Job without a policy
		replaced    int   // number of nodes that Karpenter itself replaces
		needs       int32
		lost, want  int32
	}{
		"one replica fills a node":                    {10, 1, 8, 0, 0, 10, 2, 2},
		"eight on each":                               {10, 8, 1, 0, 0, 80, 2, 16},
		"two of four each":                            {10, 2, 4, 0, 0, 20, 3, 6},
		"half of the market carries Jobs":             {5, 8, 1, 5, 0, 40, 2, 8},
		"two nodes gone of two that are left":         {2, 8, 1, 0, 0, 32, 2, 8},
		"at most half of the replicas is the reserve": {12, 1, 8, 0, 0, 6, 12, 3},
		"nothing of it is needed any more":            {4, 1, 8, 0, 0, 0, 4, 0},
		"the reserve is used when a node is lost":     {3, 1, 8, 0, 0, 2, 2, 1},
		"Karpenter rolls most of them":                {20, 1, 8, 0, 16, 20, 2, 2},
	} {
		g, o := pairOf(t, nil)
		w := Workload{Key: "team/a", Uncapped: c.needs, Current: c.needs, GPUs: c.gpus, Known: true}
		for i := range c.nodes + c.jobs {
			n := Node{Name: fmt.Sprint(i), UID: fmt.Sprint(i), Type: Spot, Stage: Usable, Ready: true, GPUs: 8, Used: 8,
				Created: midnight.Add(-2 * time.Hour)}
			if i < c.replaced {
				n.Deleting, n.Voluntary = true, true
			}
			o.Pools[0].Nodes = append(o.Pools[0].Nodes, n)
			if i >= c.nodes {
				o.UnmanagedPods = append(o.UnmanagedPods, Pod{UID: fmt.Sprint("job-", i), GPUs: 8, Node: i, Ready: true})
				continue
			}
			for j := range c.each {
				uid := fmt.Sprint(i, "-", j)
				w.Pods = append(w.Pods, Pod{UID: uid, Name: uid, Owner: OwnerReplicaSet, GPUs: c.gpus, Node: i, Ready: true})
			}
		}
		o.Workloads, o.Pools[0].Losses = []Workload{w}, lost(int(c.lost))
		if d, _ := Decide(g, o, State{}, midnight); d.Advice[0].AtRisk != c.want {
			t.Errorf("%s: reserve %d, want %d", name, d.Advice[0].AtRisk, c.want)
		}
	}
}

func TestReserveFallsSlowly(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 12
	c.until(10*time.Minute, "twelve are ready", c.whole(chat))
	for range 3 {
		c.lose(c.pools[0].nodes[0])
	}
	c.step()
	began := c.now
	for c.s.Reserve.Size == 3 && c.now.Sub(began) < time.Hour {
		c.step()
	}
	if lasted := c.now.Sub(began); lasted < evidence.BurstWindow+statemachine.ReserveDecay-2*time.Second ||
		lasted > evidence.BurstWindow+statemachine.ReserveDecay+2*time.Second ||
		c.s.Reserve.Size != 2 {
		t.Errorf("reserve %d after %v; three were needed until %v", c.s.Reserve.Size, lasted, evidence.BurstWindow)
	}
}

// The reserve decreases slowly. If the other workloads no longer have replicas, it can be greater than the number of replicas that the last
// workload has, for example because this workload is paused at one replica. The property test TestEveryHistoryCanBeReleased found this
// with the seed 4189309286092676533.
func TestReserveOfAWorkloadIsAtMostItsReplicas(t *testing.T) {
	for pods, want := range []int32{0, 1, 2, 2} {
		g, o := pairOf(t, nil)
		o.Workloads = []Workload{{Key: "team/a", Uncapped: 5, Current: int32(pods), GPUs: 1, Known: true}}
		for i := range pods {
			n := usable(fmt.Sprint("node-", i), Spot)
			o.Pools[0].Nodes = append(o.Pools[0].Nodes, n)
			o.Workloads[0].Pods = append(o.Workloads[0].Pods, onNode(n.Name, 0, i))
		}
		_, s := Decide(g, o, State{}, midnight)
		s.Reserve = statemachine.Reserve{Size: 2, At: statemachine.Stamp(midnight)}
		d, _ := Decide(g, o, s, midnight.Add(time.Second))
		if a := d.Advice[0]; a.Reserve != want || a.AtRisk != want {
			t.Errorf("%d replicas, a reserve of 2: advice %+v, want %d", pods, a, want)
		}
	}
}

func TestVoluntaryDisruptionIsNoRisk(t *testing.T) {
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
		"deleted by the provider":        {Node{Deleting: true}, 1},
		"Karpenter consolidates it":      {Node{Deleting: true, Voluntary: true}, 0},
		"Karpenter has chosen it anyway": {Node{Notice: true, Deleting: true, Voluntary: true}, 0},
	} {
		c.node.Stage, c.node.Ready, c.node.GPUs, c.node.Used, c.node.Type = Usable, true, 1, 1, Spot
		o := Observation{Pools: []PoolView{{Exists: true, Ready: true, Nodes: []Node{c.node}}},
			Workloads: []Workload{{Key: "a/b", Uncapped: 2, Current: 2, GPUs: 1, Known: true,
				Pods: []Pod{{UID: "1", GPUs: 1, Ready: true}, {UID: "2", GPUs: 1, Loading: true}}}}}
		if d, _ := Decide(g, o, State{}, midnight); d.Advice[0].AtRisk != c.want {
			t.Errorf("%s: %+v", name, d.Advice[0])
		}
	}
}
