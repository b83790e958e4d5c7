package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// surging is a cluster whose first workload has only ready replicas. The node of its first replica can drift.
type surging struct {
	*cluster
	chat *simLoad
	old  *simPod
	node *simNode
	most int32 // greatest number of pods of the workload
	asks int   // how often the target of the workload increased
}

// newSurging returns a cluster with a workload of the given size. Each replica uses one node with one GPU.
func newSurging(t failer, replicas int32) *surging {
	s := &surging{cluster: newCluster(t, nil)}
	s.chat = s.add("team-chat/llama", 1)
	s.chat.want = replicas
	s.until(10*time.Minute, "all replicas are ready", s.whole(s.chat))
	s.old, s.node = s.chat.pods[0], s.chat.pods[0].node
	before := int32(0)
	s.observed = func() {
		a := s.d.Advice[0]
		if a.Surge > before {
			s.asks++
		}
		before, s.most = a.Surge, max(s.most, int32(len(s.chat.pods)))
	}
	return s
}

// drift marks the node of the first replica as drifted, and resets the smallest number of ready replicas.
func (s *surging) drift() {
	s.node.drifted = true
	s.chat.minimum = s.chat.ready()
}

func (s *surging) asked() bool { return s.d.Advice[0].Surge == 1 }
func (s *surging) gone() bool  { return !slices.Contains(s.chat.pods, s.old) }

// text returns the text of the surge's reason, or "".
func (s *surging) text() string {
	if r := s.reason(explain.RuleSurge); r != nil {
		return r.Text(s.g.Names())
	}
	return ""
}

// atMidnight matches 00:00 of each day.
var atMidnight = calendar.Cron{Minute: 1, Hour: 1, DayOfMonth: 1<<63 | 1<<32 - 2, Month: 1<<13 - 2, DayOfWeek: 1<<7 - 1}

func TestOnlyReplicaIsReplacedBeforeItsNodeIsDisrupted(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int32
		change   func(s *surging)
		replaced bool
	}{
		"the only replica on a drifted node":         {1, func(s *surging) { s.drift() }, true},
		"one of two replicas":                        {2, func(s *surging) { s.drift() }, true},
		"Karpenter has chosen the node":              {1, func(s *surging) { s.node.disrupted = true }, true},
		"one of three replicas":                      {3, func(s *surging) { s.drift() }, false},
		"the node stays":                             {1, func(*surging) {}, false},
		"a StatefulSet would delete the new replica": {1, func(s *surging) { s.old.owner = OwnerStatefulSet; s.drift() }, false},
		"another manager set the deletion cost":      {1, func(s *surging) { s.old.cost.Value = "5"; s.drift() }, false},
		"the budgets allow no disruption": {1, func(s *surging) {
			s.drift()
			for _, p := range s.pools {
				p.fields["disruption.budgets"] = nodepool.FieldView{Value: `[{"nodes":"0","reasons":["Drifted"]}]`, Owner: "kubectl"}
			}
		}, false},
		"a budget allows no disruption at this time": {1, func(s *surging) {
			s.drift()
			s.pools[0].quiet = []QuietTime{{atMidnight, 8 * time.Hour}}
		}, false},
		"a budget allows no disruption at another time": {1, func(s *surging) {
			s.drift()
			s.pools[0].quiet = []QuietTime{{atMidnight, 10 * time.Minute}}
		}, true},
		"the Node must not be disrupted":                {1, func(s *surging) { s.drift(); s.node.kept = true }, false},
		"the successor could start on the drifted node": {1, func(s *surging) { s.pools[0].gpus = 2; s.drift() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSurging(t, c.replicas)
			s.chat.minimum = c.replicas
			c.change(s)
			s.run(15 * time.Minute)
			most := c.replicas
			if c.replaced {
				most++
			}
			if s.gone() != c.replaced || s.most != most || s.chat.minimum < c.replicas || int32(len(s.chat.pods)) != c.replicas || s.asked() {
				t.Errorf("replaced %t, at most %d pods, now %d, at least %d ready\n%s", s.gone(), s.most, len(s.chat.pods), s.chat.minimum, s.why())
			}
			if c.replaced && slices.Contains(s.pools[0].nodes, s.node) && s.node.drifted {
				t.Error("the drifted node exists although it is empty")
			}
		})
	}
}

