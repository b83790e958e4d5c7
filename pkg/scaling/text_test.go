package scaling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// The test compares the texts of the reasons of each rule.
func TestTextOfEachReason(t *testing.T) {
	zone := berlin(t)
	eight := time.Date(2026, 11, 23, 8, 0, 0, 0, zone)
	p := &Policy{
		Signals: []Signal{{Name: "gateway", Target: 10, Forecast: Forecast{Window: 5 * time.Minute, Deviations: 2.5}}, {Name: "kv",
			Kind: Mean, Unit: Percent, Target: 0.8}, {Name: "ttft", Kind: Mean, Unit: Seconds, Target: 0.25}},
		ScaleUp:   Direction{Rates: []RatePolicy{{PercentRate, 100, 15 * time.Second}}},
		ScaleDown: Direction{Rates: []RatePolicy{{Pods, 1, time.Minute}}},
		Schedules: []Schedule{{Window: calendar.Window{Name: "office", Location: zone,
			Start: calendar.Cron{Minute: 1}}}, {Window: calendar.Window{Name: "launch"}}},
	}
	team := &Policy{Team: &Team{Name: "chat", Limits: []ResourceLimit{{"nvidia.com/gpu", 16}}}}
	formula := &Policy{Formula: func([]Proposal, int32, int32) (float64, bool) { return 0, true }}
	at := func(d time.Duration) float64 { return float64(eight.Add(d).Unix()) }
	var b strings.Builder
	for _, c := range []struct {
		p *Policy
		r Reason
	}{
		{p, Reason{RuleCombine, 0, 6, 9, 8.7, 87}},
		{p, Reason{RuleCombine, 1, 6, 7, 6.825, 0.91}},
		{p, Reason{RuleCombine, 2, 6, 6, 6, 0.25}},
		{p, Reason{RuleCombine, 2, 6, 30, 30, 1.25}},
		{p, Reason{RuleCombine, 0, 0, 1, 0.012, 0.12}},
		{formula, Reason{RuleCombine, -1, 6, 7, 6.25, 0}},
		{p, Reason{RuleCombine, -1, 6, 0, 0, 0}},
		{p, Reason{RuleMissing, 0, 2, 6, 1, float64(SignalStale)}},
		{p, Reason{RuleMissing, 1, 2, 6, 3, float64(SignalLowCoverage)}},
		{p, Reason{RuleMissing, -1, 6, 6, 0, 0}},
		{p, Reason{RuleFallback, 0, 6, 8, 3, 8}},
		{p, Reason{RuleGrowingDemand, 2, 4, 6, 1.31, 0.8}},
		{p, Reason{RuleLoading, -1, 9, 9, 3, 6}},
		{p, Reason{RuleLoading, -1, 9, 9, 1, 6}},
		{p, Reason{RuleLoading, 1, 3, 6, 0, 2}},
		{p, Reason{RuleTolerance, -1, 11, 10, 1.04, 0.1}},
		{p, Reason{RulePanic, -1, 9, 9, 2.25, at(time.Minute)}},
		{p, Reason{RuleStabilize, -1, 6, 9, 600, at(74 * time.Minute)}},
		{p, Reason{RuleStabilize, -1, 9, 6, 60, at(30 * time.Second)}},
		{p, Reason{RuleIdle, -1, 0, 0, 900, at(0)}},
		{p, Reason{RuleIdle, -1, 0, 1, 840, at(time.Minute)}},
		{p, Reason{RuleIdle, -1, 1, 0, 5400, at(0)}},
		{p, Reason{RuleIdle, -1, 0, 1, 0, at(0)}},
		{p, Reason{RuleIdle, -1, 0, 1, -1, at(0)}},
		{p, Reason{RuleRate, -1, 12, 8, 0, 4}},
		{p, Reason{RuleRate, -1, 3, 8, 0, 9}},
		{p, Reason{RuleRate, -1, 3, 8, -1, 8}},
		{p, Reason{RuleForecast, -1, 3, 8, 8, 0}},
		{p, Reason{RuleForecast, 0, 3, 5, 4.2, 3.1}},
		{p, Reason{RuleScheduleFloor, 0, 9, 9, 2, at(12 * time.Hour)}},
		{p, Reason{RuleScheduleFloor, 0, 1, 2, 2, -at(24 * time.Hour)}},
		{p, Reason{RuleScheduleFloor, 1, 1, 2, 2, 0}},
		{p, Reason{RuleScheduleCeiling, 1, 9, 8, 0, at(22 * time.Hour)}},
		{p, Reason{RuleAtRisk, -1, 9, 11, 2, 0}},
		{p, Reason{RuleSurge, -1, 9, 10, 1, 0}},
		{p, Reason{RuleCapacity, -1, 12, 9, 9, 0}},
		{p, Reason{RuleCapacity, -1, 12, 9, 9, 1}},
		{p, Reason{RuleOverride, -1, 6, 12, 12, -1}},
		{p, Reason{RuleOverride, -1, 6, 3, -1, 3}},
		{p, Reason{RuleOverride, -1, 6, 5, 5, 8}},
		{p, Reason{RulePaused, -1, 9, 6, 6, 0}},
		{p, Reason{RuleBounds, -1, 14, 12, 0, 12}},
		{&Policy{MaxReplicas: 12}, Reason{RuleBounds, -1, 12, 10, 0, 10}},
		{&Policy{MaxReplicas: 12}, Reason{RuleBounds, -1, 9, 9, 0, 12}},
		{team, Reason{RuleTeamLimit, 0, 9, 4, 16, 12}},
		{team, Reason{RuleTeamLimit, 0, 9, 4, 16, -1}},
	} {
		fmt.Fprintf(&b, "%-20s %3d -> %-3d %s\n", c.r.Rule, c.r.From, c.r.To, c.r.Text(c.p))
	}
	golden.Compare(t, "testdata/reasons.golden", b.String())
}
