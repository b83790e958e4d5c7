package capacity

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
)

func TestLoadingPodsAreNotDisruptedUntilReady(t *testing.T) {
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
			t.Errorf("pod %s is ready and still has karpenter.sh/do-not-disrupt", p.name)
		}
	}
	own := chat.pods[0]
	own.shield, own.ready, own.bound = Annotation{"true", false}, false, c.now
	c.run(30 * time.Second)
	if own.shield != (Annotation{"true", false}) {
		t.Errorf("the annotation of another manager became %+v", own.shield)
	}
}

func TestScaleInDeletesIdleOnDemandAndNodeFreeingPodsFirst(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.EmptyWholeNodes = true })
	c.pools[0].gpus = 2
	chat := c.add("team-chat/llama", 1)
	chat.want = 5 // three nodes with two GPUs each; the last node has only one pod
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
		t.Errorf("deletion cost of the pod alone on its node %q, of the idle pod %q", last.cost.Value, chat.pods[0].cost.Value)
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
			t.Errorf("pod %s keeps the deletion cost %q", p.name, p.cost.Value)
		}
	}
}

func TestDeletionCostOrder(t *testing.T) {
	names := []string{"doomed", "idle, on demand", "idle, lonely", "idle", "on demand, lonely", "on demand", "lonely", "none of these"}
	for reserve, packing := range map[string]bool{"packing": true, "packing with a reserve": true, "only a reserve": false} {
		g, o := pairOf(t, func(g *Group) { g.EmptyWholeNodes = packing })
		w := Workload{Key: "team/a", Uncapped: 8, Current: 8, GPUs: 4, Known: true}
		for i, name := range names {
			pool := flag01(strings.Contains(name, "on demand"))
			n := Node{Name: name, UID: name, Type: Spot + CapacityType(pool), Stage: Usable, Ready: true, GPUs: 8, Used: 8,
				Notice: name == "doomed", Created: midnight.Add(-2 * time.Hour)}
			if strings.Contains(name, "lonely") {
				n.Used = 4
			}
			o.Pools[pool].Nodes = append(o.Pools[pool].Nodes, n)
			w.Pods = append(w.Pods, Pod{UID: name, Name: name, Owner: OwnerReplicaSet, GPUs: 4, Pool: pool, Node: len(o.Pools[pool].Nodes) - 1,
				Ready: true,
				Idle:  strings.Contains(name, "idle"), Since: midnight.Add(time.Duration(i) * time.Second)})
		}
		o.Workloads = []Workload{w}
		if strings.Contains(reserve, "reserve") {
			o.Pools[0].Losses = []evidence.Loss{{UID: "a", At: midnight.Add(-time.Minute)}, {UID: "b", At: midnight.Add(-time.Minute)}}
		}
		d, _ := Decide(g, o, State{}, midnight)
		costs := map[string]int{}
		for _, a := range d.Actions {
			if m, ok := a.(PodAnnotation); ok && m.Kind == DeletionCost {
				costs[m.UID], _ = strconv.Atoi(m.Value)
			}
		}
		for i := range names[1:] {
			a, b := names[i], names[i+1]
			equal := !packing && strings.TrimSuffix(a, ", lonely") == strings.TrimSuffix(b, ", lonely") || !packing && b == "none of these"
			if costs[a] > costs[b] || costs[a] == costs[b] && !equal {
				t.Errorf("%s: %q has the cost %d, %q has %d", reserve, a, costs[a], b, costs[b])
			}
		}
	}
}
