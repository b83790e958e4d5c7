package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// named returns the chat policy with another name.
func named(name string, change func(*scaling.Policy)) *policy.Compiled {
	c := chat(change)
	c.Workload.Key.Name = name
	return c
}

// pair returns a chat service and an embedding service with half the traffic and twice the allowed wait, in the same cluster.
func pair(t testing.TB, change func(*Case)) []Case {
	t.Helper()
	first := small(t, change)
	second := small(t, func(c *Case) {
		p, _ := trace.Preset("diurnal")
		p.Duration, p.Seed, p.Rate = 20*time.Minute, 5, 1
		tr, err := trace.Generate(p)
		if err != nil {
			t.Fatal(err)
		}
		c.Traffic, c.Policy, c.SLO, c.Initial = tr, named("embed", nil), SLO{Share: 0.9, Wait: 20 * time.Second}, 2
		if change != nil {
			change(c)
		}
	})
	return []Case{first, second}
}

func evaluateCases(t testing.TB, cases []Case) *Report {
	t.Helper()
	r, err := Workloads(context.Background(), cases, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Without NodePools, two workloads together cost the sum of their separate costs, with the same waits.
func TestTwoWorkloadsCostTheSumOfTheirCosts(t *testing.T) {
	cases := pair(t, func(c *Case) {
		c.Baselines, c.TuneBaselines, c.Bound, c.Static = baseline.All()[:3], true, true, 6
	})
	r := evaluateCases(t, cases)
	alone := []*Report{evaluateCase(t, cases[0]), evaluateCase(t, cases[1])}
	if want := len(alone[0].Runs); len(r.Runs) != want || len(r.Workloads) != 2 {
		t.Fatalf("%d runs of %d workloads, want %d of 2", len(r.Runs), len(r.Workloads), want)
	}
	if r.Traffic.Requests != alone[0].Traffic.Requests+alone[1].Traffic.Requests || r.Initial != 5 {
		t.Errorf("%d requests, %d replicas at the start", r.Traffic.Requests, r.Initial)
	}
	for i := range r.Runs {
		run, sum := &r.Runs[i], alone[0].Runs[i].Cost+alone[1].Runs[i].Cost
		if run.Title() != alone[0].Runs[i].Title() || len(run.Workloads) != 2 {
			t.Fatalf("run %d is %s of %d workloads, alone %s", i, run.Title(), len(run.Workloads), alone[0].Runs[i].Title())
		}
		// Cold starts are fixed and GPUs are unlimited here, so the workloads do not compete.
		if math.Abs(run.Cost-sum) > 1e-6*sum {
			t.Errorf("%s costs %v together, %v alone", run.Title(), run.Cost, sum)
		}
		for k, w := range run.Workloads {
			if lone := alone[k].Runs[i]; w.OnTime != lone.OnTime || w.Wait != lone.Wait || w.Policy != alone[k].Policy ||
				w.MeetsSLO != (w.OnTime >= r.Workloads[k].SLO.Share) {
				t.Errorf("%s, %s: %v on time, %+v; alone %v, %+v", run.Title(), w.Policy, w.OnTime, w.Wait, lone.OnTime, lone.Wait)
			}
		}
		if run.MeetsSLO != (run.Missed() == 0) || run.MeetsSLO != (run.Workloads[0].MeetsSLO && run.Workloads[1].MeetsSLO) {
			t.Errorf("%s: meets %v, and %d of its workloads miss", run.Title(), run.MeetsSLO, run.Missed())
		}
		if run.Variant == Tuned && (len(run.Settings) > 0 || len(run.Workloads[0].Settings) == 0 || run.Workloads[1].Tried == 0) {
			t.Errorf("%s: settings belong to workloads: %+v", run.Title(), run.Workloads)
		}
	}
	for _, kind := range []string{FluidBound, RequestBound} {
		b, one, two := r.Bound(kind), r.Workloads[0].Bound(kind), r.Workloads[1].Bound(kind)
		if b == nil || b.Lower != one.Lower+two.Lower || b.Upper != one.Upper+two.Upper || b.Late != one.Late+two.Late || b.Gap < 1 {
			t.Errorf("the %s bound %+v is not the sum of %+v and %+v", kind, b, one, two)
		}
		if math.Abs(one.Lower-alone[0].Bound(kind).Lower) > 1e-9 {
			t.Errorf("the %s bound of the first is %v, alone %v", kind, one.Lower, alone[0].Bound(kind).Lower)
		}
	}
	if fleet := r.Run(StaticFleet, Default); fleet == nil || r.Saved == nil || math.Abs(*r.Saved-(1-r.Runs[0].Cost/fleet.Cost)) > 1e-12 {
		t.Errorf("saved %v over %+v", r.Saved, fleet)
	}
}

// On shared nodes of four GPUs, no run costs less than the sum of the bounds, and two evaluations give the same report.
func TestWorkloadsShareNodesAndABound(t *testing.T) {
	cases := pair(t, func(c *Case) {
		c.Baselines, c.Bound = baseline.All()[:5], true
		c.NodePools = []karpenter.NodePool{
			{Name: "spot", CapacityType: karpenter.Spot, InstanceType: "four", GPUs: 4, Hourly: 4, Weight: 80, ConsolidateAfter: time.Minute,
				Market: &spotmarket.Trace{Name: "market", Duration: time.Hour, Initial: 2, Events: []spotmarket.Event{{At: 8 * time.Minute, Lost: 1}}}},
			{Name: "on-demand", CapacityType: karpenter.OnDemand, InstanceType: "four, on demand", GPUs: 4, Hourly: 8, Weight: 20,
				ConsolidateAfter: time.Minute},
		}
	})
	cases[1].Pools = []string{"on-demand"}
	r := evaluateCases(t, cases)
	for _, run := range r.Runs {
		if run.MeetsSLO && run.Cost < r.Bound(RequestBound).Lower {
			t.Errorf("%s costs %v, less than the certified %v", run.Title(), run.Cost, r.Bound(RequestBound).Lower)
		}
		if got := run.Ledger.Sum().Hours(); math.Abs(got-run.GPUHours) > 1e-9 ||
			run.GPUHours < run.Workloads[0].GPUHours+run.Workloads[1].GPUHours-1e-9 {
			t.Errorf("%s: GPU hours: %v in the ledger, %v paid, %v and %v used by the workloads",
				run.Title(), got, run.GPUHours, run.Workloads[0].GPUHours, run.Workloads[1].GPUHours)
		}
	}
	if one, two := r.Workloads[0].Bound(FluidBound), r.Workloads[1].Bound(FluidBound); one == nil || two == nil || len(r.Runs[0].CostBy) != 2 {
		t.Fatalf("bounds %+v and %+v, costs %v", one, two, r.Runs[0].CostBy)
	}
	var texts [2]string
	for i := range texts {
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(evaluateCases(t, cases)); err != nil {
			t.Fatal(err)
		}
		texts[i] = b.String()
	}
	if texts[0] != texts[1] {
		t.Error("two evaluations of the same cases differ")
	}
}

// If one workload cannot meet its SLO, there is no bound for all workloads, and the report names that workload.
func TestInfeasibleWorkloadHasNoSumOfBounds(t *testing.T) {
	cases := pair(t, func(c *Case) { c.Bound = true })
	cases[0].Policy = chat(func(p *scaling.Policy) { p.MaxReplicas = 1 })
	cases[0].Initial = 1
	r := evaluateCases(t, cases)
	if r.Bound(FluidBound) != nil || len(r.Bounds) != 2 || !strings.HasPrefix(r.Bounds[0].Problem, "team/chat: no schedule") {
		t.Errorf("bounds %+v", r.Bounds)
	}
	if r.Workloads[1].Bound(FluidBound) == nil || r.Runs[0].MeetsSLO || r.Runs[0].Missed() != 1 ||
		r.Runs[0].OnTime != r.Runs[0].Workloads[0].OnTime {
		t.Errorf("the other workload has a bound and meets its SLO: %+v, %+v", r.Workloads[1].Bounds, r.Runs[0])
	}
}

// A trace that starts five minutes after another trace must be replayed five minutes later.
func TestTracesKeepTheDistanceOfTheirStarts(t *testing.T) {
	cases := pair(t, nil)
	begin := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for i := range cases {
		drawn, err := cases[i].Traffic.Drawn(0)
		if err != nil {
			t.Fatal(err)
		}
		drawn.Start = begin.Add(time.Duration(i) * 5 * time.Minute)
		cases[i].Traffic = drawn
	}
	r := evaluateCases(t, cases)
	if r.Traffic.Duration < 25*60 || !r.Traffic.Start.Equal(begin) || r.Workloads[1].Traffic.Duration != 25*60 {
		t.Errorf("together %v s from %s, the second %v s", r.Traffic.Duration, r.Traffic.Start, r.Workloads[1].Traffic.Duration)
	}
	cases[1].Traffic.Start = begin.Add(40 * 24 * time.Hour)
	if _, err := Workloads(context.Background(), cases, nil); err == nil || !strings.Contains(err.Error(), "cut the traffic") {
		t.Errorf("two traces 40 days apart: %v", err)
	}
	other := pair(t, nil)
	other[1].ColdStart = time.Hour
	if _, err := Workloads(context.Background(), other, nil); err == nil || !strings.Contains(err.Error(), "cluster settings differ") {
		t.Errorf("two cold starts in one cluster: %v", err)
	}
}
