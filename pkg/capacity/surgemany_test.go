package capacity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// All nodes of a group with twenty workloads of one replica drift at once. At most two replicas are added at a time, and in the end every
// replica has moved without an interruption.
func TestDriftOfAllNodesDoesNotDoubleTheGroup(t *testing.T) {
	s := newCluster(t, nil)
	for _, p := range s.pools {
		p.fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "100", Owner: "kubectl"}
	}
	for i := range 20 {
		s.add(fmt.Sprintf("team-%02d/llama", i), 1).want = 1
	}
	ready := func() bool {
		return !slices.ContainsFunc(s.loads, func(l *simLoad) bool { return l.ready() != 1 })
	}
	s.until(20*time.Minute, "all replicas are ready", ready)
	for _, l := range s.loads {
		l.minimum = 1
	}
	for _, n := range s.pools[0].nodes {
		n.drifted = true
	}
	most, drifted := 0, true
	for range 3 * 60 * 60 {
		s.step()
		most, drifted = max(most, len(s.pods())), slices.ContainsFunc(s.pools[0].nodes, func(n *simNode) bool { return n.drifted })
		if !drifted {
			break
		}
	}
	if most > 22 || drifted {
		t.Errorf("at most %d pods; drifted nodes are left: %t\n%s", most, drifted, s.why())
	}
	for _, l := range s.loads {
		if l.minimum < 1 {
			t.Errorf("%s: no replica was ready for some time", l.key)
		}
	}
}

// The autoscaler can add no node. The nodes of two workloads drift, and another node has 0, 1 or 2 free GPUs. As many of
// these workloads must get a surge as GPUs are free, because each successor needs one GPU.
func TestInfeasibleBufferAllowsASurgeOnFreeGPUs(t *testing.T) {
	for free, want := range map[int64]int{0: 0, 1: 1, 2: 2} {
		s := newSurging(t, 1)
		other := s.add("team-embed/worker", 1)
		job := &simPod{uid: "job", name: "job", since: s.now, gpus: 1, owner: OwnerOther}
		other.want, s.other = 1, []*simPod{job}
		s.until(10*time.Minute, "all pods run", func() bool { return other.ready() == 1 && job.node != nil })
		job.node.pool.nodes = slices.DeleteFunc(job.node.pool.nodes, func(n *simNode) bool { return n == job.node })
		big := &simPool{Pool: s.pools[1].Pool, gpus: 1 + free, ready: true, fields: s.pools[1].fields, consent: s.pools[1].consent, hourly: 1}
		job.node = &simNode{name: "big", created: s.now.Add(-time.Hour), usable: true, changed: s.now, pool: big}
		big.nodes = []*simNode{job.node}
		s.pools[1] = big
		s.chat.infeasible, other.infeasible = true, true
		for _, p := range s.pools {
			p.until = s.now.Add(24 * time.Hour) // the NodePool launches no node during the test
		}
		for range statemachine.MaxRunningSurges * surgeNodes { // so many nodes allow MaxRunningSurges surges; no GPU is free
			n := &simNode{name: s.id("busy"), created: s.now.Add(-time.Hour), usable: true, changed: s.now, pool: s.pools[0]}
			s.pools[0].nodes = append(s.pools[0].nodes, n)
			s.other = append(s.other, &simPod{uid: n.name, name: n.name, node: n, gpus: 1, owner: OwnerOther})
		}
		s.drift()
		other.pods[0].node.drifted = true
		surges := 0
		s.observed = func() { surges = max(surges, s.s.runningSurges()) }
		s.run(10 * time.Minute)
		if surges != want || s.chat.minimum < 1 || s.gone() != (want > 0) {
			t.Errorf("%d free GPUs: %d surges, want %d; replaced %v\n%s", free, surges, want, s.gone(), s.why())
		}
	}
}

