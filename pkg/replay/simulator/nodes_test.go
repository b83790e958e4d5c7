package simulator

import (
	"context"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// exact returns assumptions with a cold start of fixed duration: 60 s node launch, 60 s until the GPUs are ready, 130 s image pull and 50 s
// model load.
func exact() *Assumptions {
	a, fixed := DefaultAssumptions(), reproducible.Fixed
	a.NodeLaunch, a.GPUReady, a.ImagePull, a.ModelLoad = fixed(time.Minute), fixed(time.Minute), fixed(130*time.Second), fixed(50*time.Second)
	return &a
}

// plan returns a workload without requests. Its number of desired replicas follows the given steps.
func plan(name string, steps ...baseline.Step) Workload {
	return Workload{Key: scaling.Key{Namespace: "team", Name: name}, Actuator: baseline.Planned(steps)}
}

func at(seconds int, replicas int32) baseline.Step {
	return baseline.Step{At: time.Duration(seconds) * time.Second, Replicas: replicas}
}

func nodePool(name, capacity string, gpus int32, hourly float64, weight int32) karpenter.NodePool {
	return karpenter.NodePool{Name: name, CapacityType: capacity, InstanceType: name, GPUs: gpus, Hourly: hourly, Weight: weight,
		ConsolidateAfter: karpenter.Never}
}

// watch runs a simulation and calls the function look each second.
func watch(t *testing.T, c Config, d time.Duration, look func(w *Simulator, second int)) *Result {
	t.Helper()
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for s := 0; w.Now() < d; s++ {
		w.Step(context.Background())
		if look != nil {
			look(w, s+1)
		}
	}
	r := w.Result()
	conserve(t, w, r)
	return r
}

// readyAt runs a simulation and returns the first second at which n replicas are ready, or 0.
func readyAt(t *testing.T, c Config, load int, n int32, d time.Duration) (second int) {
	t.Helper()
	watch(t, c, d, func(w *Simulator, s int) {
		if second == 0 && w.loads[load].ready >= n {
			second = s
		}
	})
	return second
}

func TestColdStartHasItsPhasesInOrder(t *testing.T) {
	c := Config{Assumptions: exact(), Workloads: []Workload{plan("a", at(0, 1))},
		NodePools: []karpenter.NodePool{nodePool("od", karpenter.OnDemand, 1, 2, 0)}}
	watch(t, c, 400*time.Second, func(w *Simulator, s int) {
		l, n := w.loads[0], w.nodes.Pools()[0].Nodes()
		switch s {
		case 60:
			if len(n) != 1 || n[0].State() != karpenter.Launched || l.pending != 1 {
				t.Errorf("at %d s: %d nodes, %d pending; want a node that launches", s, len(n), l.pending)
			}
		case 120:
			if n[0].State() != karpenter.Registered || l.pending != 1 {
				t.Errorf("at %d s the GPUs should not be there yet", s)
			}
		case 122, 250, 252, 300:
			if l.loading != 1 || l.pending != 0 {
				t.Errorf("at %d s: %d loading, %d pending; want an image that is pulled, then a model that loads", s, l.loading, l.pending)
			}
		case 301: // a second of batching, 60 s launch, 60 s GPU ready, 130 s image pull and 50 s model load
			if l.ready != 1 {
				t.Errorf("at %d s no replica is ready", s)
			}
		}
	})
	if got := readyAt(t, Config{Assumptions: exact(), Workloads: []Workload{plan("a", at(0, 1))}}, 0, 1, 400*time.Second); got != 300 {
		t.Errorf("without NodePools it was ready after %d s, want 300", got)
	}
}

func TestAWarmNodeSkipsItsPhases(t *testing.T) {
	pools := []karpenter.NodePool{nodePool("od", karpenter.OnDemand, 2, 2, 0)}
	first := plan("a", at(400, 2))
	first.Initial = 1
	if got := readyAt(t, Config{Assumptions: exact(), Workloads: []Workload{first}, NodePools: pools}, 0, 2, 600*time.Second); got != 450 {
		t.Errorf("a second replica on a node with the image was ready after %d s, want 450: the model only", got)
	}
	first = plan("a")
	first.Initial = 1
	other := plan("b", at(400, 1))
	both := Config{Assumptions: exact(), Workloads: []Workload{first, other}, NodePools: pools}
	if got := readyAt(t, both, 1, 1, 700*time.Second); got != 580 {
		t.Errorf("another workload's replica on a warm node was ready after %d s, want 580: its image and model", got)
	}
	pair := plan("a", at(0, 2))
	if got := readyAt(t, Config{Assumptions: exact(), Workloads: []Workload{pair}, NodePools: pools}, 0, 2, 700*time.Second); got != 301 {
		t.Errorf("two replicas of one new node were ready after %d s, want 301: they share one pull", got)
	}
}

func TestReplicasArePackedOnNodes(t *testing.T) {
	four := plan("four", at(0, 3))
	four.GPUs = 4
	one := plan("one", at(0, 5))
	r := watch(t, Config{Assumptions: exact(), Workloads: []Workload{one, four},
		NodePools: []karpenter.NodePool{nodePool("od", karpenter.OnDemand, 8, 16, 0)}},
		20*time.Minute, nil)
	if got := r.Pools[0].NodeStarts; got != 3 {
		t.Errorf("17 GPUs took %d nodes of 8, want 3", got)
	}
	if want := 7 * (20*time.Minute - 121*time.Second); r.Ledger[ledger.Fragmentation] != want {
		t.Errorf("fragmentation %s, want the 7 free GPUs since the nodes were usable: %s", r.Ledger[ledger.Fragmentation], want)
	}
}

func TestPoolWithHigherWeightIsUsedFirstUpToItsLimit(t *testing.T) {
	limit := int64(4)
	spot := nodePool("spot", karpenter.Spot, 2, 1, 80)
	spot.Limit = &limit
	r := watch(t, Config{Assumptions: exact(), Workloads: []Workload{plan("a", at(0, 7))},
		NodePools: []karpenter.NodePool{nodePool("od", karpenter.OnDemand, 1, 1, 20), spot}}, 10*time.Minute, nil)
	if s, o := r.Pools[0], r.Pools[1]; s.Name != "spot" || s.NodeStarts != 2 || o.NodeStarts != 3 {
		t.Errorf("%d spot nodes of two GPUs and %d on-demand nodes, want 2 and 3", s.NodeStarts, o.NodeStarts)
	}
}

func TestWithoutSpotCapacityItFallsBackAndRemembersForThreeMinutes(t *testing.T) {
	spot := nodePool("spot", karpenter.Spot, 1, 1, 80)
	spot.Outages = []karpenter.Outage{{From: 0, To: 2 * time.Minute}}
	c := Config{Assumptions: exact(), NodePools: []karpenter.NodePool{nodePool("od", karpenter.OnDemand, 1, 3, 20), spot},
		Workloads: []Workload{plan("a", at(0, 1), at(150, 2), at(200, 3))}}
	r := watch(t, c, 600*time.Second, func(w *Simulator, s int) {
		s1, od := len(w.nodes.Pools()[0].Nodes()), len(w.nodes.Pools()[1].Nodes())
		switch s {
		case 10:
			if s1+od != 0 {
				t.Errorf("at %d s: a node was launched before the retry", s)
			}
		case 12:
			if od != 1 {
				t.Errorf("at %d s: %d on-demand nodes, want the fallback", s, od)
			}
		case 160:
			if od != 2 || s1 != 0 {
				t.Errorf("at %d s: %d on-demand, %d spot; spot is there again, but the refusal is remembered", s, od, s1)
			}
		case 210:
			if od != 2 || s1 != 1 {
				t.Errorf("at %d s: %d on-demand, %d spot; the refusal is forgotten", s, od, s1)
			}
		}
	})
	if r.Pools[0].Refusals != 1 {
		t.Errorf("%d refusals, want 1", r.Pools[0].Refusals)
	}
}

func TestEmptyNodesGoAtTheBudgetsPace(t *testing.T) {
	od := nodePool("od", karpenter.OnDemand, 1, 2, 0)
	od.ConsolidateAfter = time.Minute
	w := plan("a", at(600, 0))
	w.Initial = 10
	var gone []int
	before := 10
	watch(t, Config{Assumptions: exact(), Workloads: []Workload{w},
		NodePools: []karpenter.NodePool{od}}, 30*time.Minute, func(w *Simulator, s int) {
		if n := len(w.nodes.Pools()[0].Nodes()); n < before {
			gone, before = append(gone, s), n
		}
	})
	// The nodes are empty at 600 s and can be consolidated from 660 s. The disruption loop finds an empty node up to 10 s later, validates its
	// removal after 15 s and removes it within another 30 s. The budget of 10% allows the removal of one of the ten nodes at a time.
	if len(gone) != 10 || gone[0] < 660+15+30 || gone[0] > 660+10+15+30+1 {
		t.Fatalf("nodes were removed at %v", gone)
	}
	for i := range gone[1:] {
		if d := gone[i+1] - gone[i]; d < 25 {
			t.Errorf("two nodes were removed %d s apart, want at least 25 s: the budget of 10%% allows one of ten at a time", d)
		}
	}
}

func TestConsolidateAfterNeverKeepsNodes(t *testing.T) {
	w := plan("a", at(60, 0))
	w.Initial = 2
	r := watch(t, Config{Assumptions: exact(), Workloads: []Workload{w},
		NodePools: []karpenter.NodePool{nodePool("od", karpenter.OnDemand, 1, 2, 0)}},
		time.Hour, nil)
	if want := 2 * 59 * time.Minute; r.Ledger[ledger.Empty] != want {
		t.Errorf("empty GPUs for %s, want %s", r.Ledger[ledger.Empty], want)
	}
	if r.Cost != 4 {
		t.Errorf("two nodes at $2 for an hour cost $%g", r.Cost)
	}
}

func TestReturnToSpotWhenItIsAvailableAgain(t *testing.T) {
	spot, od := nodePool("spot", karpenter.Spot, 1, 1, 80), nodePool("od", karpenter.OnDemand, 1, 3, 20)
	spot.Outages = []karpenter.Outage{{From: 0, To: 10 * time.Minute}}
	spot.ConsolidateAfter, od.ConsolidateAfter = 5*time.Minute, 5*time.Minute
	a := exact()
	// With a longer image pull, the second replica would move before the replacement of the first one is ready. Only a PodDisruptionBudget,
	// which is not modeled, would prevent that.
	a.ImagePull = reproducible.Fixed(30 * time.Second)
	c := Config{Assumptions: a, NodePools: []karpenter.NodePool{od, spot}, Workloads: []Workload{plan("a", at(0, 2))}}
	least := int32(2)
	r := watch(t, c, time.Hour, func(w *Simulator, s int) {
		if s > 320 {
			least = min(least, w.loads[0].ready)
		}
	})
	if r.Pools[0].NodeStarts != 2 || r.Loads[0].Lost != 2 {
		t.Errorf("%d spot nodes started, %d replicas moved; want 2 and 2", r.Pools[0].NodeStarts, r.Loads[0].Lost)
	}
	if least != 1 {
		t.Errorf("at least %d replicas were ready while they moved one by one", least)
	}
	w := plan("b", at(0, 2))
	w.DoNotDisrupt = true
	c.Workloads = []Workload{w}
	if r := watch(t, c, time.Hour, nil); r.Loads[0].Lost != 0 {
		t.Errorf("%d replicas moved that must not be disrupted", r.Loads[0].Lost)
	}
}

func TestHalfEmptyNodesAreEmptiedOntoOthers(t *testing.T) {
	od := nodePool("od", karpenter.OnDemand, 4, 8, 0)
	od.ConsolidateAfter = time.Minute
	w := plan("a", at(300, 3))
	w.Initial = 8
	w.Actuator = baseline.Planned([]baseline.Step{at(0, 8), at(300, 3)})
	a := exact()
	c := Config{Assumptions: a, Workloads: []Workload{w}, NodePools: []karpenter.NodePool{od}}
	var nodes int
	watch(t, c, 20*time.Minute, func(w *Simulator, s int) { nodes = len(w.nodes.Pools()[0].Nodes()) })
	if nodes != 1 {
		t.Errorf("three replicas are on %d nodes of four GPUs", nodes)
	}
}

// losses returns a spot market of ten nodes that loses some of them at the given time.
func losses(lost int, at time.Duration) *spotmarket.Trace {
	return &spotmarket.Trace{Name: "test", Duration: 2 * time.Hour, Initial: 10,
		Events: []spotmarket.Event{{At: at, Lost: lost, Available: 10 - lost}}}
}

func TestSpotInterruptionHasTwoMinutesNotice(t *testing.T) {
	spot := nodePool("spot", karpenter.Spot, 1, 1, 80)
	spot.Market = losses(10, 10*time.Minute)
	w := Workload{Key: scaling.Key{Namespace: "team", Name: "a"}, Actuator: baseline.Static(2), Initial: 2,
		Service: Service{Slots: 1, Fixed: 20 * time.Minute},
		Traffic: generate(t, "flat", time.Hour, func(p *trace.Profile) { p.Rate = 0.02 })}
	a := exact()
	a.TerminationGrace = 90 * time.Second
	c := Config{Seed: 2, Assumptions: a, NodePools: []karpenter.NodePool{nodePool("od", karpenter.OnDemand, 1, 3, 20), spot},
		Workloads: []Workload{w}}
	r := watch(t, c, time.Hour, func(w *Simulator, s int) {
		l, spot, od := w.loads[0], w.nodes.Pools()[0].Nodes(), w.nodes.Pools()[1].Nodes()
		switch s {
		case 479:
			if l.ready != 2 || len(spot) != 2 {
				t.Errorf("at %d s: %d ready on %d spot nodes", s, l.ready, len(spot))
			}
		case 481:
			if l.draining != 2 || l.pending != 2 {
				t.Errorf("at %d s, after the notice: %d end, %d wait for a node", s, l.draining, l.pending)
			}
		case 485:
			if len(od) != 2 {
				t.Errorf("at %d s: %d on-demand nodes; the offering is unavailable, so no spot node is launched", s, len(od))
			}
		case 571: // the grace period of 90 s after the notice at 480 s has ended
			if l.draining != 0 || l.requeued != 2 {
				t.Errorf("at %d s: %d end, %d requests wait again", s, l.draining, l.requeued)
			}
		case 601:
			if len(spot) != 0 {
				t.Errorf("at %d s: %d spot nodes", s, len(spot))
			}
		case 782: // the replacement is ready: notice at 480 s, 1 s of batching and 300 s of cold start
			if l.ready != 2 {
				t.Errorf("at %d s: %d ready on demand", s, l.ready)
			}
		}
	})
	if r.Pools[0].SpotLosses != 2 || r.Loads[0].Lost != 2 {
		t.Errorf("%d spot nodes and %d replicas were lost", r.Pools[0].SpotLosses, r.Loads[0].Lost)
	}
}

func TestANodeIsAsLikelyToGoAsAnyOther(t *testing.T) {
	lost := 0
	for seed := range uint64(300) {
		spot := nodePool("spot", karpenter.Spot, 1, 1, 80)
		spot.Market = losses(2, 5*time.Minute)
		w := plan("a")
		w.Initial = 3
		sim, err := New(Config{Seed: seed, NodePools: []karpenter.NodePool{spot}, Workloads: []Workload{w}})
		if err != nil {
			t.Fatal(err)
		}
		sim.pass(6 * time.Minute)
		lost += int(sim.Result().Pools[0].SpotLosses)
	}
	// Three of the ten nodes in the market belong to the simulated NodePool, and two of the ten are lost. On average, a run loses 0.6 nodes of
	// the NodePool, so 300 runs lose 180 nodes, with a standard deviation of about 11.
	if lost < 140 || lost > 220 {
		t.Errorf("%d nodes of the NodePool were lost in 300 runs, want about 180", lost)
	}
}

// A policy with an objective runs on simulated nodes, and its load increases. The policy must learn the phases of the cold start that the
// simulation uses. The simulator has one phase for the launch and the registration of a node, so these two are not known separately.
func TestObjectiveLearnsThePhasesOfTheColdStart(t *testing.T) {
	p := chat("chat", func(p *scaling.Policy) {
		p.MinReplicas, p.Objective = 1, &objective.Objective{Limit: 10 * time.Second, Percentile: 99}
		p.Signals[0].Target, p.Signals[0].Measures = 0, scaling.MeasureQueued
		p.Signals[1].Target, p.Signals[1].Measures = 0, scaling.MeasureInFlight
	})
	c := Config{Seed: 1, Assumptions: exact(), NodePools: []karpenter.NodePool{nodePool("od", karpenter.OnDemand, 1, 2, 0)},
		Workloads: []Workload{{Policy: p, Traffic: generate(t, "bursty", time.Hour, nil), Service: Chat8B, Initial: 1}}}
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for w.Now() < time.Hour {
		w.Step(context.Background())
	}
	r, ok := w.Engine().Decisions().Record(p.Workload.Key)
	if !ok || r.Learned == nil {
		t.Fatal("nothing was learned")
	}
	l := r.Learned
	if l.ColdStart.Count < 2 || !(l.ColdStart.P50 >= 299 && l.ColdStart.P50 <= 320) || !(l.Node.P50 >= 119 && l.Node.P50 <= 140) {
		t.Errorf("cold start %+v, node %+v; want about 300 s, 120 s of them for the node", l.ColdStart, l.Node)
	}
	want := [objective.Phases]float64{objective.GPUAllocatable: 60, objective.ImagePull: 130, objective.ModelLoad: 50}
	for i, d := range l.Phase {
		if d.P50 != want[i] {
			t.Errorf("%s: %+v, want %v s", objective.Phase(i), d, want[i])
		}
	}
}