// Both replicas of a workload are on nodes that drift. They are replaced one after the other.
func TestBothReplicasAreReplacedOneAfterTheOther(t *testing.T) {
	s := newSurging(t, 2)
	for _, p := range s.chat.pods {
		p.node.drifted = true
	}
	second := s.chat.pods[1]
	s.drift()
	s.run(30 * time.Minute)
	if s.most != 3 || !s.gone() || slices.Contains(s.chat.pods, second) || s.chat.minimum < 2 || s.asks != 2 {
		t.Errorf("at most %d pods, at least %d ready, %d surges\n%s", s.most, s.chat.minimum, s.asks, s.why())
	}
}

// While the successor loads, the old replica is not ready for some seconds. Then the successor becomes ready and is not ready for some
// seconds. Neither interruption may end the surge.
func TestReplicaThatIsNotReadyForSomeSecondsDoesNotEndTheSurge(t *testing.T) {
	s := newSurging(t, 1)
	s.drift()
	s.until(time.Minute, "a second replica is requested", s.asked)
	for range 20 {
		s.old.ready = false
		if s.step(); !s.asked() {
			t.Fatalf("%s: the surge ended because the old replica is not ready\n%s", s.clock(), s.why())
		}
		s.old.ready = false
	}
	successor := func() *simPod {
		return s.chat.pods[slices.IndexFunc(s.chat.pods, func(p *simPod) bool { return p != s.old })]
	}
	s.until(10*time.Minute, "the successor is ready", func() bool { return successor().ready })
	s.run(10 * time.Second)
	successor().ready, successor().bound = false, s.now
	s.run(30 * time.Second)
	if !s.asked() || s.gone() {
		t.Fatalf("the surge ended although the successor is not ready\n%s", s.why())
	}
	s.until(10*time.Minute, "the old replica is deleted", s.gone)
	if s.most != 2 || len(s.chat.pods) != 1 || s.chat.ready() != 1 {
		t.Errorf("at most %d pods\n%s", s.most, s.why())
	}
}

// A successor that never becomes ready is removed after the time limit, with a message. The next attempt is hours later, and a new leader
// does not start it earlier.
func TestSuccessorThatIsNeverReadyIsWithdrawnForHours(t *testing.T) {
	s := newSurging(t, 1)
	s.drift()
	s.chat.neverReady = true
	s.until(time.Minute, "a second replica is requested", s.asked)
	asked := s.now
	if text := s.text(); !strings.Contains(text, s.node.name+", which has drifted: team-chat/llama gets one more replica") {
		t.Errorf("the reason is %q", text)
	}
	s.until(time.Hour, "it is withdrawn", func() bool { return !s.asked() })
	if age := s.now.Sub(asked); age < successorTimeout || age > successorTimeout+time.Minute {
		t.Errorf("the successor was removed after %v", age)
	}
	if text := s.text(); !strings.Contains(text, "the next attempt is after") {
		t.Errorf("the reason is %q", text)
	}
	s.run(2 * time.Hour)
	s.s = State{}
	s.run(3 * time.Hour)
	if s.asks != 1 || s.gone() || len(s.chat.pods) != 1 {
		t.Errorf("%d surges within hours\n%s", s.asks, s.why())
	}
	s.chat.neverReady = false
	s.until(statemachine.SurgeRest, "the replica is replaced", s.gone)
	if s.asks != 2 || s.most != 2 {
		t.Errorf("%d surges, at most %d pods\n%s", s.asks, s.most, s.why())
	}
}

// The time limit includes the learned cold start of the workload, if it is longer than the lead time of the group.
func TestTimeLimitOfASurgeIncludesTheColdStart(t *testing.T) {
	for _, c := range []struct{ lead, learned, want time.Duration }{
		{0, 0, successorTimeout},
		{15 * time.Minute, 0, successorTimeout + 15*time.Minute},
		{15 * time.Minute, 40 * time.Minute, successorTimeout + 40*time.Minute},
	} {
		a := analysis{g: &Group{LeadTime: c.lead}}
		if got := a.surgeLimit(&Workload{ColdStart: c.learned}); got != c.want {
			t.Errorf("lead time %v, learned %v: %v", c.lead, c.learned, got)
		}
	}
}

