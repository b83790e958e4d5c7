package karpenter_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/record"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// recordingOf returns the file in which a fast process (gpuscaler with an accelerated clock, see fastEnv) records its observations of
// Karpenter and its decisions.
func recordingOf(c fastConfig) string {
	return filepath.Join(filepath.Dir(c.Status), "recording.jsonl")
}

// agrees recomputes all decisions of a test's fast processes, including killed processes, from the recorded observations. The recomputed
// decisions must be identical to the recorded decisions, byte for byte.
func (g *fastProcess) agrees(t *testing.T) record.Verified {
	t.Helper()
	v, err := record.VerifyFiles(recordingOf(g.config), nil)
	if err != nil {
		t.Errorf("live decisions and replay differ: %v", err)
	}
	t.Logf("live and replay: %d decisions for groups and %d for workloads in %d ticks; phases %v", v.Groups, v.Decisions, v.Ticks, v.Phases)
	return v
}

// sameAsSimulated simulates the day of the test with the same engine in the replay's simulator. The simulated group must pass through the
// same phases as the group with the real Karpenter, which the parameter live contains.
func sameAsSimulated(t *testing.T, live []statemachine.Phase) {
	t.Helper()
	simulated, most, last := simulatedDay(t)
	t.Logf("live %v\nsimulated %v", live, simulated)
	if !slices.Equal(live, simulated) {
		t.Errorf("phases with the real Karpenter %v, in the simulator %v", live, simulated)
	}
	if most < 6 || last != 0 {
		t.Errorf("in the simulator there were up to %d nodes, and %d are left in the evening", most, last)
	}
}

// simulatedDay runs the day of TestDayOfOneGroupFromZeroToZero in the simulator. The group scales from zero to two replicas and then to
// six, but spot has capacity for only three. When spot has capacity again, the replicas return to spot. At the end of the day there are
// zero replicas. simulatedDay returns the phases of the group, the maximum number of nodes, and the number of nodes at the end.
func simulatedDay(t *testing.T) (phases []statemachine.Phase, most, last int) {
	t.Helper()
	begin := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	group, err := capacity.NewGroup(capacity.Group{Name: "gpu", Resource: "nvidia.com/gpu", ZeroLimit: true, ConsolidationFreeze: true,
		ReturnNodesPerHour: 60,
		Pools:              []capacity.Pool{{Name: "spot", Type: capacity.Spot}, {Name: "on-demand", Type: capacity.OnDemand}}})
	if err != nil {
		t.Fatal(err)
	}
	floor := func(from, until time.Duration, replicas int32) scaling.Schedule {
		s := scaling.Schedule{Min: replicas, Max: -1, Lead: 5 * time.Minute}
		s.Window.From, s.Window.To = begin.Add(from), begin.Add(until)
		return s
	}
	chat := &policy.Compiled{Sources: []policy.Source{{Type: policy.SourcePrometheus}}, Workload: scaling.Workload{
		Key: scaling.Key{Namespace: "day", Name: "chat"}, Group: "gpu", Activate: true, Policy: &scaling.Policy{MaxReplicas: 12,
			CooldownPeriod: time.Minute,
			Signals:        []scaling.Signal{{Name: "gateway", Type: "prometheus", Target: 4, MaxAge: 2 * time.Minute}},
			Schedules:      []scaling.Schedule{floor(30*time.Minute, time.Hour, 2), floor(45*time.Minute, 4*time.Hour, 6)}}}}
	pool := func(name, kind string, weight int32) karpenter.NodePool {
		return karpenter.NodePool{Name: name, CapacityType: kind, InstanceType: name, GPUs: 1, Hourly: 1, Weight: weight,
			ConsolidateAfter: time.Minute,
			OnlyWhenEmpty:    true, Budgets: []karpenter.Budget{{Percent: 100}}}
	}
	spot := pool("spot", karpenter.Spot, 80)
	spot.Market = &spotmarket.Trace{Duration: 100 * time.Hour, Initial: 3, Events: []spotmarket.Event{{At: 90 * time.Minute, Added: 10}}}
	c := simulator.Config{Start: begin, Seed: 1, Groups: []*capacity.Group{group},
		NodePools: []karpenter.NodePool{spot, pool("on-demand", karpenter.OnDemand, 20)},
		Workloads: []simulator.Workload{{Policy: chat, Service: simulator.Chat8B}}}
	c.Engine.OnGroupTick = func(g engine.GroupTick) {
		if p := g.Decision.Phase; len(phases) == 0 || phases[len(phases)-1] != p {
			phases = append(phases, p)
		}
		last = len(g.Observation.Pools[0].Nodes) + len(g.Observation.Pools[1].Nodes)
		most = max(most, last)
	}
	w, err := simulator.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for w.Now() < 6*time.Hour {
		w.Step(context.Background())
	}
	return phases, most, last
}
