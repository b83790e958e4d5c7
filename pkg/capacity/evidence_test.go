package capacity

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// pairOf returns a group with one spot and one on-demand NodePool, consent for every field, and no node.
func pairOf(t *testing.T, change func(g *Group)) (*Group, Observation) {
	g := Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []Pool{{"spot", Spot}, {"on-demand", OnDemand}}}
	if change != nil {
		change(&g)
	}
	group, err := NewGroup(g)
	if err != nil {
		t.Fatal(err)
	}
	pool := PoolView{Exists: true, Ready: true, View: nodepool.View{
		Consent: nodepool.ConsentLimits | nodepool.ConsentWeight | nodepool.ConsentDisruption}}
	o := Observation{Pools: []PoolView{pool, pool}}
	o.Pools[0].Weight.Value, o.Pools[1].Weight.Value = "80", "20"
	return group, o
}

func TestEvidenceThatSpotFails(t *testing.T) {
	now := midnight.Add(time.Hour)
	refused := func(uid string, age time.Duration) evidence.Failure {
		return evidence.Failure{UID: uid, At: now.Add(-age), Capacity: true}
	}
	three := []evidence.Failure{refused("a", time.Minute), refused("b", time.Minute), refused("c", time.Minute)}
	launched := func(n int, age time.Duration) (nodes []Node) {
		for i := range n {
			nodes = append(nodes, Node{UID: fmt.Sprint(i), Stage: Usable, Ready: true, GPUs: 1, Used: 1, Created: now.Add(-age)})
		}
		return nodes
	}
	lost := func(n int, age time.Duration) (losses []evidence.Loss) {
		for i := range n {
			losses = append(losses, evidence.Loss{UID: fmt.Sprint(i), At: now.Add(-age)})
		}
		return losses
	}
	for name, c := range map[string]struct {
		failures []evidence.Failure
		losses   []evidence.Loss
		nodes    []Node
		onDemand []Node
		short    time.Duration
		want     explain.Cause
	}{
		"three refusals and pods that wait":         {three, nil, nil, nil, time.Minute, explain.CauseRefused},
		"pods have not waited long":                 {three, nil, nil, nil, 59 * time.Second, explain.CauseNone},
		"no pod waits":                              {three, nil, nil, nil, 0, explain.CauseNone},
		"no pod waits, because on-demand runs them": {three, nil, nil, launched(2, time.Minute), 0, explain.CauseRefused},
		"on-demand grew an hour ago":                {three, nil, nil, launched(2, time.Hour), 0, explain.CauseNone},
		"two refusals":                              {three[:2], nil, nil, nil, time.Hour, explain.CauseNone},
		"one refusal, reported three times": {[]evidence.Failure{three[0], three[0], three[0]}, nil, nil, nil, time.Hour,
			explain.CauseNone},
		"not for lack of capacity": {[]evidence.Failure{{UID: "a", At: now}, {UID: "b", At: now}, {UID: "c", At: now}}, nil, nil, nil,
			time.Hour, explain.CauseNone},
		"three of seven launches":              {three, nil, launched(4, time.Minute), nil, time.Hour, explain.CauseNone},
		"three of six launches":                {three, nil, launched(3, time.Minute), nil, time.Hour, explain.CauseRefused},
		"launches of an hour ago do not count": {three, nil, launched(9, time.Hour), nil, time.Hour, explain.CauseRefused},
		"a claim without an answer is no success": {three, nil, []Node{{UID: "x", Created: now}, {UID: "y", Created: now},
			{UID: "z", Created: now}, {UID: "w", Created: now}}, nil, time.Hour, explain.CauseRefused},
		"six minutes ago": {[]evidence.Failure{refused("a", 6*time.Minute), refused("b", 6*time.Minute),
			refused("c", 6*time.Minute)}, nil, nil, nil, time.Hour, explain.CauseNone},
		"by a clock that runs two hours ahead": {[]evidence.Failure{refused("a", -2*time.Hour), refused("b", -2*time.Hour),
			refused("c", -2*time.Hour)}, nil, nil, nil, time.Hour, explain.CauseNone},
		"three nodes lost, of many":                     {nil, lost(3, 10*time.Minute), launched(40, time.Hour), nil, 0, explain.CauseNone},
		"half of the nodes lost":                        {nil, lost(20, 10*time.Minute), launched(20, time.Hour), nil, 0, explain.CauseLost},
		"two of three lost":                             {nil, lost(2, 10*time.Minute), launched(1, time.Hour), nil, 0, explain.CauseLost},
		"two of eight lost":                             {nil, lost(2, 10*time.Minute), launched(6, time.Hour), nil, 0, explain.CauseNone},
		"the only one lost":                             {nil, lost(1, time.Minute), nil, nil, 0, explain.CauseNone},
		"lost twenty minutes ago":                       {nil, lost(5, 20*time.Minute), nil, nil, 0, explain.CauseNone},
		"a hundred a minute, of which three are enough": {manyFailures(now, 1000), nil, nil, nil, time.Minute, explain.CauseRefused},
	} {
		g, o := pairOf(t, nil)
		o.Pools[0].Failures, o.Pools[0].Losses, o.Pools[0].Nodes, o.Pools[1].Nodes = c.failures, c.losses, c.nodes, c.onDemand
		if c.short > 0 {
			o.UnmanagedPods = []Pod{{UID: "pending", GPUs: 1, Pool: -1, Pending: true}}
		}
		s := State{memory: memory{At: statemachine.Stamp(now) - 1000}}
		s.adapt(g)
		if s.KnownSince = s.At; c.short > 0 {
			s.ShortSince = statemachine.Stamp(now.Add(-c.short))
		}
		_, s = Decide(g, o, s, now)
		if s.Spot.Cause != c.want || (s.Spot.Phase == statemachine.Fallback) != (c.want != explain.CauseNone) {
			t.Errorf("%s: %v in %v, want %v", name, s.Spot.Cause, s.Spot.Phase, c.want)
		}
	}
}