// The node of the successor drifts while the model loads. The successor becomes ready there, but it does not replace the old replica,
// because Karpenter will replace this node too. No other replica is added.
func TestSuccessorOnADriftedNodeIsNoReplacementAndNotRepeated(t *testing.T) {
	s := newSurging(t, 1)
	s.drift()
	s.until(5*time.Minute, "the successor loads", func() bool { return len(s.chat.pods) == 2 && s.chat.pods[1].node != nil })
	s.chat.pods[1].node.drifted = true
	s.run(statemachine.SurgeRest)
	if s.asks != 1 || s.most != 2 || len(s.chat.pods) != 1 || s.chat.minimum < 1 {
		t.Errorf("%d surges, at most %d pods, now %d, at least %d ready\n%s", s.asks, s.most, len(s.chat.pods), s.chat.minimum, s.why())
	}
}

// Karpenter chooses the node, finds no replacement, and removes its taint. gpuscaler then removes the additional replica. When Karpenter
// chooses the node again, the workload must get an additional replica again.
func TestNodeThatKarpenterChoosesAgainGetsASecondSurge(t *testing.T) {
	s := newSurging(t, 1)
	s.node.disrupted = true
	s.until(time.Minute, "a second replica is requested", s.asked)
	s.run(10 * time.Second)
	s.node.disrupted = false
	s.run(successorTimeout + time.Minute)
	if s.asked() || s.gone() || len(s.chat.pods) != 1 || s.text() != "" {
		t.Fatalf("%d pods, %q\n%s", len(s.chat.pods), s.text(), s.why())
	}
	s.node.disrupted = true
	s.until(10*time.Minute, "the replica is replaced", s.gone)
	if s.asks != 2 || s.most != 2 {
		t.Errorf("%d surges, at most %d pods\n%s", s.asks, s.most, s.why())
	}
}

// While the successor loads, a disruption budget of the owner begins to forbid the replacement of drifted nodes. The old replica must stay,
// and the successor must be removed.
func TestReplicaStaysWhenAQuietTimeBegins(t *testing.T) {
	s := newSurging(t, 1)
	s.drift()
	s.until(time.Minute, "a second replica is requested", s.asked)
	s.pools[0].quiet = []QuietTime{{atMidnight, time.Hour}}
	s.run(20 * time.Minute)
	if s.asked() || s.gone() || len(s.chat.pods) != 1 {
		t.Fatalf("%d pods\n%s", len(s.chat.pods), s.why())
	}
	s.until(time.Hour, "the replica is replaced after the quiet time", s.gone)
	if s.now.Before(midnight.Add(time.Hour)) || s.chat.minimum < 1 {
		t.Errorf("replaced at %s, at least %d ready", s.clock(), s.chat.minimum)
	}
}

// The autoscaler can add no node for another replica. A successor without a node must be removed. A successor that already has a node and
// loads must stay.
func TestInfeasibleBufferEndsOnlyASurgeWithoutANode(t *testing.T) {
	s := newSurging(t, 1)
	s.drift()
	s.until(time.Minute, "a second replica is requested", s.asked)
	s.chat.infeasible = true
	s.run(5 * time.Second)
	if s.asked() || s.gone() {
		t.Errorf("the successor without a node stays\n%s", s.why())
	}

	s = newSurging(t, 1)
	s.drift()
	s.until(5*time.Minute, "the successor loads", func() bool { return len(s.chat.pods) == 2 && s.chat.pods[1].node != nil })
	s.chat.infeasible = true
	s.until(5*time.Minute, "the replica is replaced", s.gone)
	if s.chat.minimum < 1 {
		t.Errorf("at least %d ready", s.chat.minimum)
	}
}

// Karpenter does not wait and evicts the old replica. The surge must then end without another replica.
func TestSurgeEndsWhenKarpenterEvictsTheReplica(t *testing.T) {
	s := newSurging(t, 1)
	s.drift()
	s.until(time.Minute, "a second replica is requested", s.asked)
	s.step()
	s.evict(s.node)
	s.step()
	s.step()
	if s.asked() || len(s.chat.pods) != 1 {
		t.Errorf("%d pods after the eviction\n%s", len(s.chat.pods), s.why())
	}
	s.run(time.Hour)
	if s.asks != 1 || s.chat.ready() != 1 {
		t.Errorf("%d surges, %d ready\n%s", s.asks, s.chat.ready(), s.why())
	}
}

