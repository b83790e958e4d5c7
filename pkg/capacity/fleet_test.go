package capacity

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// newFleet returns a cluster with a group whose nodes are found by a label. The autoscaler of these nodes adds at most the given number
// of nodes, and removes none. Every write to a NodePool fails the test.
func newFleet(t *testing.T, nodes int, change func(g *Group)) (*cluster, *simLoad) {
	c := newCluster(t, func(g *Group) {
		g.Pools, g.NodeSelector = nil, map[string]string{"accelerator": "l40s"}
		if change != nil {
			change(g)
		}
	})
	fleet := c.pools[0]
	fleet.slots, fleet.consent = nodes, 0
	fleet.fields = map[string]nodepool.FieldView{"disruption.consolidateAfter": {Value: `"Never"`}}
	c.applied = func() {
		for _, a := range c.d.Actions {
			if p, is := a.(NodePoolPatch); is {
				t.Fatalf("a group without NodePools writes %s", p.Text())
			}
		}
	}
	return c, c.add("team-chat/llama", 1)
}

// A static fleet has three nodes, so the target is capped at four replicas, and the reason says why. A fourth node raises the cap.
func TestStaticFleetCapsTheTargetAtItsNodes(t *testing.T) {
	c, chat := newFleet(t, 3, nil)
	chat.want = 3
	c.until(10*time.Minute, "three replicas are ready", c.whole(chat))
	chat.want = 8
	c.until(10*time.Minute, "the target is capped", func() bool { return chat.lastAdvice.Cap == 4 })
	if want := "its nodes accelerator=l40s are all that it has"; !strings.Contains(c.why(), want) {
		t.Errorf("no reason contains %q\n%s", want, c.why())
	}
	c.pools[0].slots = 4
	c.until(time.Hour, "the fourth replica is ready", func() bool { return chat.ready() == 4 })
	c.until(time.Hour, "the cap rises", func() bool { return chat.lastAdvice.Cap == 5 })
}

// An autoscaler adds nodes up to a maximum, which the platform team configures as a number of nodes or of GPUs. Below this maximum, no
// target is capped.
func TestFleetIsCappedAtTheMaximumOfThePlatformTeam(t *testing.T) {
	for name, change := range map[string]func(g *Group){
		"maxNodes": func(g *Group) { g.MaxNodes = 5 }, "maxCapacity": func(g *Group) { g.MaxCapacity = 6 },
	} {
		c, chat := newFleet(t, 5, change)
		c.pools[0].gpus = 1
		chat.want = 5
		c.observed = func() {
			if c.d.Advice[0].Cap >= 0 && c.nodes(0) < 5 {
				t.Fatalf("%s: a cap of %d below the maximum\n%s", name, c.d.Advice[0].Cap, c.why())
			}
		}
		c.until(20*time.Minute, name+": five replicas are ready", c.whole(chat))
		if name == "maxCapacity" {
			c.pools[0].slots = 6
			chat.want = 6
			c.until(20*time.Minute, "six replicas are ready", c.whole(chat))
		}
		chat.want = 9
		c.until(20*time.Minute, name+": the target is capped", func() bool { return int(chat.lastAdvice.Cap) == c.nodes(0)+1 })
		if want := "its nodes accelerator=l40s have reached " + name; !strings.Contains(c.why(), want) {
			t.Errorf("no reason contains %q\n%s", want, c.why())
		}
	}
}

// The autoscaler may add nodes but adds none, for example because the provider has no capacity. After provisionTimeout, which is the
// autoscaler's own timeout, the target must be capped.
func TestAutoscalerThatAddsNoNodeCapsTheTarget(t *testing.T) {
	c, chat := newFleet(t, 2, func(g *Group) { g.MaxNodes = 10 })
	chat.want = 6
	c.run(14 * time.Minute)
	if chat.lastAdvice.Cap >= 0 || chat.ready() != 2 {
		t.Fatalf("cap %d, %d ready\n%s", chat.lastAdvice.Cap, chat.ready(), c.why())
	}
	c.until(10*time.Minute, "the target is capped", func() bool { return chat.lastAdvice.Cap == 3 })
	if want := "no node with the labels accelerator=l40s was added for 15 minutes"; !strings.Contains(c.why(), want) {
		t.Errorf("no reason contains %q\n%s", want, c.why())
	}
	c.pools[0].slots = 10
	c.until(time.Hour, "all replicas are ready", c.whole(chat))
}

// If the nodes cannot be read, gpuscaler must not regard the fleet as empty: no target is capped, and a finding reports that the nodes
// cannot be read.
func TestUnreadableNodesCapNothing(t *testing.T) {
	c, chat := newFleet(t, 2, nil)
	c.pools[0].gone, chat.want = true, 6
	c.run(time.Hour)
	if f := c.finding(explain.FindMissing); chat.lastAdvice.Cap >= 0 || f == nil || !strings.Contains(f.Text(c.g.Names()), "cannot be read") {
		t.Errorf("cap %d, finding %+v\n%s", chat.lastAdvice.Cap, f, c.why())
	}
}

