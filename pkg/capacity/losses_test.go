package capacity

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// After four nodes were lost within minutes, gpuscaler adds a reserve for the replicas on spot nodes. The reserve covers no replicas on
// other nodes, and none on nodes that Karpenter itself removes.
func TestReserveCoversOnlyReplicasOnSpot(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Node)
		risk   bool
	}{
		"a spot node":                              {func(*Node) {}, true},
		"an on-demand node":                        {func(n *Node) { n.Type = OnDemand }, false},
		"a reserved node":                          {func(n *Node) { n.Type = Reserved }, false},
		"a spot node that Karpenter drains":        {func(n *Node) { n.Deleting, n.Voluntary = true, true }, false},
		"a spot node with a notice that it drains": {func(n *Node) { n.Notice, n.Voluntary = true, true }, false},
	} {
		g, o := pairOf(t, nil)
		for i := range 4 {
			o.Pools[0].Losses = append(o.Pools[0].Losses, evidence.Loss{UID: fmt.Sprint("lost-", i), At: midnight.Add(-time.Minute)})
		}
		// the first workload runs on the nodes of the test case, and the second on spot nodes that are not at risk
		four := Workload{Uncapped: 4, Current: 4, GPUs: 1, Known: true}
		o.Workloads = []Workload{four, four}
		for i := range 8 {
			n := usable(fmt.Sprint("node-", i), Spot)
			if i < 4 {
				c.change(&n)
			}
			o.Pools[0].Nodes = append(o.Pools[0].Nodes, n)
			w := &o.Workloads[i/4]
			w.Pods = append(w.Pods, onNode(n.Name, 0, i))
		}
		d, _ := Decide(g, o, State{}, midnight)
		a, b := d.Advice[0].AtRisk, d.Advice[1].AtRisk
		if a > 0 != c.risk || b != 2 {
			t.Errorf("%s: %d and %d replicas are kept ready", name, a, b)
		}
	}
}

// Each consecutive target cap lasts twice as long as the previous one, up to 30 minutes. The duration varies randomly by up to 20 percent.
func TestEachTargetCapLastsTwiceAsLong(t *testing.T) {
	g, o := pairOf(t, nil)
	waits := []Pod{{UID: "1", GPUs: 1, Pool: -1, Pending: true}}
	o.Workloads = []Workload{{Key: "a/b", Uncapped: 9, Current: 9, GPUs: 1, Known: true, Pods: waits}}
	var s State
	var d Decision
	now := midnight
	decide := func(at time.Time) int32 {
		now = at
		d, s = Decide(g, o, s, now)
		return d.Advice[0].Cap
	}
	decide(now)
	for i, want := range []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, statemachine.MaxTargetCap,
		statemachine.MaxTargetCap} {
		refuse := func(at time.Time) { // Karpenter tries again for the pod that stays pending
			for p := range o.Pools {
				o.Pools[p].Failures = append(o.Pools[p].Failures, evidence.Failure{UID: at.String(), At: at, Capacity: true})
			}
		}
		refuse(now.Add(time.Minute))
		from := now.Add(time.Minute + time.Second)
		if limit := decide(from); limit != 1 {
			t.Fatalf("cap %d: %d after a refusal", i+1, limit)
		}
		r := slices.IndexFunc(d.Reasons, func(r explain.Reason) bool { return r.Rule == explain.RuleConstrained })
		if r < 0 {
			t.Fatalf("cap %d: no reason", i+1)
		}
		ends := d.Reasons[r].Until
		if lasts := ends.Sub(from); lasts < want*4/5 || lasts > want*6/5 {
			t.Errorf("cap %d lasts %v, want about %v", i+1, lasts, want)
		}
		refuse(ends.Add(-time.Minute))
		if limit := decide(ends.Add(-time.Millisecond)); limit != 1 {
			t.Errorf("cap %d: %d just before its end", i+1, limit)
		}
		if limit := decide(ends); limit != -1 {
			t.Errorf("cap %d: %d at its end", i+1, limit)
		}
	}
}