func TestNoSurgeWhereItWouldWaitInVain(t *testing.T) {
	for name, change := range map[string]func(s *surging){
		"the target is at maxReplicas": func(s *surging) { s.chat.full = true },
		"the API server rejects pods":  func(s *surging) { s.chat.quota = true },
		"no node can have space":       func(s *surging) { s.chat.infeasible = true },
		"the workload is paused":       func(s *surging) { s.chat.paused = true },
		"readings are missing":         func(s *surging) { s.chat.unknown = true },
		"the caches are not complete":  func(s *surging) { s.known = false },
		"its devices are claimed":      func(s *surging) { s.chat.claimed = true },
		"another pod waits for a node": func(s *surging) {
			s.other = append(s.other, &simPod{uid: "job", name: "job", since: s.now, gpus: 16, owner: OwnerOther})
			s.run(time.Minute)
		},
		"every NodePool is at its limit": func(s *surging) {
			for _, p := range s.pools {
				p.fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: nodepool.Value(fmt.Sprint(len(p.nodes))), Owner: "kubectl"}
			}
		},
		"no NodePool is ready": func(s *surging) {
			for _, p := range s.pools {
				p.ready = false
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSurging(t, 1)
			change(s)
			s.drift()
			s.run(10 * time.Minute)
			if s.asks > 0 || s.gone() {
				t.Errorf("%d surges\n%s", s.asks, s.why())
			}
		})
	}
}

// While readings are missing, a surge that has begun continues, because missing data never lowers a target.
func TestSurgeContinuesWhileReadingsAreMissing(t *testing.T) {
	s := newSurging(t, 1)
	s.drift()
	s.chat.neverReady = true
	s.until(time.Minute, "a second replica is requested", s.asked)
	s.chat.unknown = true
	s.run(2 * time.Hour)
	if !s.asked() {
		t.Error("the surge ended while readings are missing")
	}
	s.chat.unknown = false
	s.run(time.Minute)
	if s.asked() {
		t.Error("the surge continued after its time limit")
	}
}

// No NodePool provides a node for the successor. When the group caps its targets, the successor must be removed, and must not be
// requested again for hours.
func TestSuccessorWithoutANodeIsWithdrawnWithTheCap(t *testing.T) {
	s := newSurging(t, 1)
	for _, p := range s.pools {
		p.denied = true
	}
	s.drift()
	s.run(3 * time.Hour)
	if s.asks != 1 || len(s.chat.pods) != 1 || s.gone() {
		t.Errorf("%d surges, %d pods\n%s", s.asks, len(s.chat.pods), s.why())
	}
}

// A new leader continues the surge of the previous leader: the target does not exceed two, and the time limit of the surge does not start
// again.
func TestNewLeaderContinuesASurge(t *testing.T) {
	s := newSurging(t, 1)
	s.drift()
	s.until(5*time.Minute, "the successor loads", func() bool { return len(s.chat.pods) == 2 && s.chat.pods[1].node != nil })
	s.s = State{}
	s.run(10 * time.Minute)
	if s.asks != 1 || s.most != 2 || !s.gone() || s.chat.minimum < 1 {
		t.Errorf("%d surges, at most %d pods, at least %d ready\n%s", s.asks, s.most, s.chat.minimum, s.why())
	}

	s = newSurging(t, 1)
	s.drift()
	s.chat.neverReady = true
	s.until(5*time.Minute, "the successor loads", func() bool { return len(s.chat.pods) == 2 && s.chat.pods[1].node != nil })
	began := s.now
	s.run(15 * time.Minute)
	s.s = State{}
	s.until(time.Hour, "it is withdrawn", func() bool { return !s.asked() })
	if age := s.now.Sub(began); age > successorTimeout+time.Minute {
		t.Errorf("the successor was removed after %v", age)
	}
}

// With startupShield, Karpenter must not evict the old replica while its successor loads. The annotation contains a duration since the
// start of the pod.
func TestStartupShieldProtectsTheReplicaUntilItsSuccessorIsReady(t *testing.T) {
	s := newSurging(t, 1)
	s.g.StartupShield = true
	s.drift()
	s.until(time.Minute, "the old replica is protected", func() bool { return s.old.shield.Ours })
	var minutes int
	if _, err := fmt.Sscanf(s.old.shield.Value, "%dm", &minutes); err != nil ||
		time.Duration(minutes)*time.Minute < s.now.Sub(s.old.since)+successorTimeout-time.Minute ||
		time.Duration(minutes)*time.Minute > s.now.Sub(s.old.since)+successorTimeout+time.Minute {
		t.Errorf("protected for %q", s.old.shield.Value)
	}
	s.chat.neverReady = true
	s.until(time.Hour, "it is withdrawn", func() bool { return !s.asked() })
	s.run(time.Minute)
	if s.old.shield.Value != "" {
		t.Errorf("still protected: %q", s.old.shield.Value)
	}
}