// The test checks the findings about the nodes of a group that are found by a label, and the number of free units on these nodes.
func TestFindingsAboutTheNodesOfAFleet(t *testing.T) {
	usable := func(gpus, used int64, ready bool) Node {
		return Node{Stage: Usable, GPUs: gpus, Used: used, Ready: ready, Created: midnight}
	}
	for name, c := range map[string]struct {
		view PoolView
		want string // "": no finding
		free int64
	}{
		"all is well":            {PoolView{Exists: true, Ready: true, Nodes: []Node{usable(8, 2, true)}}, "", 6},
		"no node has the labels": {PoolView{Exists: true, Ready: true}, "no node has the labels accelerator=l40s of group chat", 0},
		"nodes belong to a NodePool": {PoolView{Exists: true, Ready: true, Elsewhere: 2, Nodes: []Node{usable(8, 8, true)}},
			"2 nodes with the labels accelerator=l40s belong to a NodePool of Karpenter or to an earlier group", 0},
		"nodes of two resources": {PoolView{Exists: true, Ready: true, Nodes: []Node{usable(8, 8, true), usable(0, 0, true)}},
			"1 node with the labels accelerator=l40s of group chat has no allocatable nvidia.com/gpu", 0},
		"a node boots": {PoolView{Exists: true, Ready: true, Nodes: []Node{usable(8, 8, true),
			{Stage: Launched, Created: midnight.Add(-time.Minute)}}}, "", 0},
		"a node is cordoned or not ready": {PoolView{Exists: true, Ready: true, Nodes: []Node{usable(8, 0, false)}},
			"1 node with the labels accelerator=l40s of group chat is not Ready or is cordoned", 0},
	} {
		g, err := NewGroup(Group{Name: "chat", Resource: "nvidia.com/gpu", NodeSelector: map[string]string{"accelerator": "l40s"}})
		if err != nil {
			t.Fatal(err)
		}
		o := Observation{Pools: []PoolView{c.view}}
		d, _ := Decide(g, o, State{}, midnight)
		a := analysis{g: g, o: &o, now: midnight}
		switch {
		case a.freeUnits(1) != c.free:
			t.Errorf("%s: %d GPUs free, want %d", name, a.freeUnits(1), c.free)
		case c.want == "" && len(d.Findings) > 0:
			t.Errorf("%s: %s", name, d.Findings[0].Text(g.Names()))
		case c.want != "" && (len(d.Findings) != 1 || !strings.Contains(d.Findings[0].Text(g.Names()), c.want)):
			t.Errorf("%s: findings %+v, want %q", name, d.Findings, c.want)
		}
	}
}

// Before known demand, a finding contains the command that keeps enough nodes. The labels of the nodes determine the provider of the
// command.
func TestKnownDemandOfAFleetIsAdviceWithTheCommand(t *testing.T) {
	for label, want := range map[string]string{
		"cloud.google.com/gke-nodepool": "gcloud container clusters update CLUSTER --node-pool l40s --enable-autoscaling --total-min-nodes 3 " +
			"--total-max-nodes 9",
		"kubernetes.azure.com/agentpool": "az aks nodepool update --resource-group GROUP --cluster-name CLUSTER --name l40s " +
			"--update-cluster-autoscaler --min-count 3 --max-count 9",
		"eks.amazonaws.com/nodegroup": "aws eks update-nodegroup-config --cluster-name CLUSTER --nodegroup-name l40s --scaling-config minSize=3",
		"accelerator":                 "kubectl annotate nodes -l accelerator=l40s cluster-autoscaler.kubernetes.io/scale-down-disabled=true",
	} {
		c, _ := newFleet(t, 9, func(g *Group) {
			g.NodeSelector, g.MaxNodes, g.LeadTime = map[string]string{label: "l40s"}, 9, 10*time.Minute
		})
		c.ahead = []Span{{From: midnight.Add(time.Hour), Until: midnight.Add(3 * time.Hour), GPUs: 3, Workload: "team-chat/llama", Replicas: 3}}
		c.run(40 * time.Minute)
		if f := c.finding(explain.FindKeepNodes); f != nil {
			t.Errorf("%s: the advice is given too early: %+v", label, f)
		}
		c.run(15 * time.Minute)
		if f := c.finding(explain.FindKeepNodes); f == nil || !strings.Contains(f.Text(c.g.Names()), want) {
			t.Errorf("%s: %+v, want %q\n%s", label, f, want, c.why())
		}
		if c.d.Phase != statemachine.PreferSpot {
			t.Errorf("%s: phase %v", label, c.d.Phase)
		}
	}
}

// A node that matches two groups belongs to the first of them.
func TestNodeBelongsToTheFirstGroupThatMatches(t *testing.T) {
	group := func(selector map[string]string) *Group {
		return &Group{Name: "g", Resource: "nvidia.com/gpu", NodeSelector: selector}
	}
	a, b, pools := group(map[string]string{"gpu": "l40s", "zone": "a"}), group(map[string]string{"gpu": "l40s"}), group(nil)
	all := []*Group{pools, a, b}
	for want, labels := range map[*Group]map[string]string{
		a: {"gpu": "l40s", "zone": "a", "other": "x"}, b: {"gpu": "l40s", "zone": "b"}, nil: {"gpu": "h100"},
	} {
		if got := FirstMatch(all, labels); got != want {
			t.Errorf("%v belongs to %+v", labels, got)
		}
	}
}
