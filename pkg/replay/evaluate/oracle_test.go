package evaluate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/lowerbound"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// onNodes adds two NodePools with one GPU per node: spot, where nodes are interrupted, and on-demand.
func onNodes(c *Case) {
	pool := func(name, kind string, weight int32, hourly float64) karpenter.NodePool {
		return karpenter.NodePool{Name: name, CapacityType: kind, InstanceType: name, GPUs: 1, Hourly: hourly, Weight: weight,
			ConsolidateAfter: time.Minute,
			OnlyWhenEmpty:    true, Budgets: []karpenter.Budget{{Percent: 100}}}
	}
	c.NodePools = []karpenter.NodePool{pool("spot", karpenter.Spot, 80, 1), pool("on-demand", karpenter.OnDemand, 20, 2)}
	c.NodePools[0].Market = &spotmarket.Trace{Name: "market", Duration: 4 * time.Hour, Initial: 2, Events: []spotmarket.Event{
		{At: 30 * time.Minute, Lost: 1}, {At: 70 * time.Minute, Lost: 1}, {At: 80 * time.Minute, Added: 2}, {At: 150 * time.Minute, Lost: 2}}}
}

// On an existing node a replica is ready in seconds, but a new node takes minutes. The lower bound uses the short cold start. The plan of
// the clairvoyant run must use the cold start on a new node, because otherwise each replica on a new node is ready minutes too late.
func TestPlanOnNodesUsesTheTypicalColdStart(t *testing.T) {
	c := small(t, func(c *Case) { c.ColdStart, c.Bound, c.SLO.Share = 0, true, 0.9; onNodes(c) })
	if least, usual := c.leastColdStart(), c.typicalColdStart(); least > 10*time.Second || usual < 5*time.Minute {
		t.Fatalf("from %s to usually %s", least, usual)
	}
	r := evaluateCase(t, c)
	oracle, careful := r.Run("clairvoyant", Clairvoyant), r.Run("clairvoyant, careful", Clairvoyant)
	if oracle == nil || careful == nil || oracle.OnTime < 0.5 || !careful.MeetsSLO || !strings.Contains(oracle.Words, "typical cold starts") {
		t.Errorf("the plan of the bound: %+v; the careful one: %+v", oracle, careful)
	}
	for _, run := range r.Runs {
		if b := r.Bound(RequestBound); run.MeetsSLO && run.Cost < b.Lower {
			t.Errorf("%s costs %v, less than the certified %v", run.Title(), run.Cost, b.Lower)
		}
	}
}

// Requests take ten minutes, so spot interruptions and scale-downs stop some of them, which the fluid model does not include. carryOut adds
// replicas to the plan until the SLO is met, and the description of the run states how many.
func TestCarefulPlanGetsReplicasUntilTheSLOIsMet(t *testing.T) {
	p, _ := trace.Preset("bursty")
	p.Duration, p.Seed, p.Rate = 4*time.Hour, 3, 0.004
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	c := small(t, func(c *Case) {
		c.Traffic, c.Initial, c.ColdStart = tr, 1, 2*time.Minute
		c.Service = simulator.Service{Slots: 1, Fixed: 10 * time.Minute}
		c.SLO = SLO{Share: 0.95, Wait: 20 * time.Minute}
		onNodes(c)
	})
	cases, err := gather([]Case{c})
	if err != nil {
		t.Fatal(err)
	}
	s := cases[0].setup()
	s.TimeSlot = time.Minute // with long slots, the schedule is computed quickly
	b, ready, err := fluidBound(cases[0].requests(), s, boundProgress{t.Context(), func(string, lowerbound.Progress) {}})
	if err != nil || len(ready) == 0 {
		t.Fatal(b, err)
	}
	steps := planOf(ready, s.ColdStart)
	var bare, careful Run
	progress := func(string, float64) {}
	for run, most := range map[*Run]int32{&bare: 0, &careful: maxSpareReplicas} {
		if err := cases.carryOut(t.Context(), run, [][]baseline.Step{steps}, most, progress); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("at least $%.2f; as planned $%.2f, %.3f on time, %d requeued; with more replicas $%.2f, %.3f%s",
		b.Lower, bare.Cost, bare.OnTime, bare.Requeued, careful.Cost, careful.OnTime, careful.Words)
	if bare.MeetsSLO || bare.Requeued == 0 || bare.Words != "" {
		t.Errorf("the unchanged plan: %+v", bare)
	}
	if !careful.MeetsSLO || !strings.Contains(careful.Words, "because the SLO is missed otherwise") || careful.Cost <= b.Lower {
		t.Errorf("%+v", careful)
	}
	cases[0].Policy = chat(func(p *scaling.Policy) { p.MaxReplicas = 1 })
	infeasible := Run{Words: "a plan"}
	if err := cases.carryOut(t.Context(), &infeasible, [][]baseline.Step{{{Replicas: 1}}}, 2, progress); err != nil ||
		infeasible.MeetsSLO || infeasible.Words != "a plan; even with 2 more replicas the SLO is missed" {
		t.Errorf("%v, %+v", err, infeasible)
	}
}

func TestKeptPlanRemovesReplicasLater(t *testing.T) {
	plan := []baseline.Step{{At: 0, Replicas: 1}, {At: 10, Replicas: 4}, {At: 20, Replicas: 2}, {At: 24, Replicas: 3}, {At: 40, Replicas: 0}}
	want := []baseline.Step{{At: 0, Replicas: 1}, {At: 10, Replicas: 4}, {At: 25, Replicas: 3}, {At: 45, Replicas: 0}}
	if got := kept(plan, 5); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := kept(plan, 0); !slices.Equal(got, plan) {
		t.Errorf("%v, want %v", got, plan)
	}
}