// The first workloads of the group have successors that never become ready. The last workload must nevertheless get its surge, even if
// the surges of the first workloads may already be tried again.
func TestFailingSurgesDoNotKeepOthersFromTheirs(t *testing.T) {
	for name, lead := range map[string]time.Duration{
		"the others rest": 0,
		// each surge fails after two hours, so the first workload rests until the fourth surge has failed
		"the others may try again": 100 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, func(g *Group) { g.LeadTime = lead })
			for i := range 5 {
				s.add(fmt.Sprintf("team-%d/llama", i), 1).want = 1
			}
			s.until(20*time.Minute, "all replicas are ready", func() bool {
				return !slices.ContainsFunc(s.loads, func(l *simLoad) bool { return l.ready() != 1 })
			})
			for _, n := range s.pools[0].nodes {
				n.drifted = true
			}
			last := s.loads[4]
			for _, l := range s.loads[:4] {
				l.neverReady = true
			}
			old := last.pods[0]
			s.until(4*(lead+successorTimeout+time.Minute)+time.Hour, "the replica of the last workload is replaced", func() bool {
				return !slices.Contains(last.pods, old) && last.ready() == 1
			})
		})
	}
}

// Nodes drift, pods lose readiness, demand changes, readings are missing and leaders change, all at random. A surge must add at most one
// replica to a workload, must never lower a target, and must end.
func TestSurgeIsBoundedAndEnds(t *testing.T) {
	for seed := range uint64(5) {
		checkRandomSurges(t, seed)
	}
}

func checkRandomSurges(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	s := newSurging(t, 1)
	for _, l := range []*simLoad{s.add("team-code/qwen", 1), s.add("team-code/embed", 1)} {
		l.want = 1
	}
	before := 0
	s.observed = func() {
		running := s.s.runningSurges()
		if nodes := len(s.pools[0].nodes) + len(s.pools[1].nodes); running > before &&
			running > max(1, nodes/surgeNodes) {
			t.Errorf("seed %d, %s: %d surges with %d nodes", seed, s.clock(), running, nodes)
		}
		before = running
		for i, l := range s.loads {
			if a := s.d.Advice[i]; a.Surge < 0 || a.Surge > 1 && s.s.Move.Step == statemachine.NoMove || a.AtRisk < 0 ||
				a.Cap >= 0 && a.Cap < l.want && !s.s.TargetCap.On {
				t.Errorf("seed %d, %s: advice %+v", seed, s.clock(), a)
			}
		}
	}
	for range 60 {
		s.disturb(random)
		s.run(time.Minute)
	}
	for _, l := range s.loads {
		l.unknown, l.want = false, max(l.want, 1)
	}
	s.run(successorTimeout + statemachine.ShrinkTimeout + time.Hour)
	for i, l := range s.loads {
		if a := s.d.Advice[i]; a.Surge != 0 || int32(len(l.pods)) != l.want {
			t.Errorf("seed %d: %s has %d pods, requested %d, advice %+v\n%s", seed, l.key, len(l.pods), l.want, a, s.why())
		}
	}
}

// disturb causes one random event.
func (s *surging) disturb(random *rand.Rand) {
	l := s.loads[random.IntN(len(s.loads))]
	switch random.IntN(8) {
	case 0, 1:
		for _, p := range l.pods {
			if p.node != nil {
				p.node.drifted = true
			}
		}
	case 2:
		for _, p := range l.pods {
			p.ready, p.bound = false, s.now
		}
	case 3:
		l.want = int32(1 + random.IntN(3))
	case 4:
		l.unknown = !l.unknown
	case 5:
		s.s = State{}
	case 6:
		for _, p := range l.pods {
			if p.node != nil && p.node.drifted {
				s.evict(p.node)
				return
			}
		}
	}
}

// The node of the only replica has a free GPU. While the node has only drifted, kube-scheduler could start the successor on it, so no
// replica is added. When Karpenter has chosen the node, its taint keeps the successor away, and the replica must be replaced.
func TestReplicaOnAPartlyUsedNodeIsReplacedWhenKarpenterHasChosenTheNode(t *testing.T) {
	s := &surging{cluster: newCluster(t, nil)}
	for _, p := range s.pools {
		p.gpus = 2
	}
	s.chat = s.add("team-chat/llama", 1)
	s.chat.want = 1
	s.until(10*time.Minute, "the replica is ready", s.whole(s.chat))
	s.old, s.node = s.chat.pods[0], s.chat.pods[0].node
	s.drift()
	s.run(10 * time.Minute)
	if len(s.chat.pods) != 1 {
		t.Errorf("%d pods on a node with a free GPU\n%s", len(s.chat.pods), s.why())
	}
	s.node.disrupted = true
	s.until(15*time.Minute, "the replica is replaced", s.gone)
	if s.chat.minimum < 1 {
		t.Errorf("at least %d ready", s.chat.minimum)
	}
}