func manyFailures(now time.Time, n int) (all []evidence.Failure) {
	for i := range n {
		all = append(all, evidence.Failure{UID: fmt.Sprint(i), At: now.Add(-time.Duration(i) * 100 * time.Millisecond), Capacity: true})
	}
	return all
}

func TestLeastUsedMovableNodeIsEmptiedFirst(t *testing.T) {
	node := func(name string, gpus, used int64) Node {
		return Node{Name: name, UID: name, Type: OnDemand, Stage: Usable, Ready: true, GPUs: gpus, Used: used, Created: midnight.Add(-time.Hour)}
	}
	doomed := node("doomed", 8, 1)
	doomed.Deleting = true
	for name, c := range map[string]struct {
		base  int64
		nodes []Node // each node has one pod for each unit in use; the pods are movable, except on the node with the name shared
		want  string
	}{
		"the least used":                         {0, []Node{node("a", 8, 3), node("b", 8, 2)}, "b"},
		"of equals the first by name":            {0, []Node{node("b", 8, 2), node("a", 8, 2)}, "a"},
		"a Job shares it":                        {0, []Node{node("shared", 8, 1), node("z", 8, 4)}, "z"},
		"it is being deleted":                    {0, []Node{doomed, node("z", 8, 4)}, "z"},
		"what it leaves would be less than base": {1, []Node{node("a-big", 8, 1), node("b-small", 1, 1)}, "b-small"},
		"all of it is base":                      {16, []Node{node("a", 8, 1), node("b", 8, 1)}, ""},
		"nothing runs there that can be moved":   {0, []Node{node("shared", 8, 8)}, ""},
	} {
		g, o := pairOf(t, func(g *Group) { g.OnDemandBase = c.base })
		w := Workload{Key: "team/a", GPUs: 1, Known: true}
		for i, n := range c.nodes {
			for range n.Used {
				uid := fmt.Sprint("pod-", len(w.Pods))
				p := Pod{UID: uid, Name: uid, Owner: OwnerReplicaSet, GPUs: 1, Pool: 1, Node: i, Ready: true, Since: midnight}
				if n.Name == "shared" {
					p.Owner = OwnerOther
					o.UnmanagedPods = append(o.UnmanagedPods, p)
					continue
				}
				w.Pods = append(w.Pods, p)
			}
		}
		w.Uncapped, w.Current = int32(len(w.Pods)), int32(len(w.Pods))
		if c.nodes[0].Deleting {
			w.Uncapped-- // pods on a node that is being deleted do not count
		}
		o.Pools[1].Nodes, o.Workloads = c.nodes, []Workload{w}
		s := State{memory: memory{At: statemachine.Stamp(midnight), KnownSince: statemachine.Stamp(midnight)}}
		s.adapt(g)
		s.Spot = statemachine.SpotState{Phase: statemachine.Returning, Cause: explain.CauseProbe, Since: s.At}
		if _, s = Decide(g, o, s, midnight.Add(time.Second)); s.Move.Node != c.want {
			t.Errorf("%s: %q, want %q", name, s.Move.Node, c.want)
		}
	}
}
