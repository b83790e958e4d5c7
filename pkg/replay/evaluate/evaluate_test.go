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
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// chat returns a policy on running and waiting requests with at least one replica.
func chat(change func(*scaling.Policy)) *policy.Compiled {
	p := &scaling.Policy{
		Signals:     []scaling.Signal{{Name: "load", Type: "prometheus", Target: 7, MaxAge: 2 * time.Minute}},
		MinReplicas: 1, MaxReplicas: 8, CooldownPeriod: 5 * time.Minute,
		ScaleDown: scaling.Direction{StabilizationWindow: 5 * time.Minute},
	}
	if change != nil {
		change(p)
	}
	return &policy.Compiled{
		Workload: scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Policy: p, Activate: true},
		Sources:  []policy.Source{{Type: policy.SourcePrometheus}},
	}
}

// small returns a case with twenty minutes of bursty traffic.
func small(t testing.TB, change func(*Case)) Case {
	t.Helper()
	p, _ := trace.Preset("bursty")
	p.Duration, p.Seed, p.Rate = 20*time.Minute, 3, 2
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	c := Case{
		Policy: chat(nil), Traffic: tr, Service: simulator.Chat8B, Measures: map[string]measure.Measure{"load": measure.InSystem},
		SLO: SLO{Share: 0.95, Wait: 10 * time.Second}, Initial: 3, ColdStart: time.Minute, Hourly: 2, SpotHourly: 1, Seed: 1,
	}
	if change != nil {
		change(&c)
	}
	return c
}

