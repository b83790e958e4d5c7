package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The test compares the text of each Reason with the expected text.
func TestTextOfEachReason(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	eight := time.Date(2026, 11, 23, 8, 0, 0, 0, zone)
	p := &scaling.Policy{
		Signals: []scaling.Signal{{Name: "gateway", Target: 10, Forecast: scaling.Forecast{Window: 5 * time.Minute, Deviations: 2.5}},
			{Name: "kv", Kind: scaling.Mean, Unit: scaling.Percent, Target: 0.8},
			{Name: "ttft", Kind: scaling.Mean, Unit: scaling.Seconds, Target: 0.25}},
		ScaleUp:   scaling.Direction{Rates: []scaling.RatePolicy{{Type: scaling.PercentRate, Value: 100, Period: 15 * time.Second}}},
		ScaleDown: scaling.Direction{Rates: []scaling.RatePolicy{{Type: scaling.Pods, Value: 1, Period: time.Minute}}},
		Schedules: []scaling.Schedule{{Window: calendar.Window{Name: "office", Location: zone,
			Start: calendar.Cron{Minute: 1}}}, {Window: calendar.Window{Name: "launch"}}},
	}
	team := &scaling.Policy{Team: &scaling.Team{Name: "chat", Limits: []scaling.ResourceLimit{{Resource: "nvidia.com/gpu", Max: 16}}}}
	formula := &scaling.Policy{Formula: func([]scaling.Proposal, int32, int32) (float64, bool) { return 0, true }}
	at := func(d time.Duration) float64 { return float64(eight.Add(d).Unix()) }
	var b strings.Builder
	for _, c := range []struct {
		p *scaling.Policy
		r scaling.Reason
	}{
		{p, scaling.Reason{Rule: scaling.RuleCombine, Index: 0, From: 6, To: 9, A: 8.7, B: 87}},
		{p, scaling.Reason{Rule: scaling.RuleCombine, Index: 1, From: 6, To: 7, A: 6.825, B: 0.91}},
		{p, scaling.Reason{Rule: scaling.RuleCombine, Index: 2, From: 6, To: 6, A: 6, B: 0.25}},
		{p, scaling.Reason{Rule: scaling.RuleCombine, Index: 2, From: 6, To: 30, A: 30, B: 1.25}},
		{p, scaling.Reason{Rule: scaling.RuleCombine, Index: 0, From: 0, To: 1, A: 0.012, B: 0.12}},
		{formula, scaling.Reason{Rule: scaling.RuleCombine, Index: -1, From: 6, To: 7, A: 6.25, B: 0}},
		{p, scaling.Reason{Rule: scaling.RuleCombine, Index: -1, From: 6, To: 0, A: 0, B: 0}},
		{p, scaling.Reason{Rule: scaling.RuleMissing, Index: 0, From: 2, To: 6, A: 1, B: float64(scaling.SignalStale)}},
		{p, scaling.Reason{Rule: scaling.RuleMissing, Index: 1, From: 2, To: 6, A: 3, B: float64(scaling.SignalLowCoverage)}},
		{p, scaling.Reason{Rule: scaling.RuleMissing, Index: -1, From: 6, To: 6, A: 0, B: 0}},
		{p, scaling.Reason{Rule: scaling.RuleFallback, Index: 0, From: 6, To: 8, A: 3, B: 8}},
		{p, scaling.Reason{Rule: scaling.RuleGrowingDemand, Index: 2, From: 4, To: 6, A: 1.31, B: 0.8}},
		{p, scaling.Reason{Rule: scaling.RuleLoading, Index: -1, From: 9, To: 9, A: 3, B: 6}},
		{p, scaling.Reason{Rule: scaling.RuleLoading, Index: -1, From: 9, To: 9, A: 1, B: 6}},
		{p, scaling.Reason{Rule: scaling.RuleLoading, Index: 1, From: 3, To: 6, A: 0, B: 2}},
		{p, scaling.Reason{Rule: scaling.RuleTolerance, Index: -1, From: 11, To: 10, A: 1.04, B: 0.1}},
		{p, scaling.Reason{Rule: scaling.RulePanic, Index: -1, From: 9, To: 9, A: 2.25, B: at(time.Minute)}},
		{p, scaling.Reason{Rule: scaling.RuleStabilize, Index: -1, From: 6, To: 9, A: 600, B: at(74 * time.Minute)}},
		{p, scaling.Reason{Rule: scaling.RuleStabilize, Index: -1, From: 9, To: 6, A: 60, B: at(30 * time.Second)}},
		{p, scaling.Reason{Rule: scaling.RuleIdle, Index: -1, From: 0, To: 0, A: 900, B: at(0)}},
		{p, scaling.Reason{Rule: scaling.RuleIdle, Index: -1, From: 1, To: 0, A: 0, B: at(0)}},
		{p, scaling.Reason{Rule: scaling.RuleIdle, Index: -1, From: 0, To: 1, A: 840, B: at(time.Minute)}},
		{p, scaling.Reason{Rule: scaling.RuleIdle, Index: -1, From: 1, To: 0, A: 5400, B: at(0)}},
		{p, scaling.Reason{Rule: scaling.RuleIdle, Index: -1, From: 0, To: 1, A: 0, B: at(0)}},
		{p, scaling.Reason{Rule: scaling.RuleIdle, Index: -1, From: 0, To: 1, A: -1, B: at(0)}},
		{p, scaling.Reason{Rule: scaling.RuleRate, Index: -1, From: 12, To: 8, A: 0, B: 4}},
		{p, scaling.Reason{Rule: scaling.RuleRate, Index: -1, From: 3, To: 8, A: 0, B: 9}},
		{p, scaling.Reason{Rule: scaling.RuleRate, Index: -1, From: 3, To: 8, A: -1, B: 8}},
		{p, scaling.Reason{Rule: scaling.RuleForecast, Index: -1, From: 3, To: 8, A: 8, B: 0}},
		{p, scaling.Reason{Rule: scaling.RuleForecast, Index: 0, From: 3, To: 5, A: 4.2, B: 3.1}},
		{p, scaling.Reason{Rule: scaling.RuleScheduleFloor, Index: 0, From: 9, To: 9, A: 2, B: at(12 * time.Hour)}},
		{p, scaling.Reason{Rule: scaling.RuleScheduleFloor, Index: 0, From: 1, To: 2, A: 2, B: -at(24 * time.Hour)}},
		{p, scaling.Reason{Rule: scaling.RuleScheduleFloor, Index: 1, From: 1, To: 2, A: 2, B: 0}},
		{p, scaling.Reason{Rule: scaling.RuleScheduleCeiling, Index: 1, From: 9, To: 8, A: 0, B: at(22 * time.Hour)}},
		{p, scaling.Reason{Rule: scaling.RuleAtRisk, Index: -1, From: 9, To: 11, A: 2, B: 0}},
		{p, scaling.Reason{Rule: scaling.RuleAtRisk, Index: -1, From: 9, To: 12, A: 3, B: 1}},
		{p, scaling.Reason{Rule: scaling.RuleAtRisk, Index: -1, From: 9, To: 10, A: 1, B: 1}},
		{p, scaling.Reason{Rule: scaling.RuleSurge, Index: -1, From: 9, To: 10, A: 1, B: 0}},
		{p, scaling.Reason{Rule: scaling.RuleCapacity, Index: -1, From: 12, To: 9, A: 9, B: 0}},
		{p, scaling.Reason{Rule: scaling.RuleCapacity, Index: -1, From: 12, To: 9, A: 9, B: 1}},
		{p, scaling.Reason{Rule: scaling.RuleOverride, Index: -1, From: 6, To: 12, A: 12, B: -1}},
		{p, scaling.Reason{Rule: scaling.RuleOverride, Index: -1, From: 6, To: 3, A: -1, B: 3}},
		{p, scaling.Reason{Rule: scaling.RuleOverride, Index: -1, From: 6, To: 5, A: 5, B: 8}},
		{p, scaling.Reason{Rule: scaling.RulePaused, Index: -1, From: 9, To: 6, A: 6, B: 0}},
		{p, scaling.Reason{Rule: scaling.RuleBounds, Index: -1, From: 14, To: 12, A: 0, B: 12}},
		{&scaling.Policy{MaxReplicas: 12}, scaling.Reason{Rule: scaling.RuleBounds, Index: -1, From: 12, To: 10, A: 0, B: 10}},
		{&scaling.Policy{MaxReplicas: 12}, scaling.Reason{Rule: scaling.RuleBounds, Index: -1, From: 9, To: 9, A: 0, B: 12}},
		{team, scaling.Reason{Rule: scaling.RuleTeamLimit, Index: 0, From: 9, To: 4, A: 16, B: 12}},
		{team, scaling.Reason{Rule: scaling.RuleTeamLimit, Index: 0, From: 9, To: 4, A: 16, B: -1}},
	} {
		fmt.Fprintf(&b, "%-20s %3d -> %-3d %s\n", c.r.Rule, c.r.From, c.r.To, Reason(c.r, c.p))
	}
	golden.Compare(t, "testdata/reasons.golden", b.String())
}