// Spot refused three launches, but no pod waits now. This is a failure of spot only if the on-demand NodePool launched a node recently,
// because that node then runs the pods of the refused launches. The order of the two NodePools in the group must not matter.
func TestOnDemandGrowthAfterRefusalsIsEvidence(t *testing.T) {
	for _, first := range []CapacityType{Spot, OnDemand} {
		for age, fails := range map[time.Duration]bool{
			time.Minute: true,
			statemachine.RefusalWindow - time.Millisecond:  true,
			statemachine.RefusalWindow:                     false,
			statemachine.RefusalWindow + 30*time.Second:    false,
			-30 * time.Second:                              true, // recorded by a clock that is ahead
			-10 * statemachine.RefusalWindow * 1000 * 1000: true,
		} {
			g, o := pairOf(t, func(g *Group) {
				if first == OnDemand {
					g.Pools[0], g.Pools[1] = g.Pools[1], g.Pools[0]
				}
			})
			spot, onDemand := 0, 1
			if first == OnDemand {
				spot, onDemand = 1, 0
				o.Pools[0], o.Pools[1] = o.Pools[1], o.Pools[0]
			}
			for i := range 3 {
				o.Pools[spot].Failures = append(o.Pools[spot].Failures,
					evidence.Failure{UID: fmt.Sprint(i), At: midnight.Add(-time.Minute), Capacity: true})
			}
			n := usable("od", OnDemand)
			n.Created = midnight.Add(-age)
			o.Pools[onDemand].Nodes = []Node{n}
			s := State{memory: memory{At: statemachine.Stamp(midnight) - 1000, KnownSince: statemachine.Stamp(midnight) - 1000}}
			s.adapt(g)
			if _, s = Decide(g, o, s, midnight); (s.Spot.Phase == statemachine.Fallback) != fails {
				t.Errorf("%v first, on-demand grew %v ago: phase %v", first, age, s.Spot.Phase)
			}
		}
	}
}

func TestLossesThatProveThatSpotFails(t *testing.T) {
	for _, c := range []struct {
		lost, left int
		fails      bool
	}{{1, 0, false}, {2, 0, true}, {2, 1, true}, {2, 2, true}, {2, 3, false}, {3, 3, true}, {3, 4, false}, {5, 4, true}} {
		g, o := pairOf(t, nil)
		for i := range c.lost {
			o.Pools[0].Losses = append(o.Pools[0].Losses, evidence.Loss{UID: fmt.Sprint("lost-", i), At: midnight.Add(-time.Minute)})
		}
		for i := range c.left {
			o.Pools[0].Nodes = append(o.Pools[0].Nodes, usable(fmt.Sprint("node-", i), Spot))
		}
		if _, s := Decide(g, o, State{}, midnight); (s.Spot.Phase == statemachine.Fallback) != c.fails {
			t.Errorf("%d lost, %d left: phase %v", c.lost, c.left, s.Spot.Phase)
		}
	}
}

func TestEndsOfAProbe(t *testing.T) {
	spotNode := func(stage Stage, age time.Duration) []Node {
		return []Node{{UID: "spot", Type: Spot, Stage: stage, Ready: stage == Usable, GPUs: 1, Created: midnight.Add(-age)}}
	}
	for name, c := range map[string]struct {
		onDemand, pending int
		left              time.Duration // time until the end of the probe
		spot              []Node
		want              statemachine.Phase
	}{
		"nothing is left to probe with":             {0, 0, time.Minute, nil, statemachine.PreferSpot},
		"a pod waits":                               {0, 1, time.Minute, nil, statemachine.Probing},
		"replicas are on demand":                    {1, 0, time.Minute, nil, statemachine.Probing},
		"its time is over and nothing was launched": {1, 0, 0, nil, statemachine.Returning}, // PreferSpot would not protect the replica
		"its time is over and only a pod waits":     {0, 1, 0, nil, statemachine.PreferSpot},
		"just before its time is over":              {1, 0, time.Millisecond, nil, statemachine.Probing},
		"its time is over and a node still boots":   {1, 0, 0, spotNode(Launched, time.Minute), statemachine.Fallback},
		"a node has lived for five minutes":         {1, 0, time.Minute, spotNode(Usable, statemachine.SettleTime), statemachine.Returning},
		"a node has lived for almost five minutes": {1, 0, time.Minute, spotNode(Usable, statemachine.SettleTime-time.Second),
			statemachine.Probing},
	} {
		g, o := pairOf(t, nil)
		w := Workload{Key: "team/a", Uncapped: int32(c.onDemand + c.pending), Current: int32(c.onDemand + c.pending), GPUs: 1, Known: true}
		for i := range c.onDemand {
			o.Pools[1].Nodes = append(o.Pools[1].Nodes, usable(fmt.Sprint("od-", i), OnDemand))
			w.Pods = append(w.Pods, onNode(fmt.Sprint("od-", i), 1, i))
		}
		for i := range c.pending {
			w.Pods = append(w.Pods, Pod{UID: fmt.Sprint("waits-", i), GPUs: 1, Pool: -1, Pending: true, Since: midnight})
		}
		o.Pools[0].Nodes, o.Workloads = c.spot, []Workload{w}
		s := State{memory: memory{At: statemachine.Stamp(midnight) - 1, KnownSince: statemachine.Stamp(midnight.Add(-time.Hour))}}
		s.adapt(g)
		s.Spot = statemachine.SpotState{Phase: statemachine.Probing, Level: 1, Since: statemachine.Stamp(midnight.Add(-20 * time.Minute)),
			Until: statemachine.Stamp(midnight.Add(c.left)), Limit: 1}
		if _, s = Decide(g, o, s, midnight); s.Spot.Phase != c.want {
			t.Errorf("%s: phase %v, want %v", name, s.Spot.Phase, c.want)
		}
	}
}
