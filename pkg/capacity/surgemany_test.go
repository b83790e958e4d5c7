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

// Random drifts, lost readiness, demand, missing readings and new leaders: a surge adds at most one replica to a workload, never lowers a
// target, and ends.
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
		running := 0
		for i := range s.s.Surges {
			if step := s.s.Surges[i].Step; step == statemachine.SurgeAsked || step == statemachine.SurgeReplacing {
				running++
			}
		}
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