func evaluateCase(t testing.TB, c Case) *Report {
	t.Helper()
	r, err := Workload(context.Background(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAllRunsUseTheSameTraffic(t *testing.T) {
	r := evaluateCase(t, small(t, func(c *Case) { c.Baselines, c.TuneBaselines, c.Bound = baseline.All(), true, true }))
	if want := 1 + 2*len(baseline.All()) + 2; len(r.Runs) != want {
		t.Fatalf("%d runs, want %d", len(r.Runs), want)
	}
	loose := r.Bound(RequestBound)
	if loose == nil || r.Bound(FluidBound) == nil {
		t.Fatalf("bounds are missing: %+v", r.Bounds)
	}
	for _, run := range r.Runs {
		if run.Arrived != r.Traffic.Requests {
			t.Errorf("%s received %d requests of %d", run.Title(), run.Arrived, r.Traffic.Requests)
		}
		if got := run.Ledger.Sum().Hours(); math.Abs(got-run.GPUHours) > 1e-9 {
			t.Errorf("%s: the ledger's parts sum to %v GPU hours, %v were paid", run.Title(), got, run.GPUHours)
		}
		var byType float64
		for _, cost := range run.CostBy {
			byType += cost
		}
		if math.Abs(byType-run.Cost) > 1e-9 {
			t.Errorf("%s: costs by capacity type sum to %v, not %v", run.Title(), byType, run.Cost)
		}
		if run.MeetsSLO != (run.OnTime >= r.SLO.Share) {
			t.Errorf("%s: %v on time, and meets the SLO: %v", run.Title(), run.OnTime, run.MeetsSLO)
		}
		if run.MeetsSLO && run.Cost < loose.Lower {
			t.Errorf("%s costs %v, less than the certified %v", run.Title(), run.Cost, loose.Lower)
		}
		if !run.MeetsSLO && (run.CostOverRequest != nil || run.CostOverFluid != nil || r.Cheapest == run.Title()) {
			t.Errorf("%s misses the SLO, and still has a cost ratio", run.Title())
		}
	}
	if !r.Run("clairvoyant, careful", Clairvoyant).MeetsSLO {
		t.Errorf("the careful schedule misses the SLO: %+v", r.Run("clairvoyant, careful", Clairvoyant))
	}
}

// The search also tries the defaults of a baseline, so the tuned baseline must not be worse than the default one.
func TestTunedBaselineIsNeverWorseThanDefault(t *testing.T) {
	r := evaluateCase(t, small(t, func(c *Case) { c.Baselines, c.TuneBaselines = baseline.All(), true }))
	for _, baseline := range baseline.All() {
		if d, tuned := r.Run(baseline.Name, Default), r.Run(baseline.Name, Tuned); d.Outcome().Better(tuned.Outcome()) {
			t.Errorf("%s: default %v at %v on time, tuned %v at %v", baseline.Name, d.Cost, d.OnTime, tuned.Cost, tuned.OnTime)
		}
	}
}

func TestSameSeedGivesTheSameReport(t *testing.T) {
	c := small(t, func(c *Case) {
		c.Baselines, c.TuneBaselines, c.Bound = baseline.All()[1:3], true, true
		c.Spot = []*spotmarket.Trace{{Name: "market", Duration: time.Hour, Initial: 4, Events: []spotmarket.Event{{At: 8 * time.Minute, Lost: 3},
			{At: 15 * time.Minute, Added: 3}}}}
	})
	var texts [2][]byte
	for i := range texts {
		b, err := json.Marshal(evaluateCase(t, c))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = b
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("two evaluations of one case differ")
	}
	r := evaluateCase(t, c)
	if r.Runs[0].SpotLosses == 0 || len(r.Runs[0].CostBy) != 2 {
		t.Errorf("three of four spot nodes were lost, and the run has %d losses and costs of %v", r.Runs[0].SpotLosses, r.Runs[0].CostBy)
	}
	c.Seed = 2
	if other := evaluateCase(t, c); other.Runs[0].Cost == r.Runs[0].Cost && other.Runs[0].Wait == r.Runs[0].Wait {
		t.Error("another seed gives exactly the same run")
	}
}

// The traffic has a burst every fifteen minutes and no requests in between. The cold start is two minutes, so a policy that scales to zero
// makes the first requests of each burst late.
func TestScaleToZeroMakesTheFirstRequestsLate(t *testing.T) {
	var log strings.Builder
	log.WriteString("time,input,output\n")
	for burst := range 4 {
		for i := range 120 {
			log.WriteString(time.Unix(int64(burst*900+i), 0).UTC().Format("2006-01-02T15:04:05Z") + ",500,100\n")
		}
	}
	tr, err := tracefile.Read("bursts.csv", strings.NewReader(log.String()), tracefile.Options{Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c := small(t, func(c *Case) {
		c.Traffic, c.ColdStart, c.SLO.Share = tr, 2*time.Minute, 0.99
		c.Policy = chat(func(p *scaling.Policy) { p.MinReplicas = 0 })
		c.Initial = 1
	})
	r := evaluateCase(t, c)
	a := r.Admission
	if !a.Applies || a.Wakes != 3 || a.CanMeet || a.LeastWarm != 1 {
		t.Errorf("three wakes cannot meet the SLO, one warm replica can: %+v", a)
	}
	if want := 3 * 110.0 / 480; math.Abs(a.LateShare-want) > 0.01 {
		t.Errorf("lowest possible late share %.3f; in each of three wakes 110 of 480 wait more than 10 s: %.3f", a.LateShare, want)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "the lowest number of warm replicas that meets the SLO is 1") {
		t.Errorf("warnings: %q", r.Warnings)
	}
	if got := 1 - r.Runs[0].OnTime; got < a.LateShare-1e-9 {
		t.Errorf("the run makes %v late, fewer than the least possible %v", got, a.LateShare)
	}
	c.Policy = chat(nil)
	if r := evaluateCase(t, c); r.Admission.Applies || len(r.Warnings) > 0 || !r.Runs[0].MeetsSLO {
		t.Errorf("with one warm replica: %+v, %q, %v on time", r.Admission, r.Warnings, r.Runs[0].OnTime)
	}
}

func TestInfeasibleSLOIsReported(t *testing.T) {
	r := evaluateCase(t, small(t, func(c *Case) {
		c.Policy, c.Initial, c.Bound = chat(func(p *scaling.Policy) { p.MaxReplicas = 1 }), 1, true
	}))
	if r.Bound(FluidBound) != nil || len(r.Bounds) != 2 || !strings.Contains(r.Bounds[0].Problem, "no schedule of at most 1 replicas") {
		t.Errorf("bounds: %+v", r.Bounds)
	}
	if r.Cheapest != "" {
		t.Errorf("%s is reported as the cheapest, and no run meets the SLO", r.Cheapest)
	}
}

func TestGates(t *testing.T) {
	over := 1.4
	r := &Report{Runs: []Run{{Load: Load{OnTime: 0.985, Wait: Waits{P99: 31}}, Cost: 12, CostOverRequest: &over}}}
	for text, fails := range map[string]bool{
		"slo<0.99": true, "slo<98%": false, "slo < 0.985": false, "slo<=0.985": true, "cost>12": false, "cost>=12": true,
		"p99>30s": true, "p99>1m": false, "cost/lb>1.35": true, "missed>0": true, "missed>1": false,
		"cost/fluid>9": true, "saved<0.1": true, // no fluid bound and no static fleet: the gate cannot be checked, so it fails
	} {
		g, err := ParseGate(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if failed := r.Check([]Gate{g}); (failed == 1) != fails {
			t.Errorf("%s: failed %d times", text, failed)
		}
	}
	for _, text := range []string{"", "slo", "slo=0.99", "slo<", "slo<99", "slo<-1", "slo<NaN", "cost>Inf", "speed>3", "p99>30",
		"p99>-3s", "slo<0.9x", "<0.9"} {
		if g, err := ParseGate(text); err == nil {
			t.Errorf("%q was parsed as a gate: %+v", text, g)
		}
	}
}

func TestInvalidCasesAreRejected(t *testing.T) {
	for name, change := range map[string]func(*Case){
		"no policy": func(c *Case) { c.Policy = nil }, "no traffic": func(c *Case) { c.Traffic = nil },
		"SLO":        func(c *Case) { c.SLO.Share = 1.2 },
		"cold start": func(c *Case) { c.ColdStart = -1 }, "prices": func(c *Case) { c.Hourly = math.NaN() },
		"initial": func(c *Case) { c.Initial = -7 },
	} {
		if _, err := Workload(context.Background(), small(t, change), nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := Workload(ended, small(t, nil), nil); err == nil {
		t.Error("a canceled evaluation returns a report")
	}
}
