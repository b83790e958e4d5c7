package evaluate

import (
	"context"
	"fmt"
	"math"

	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
)

// A target per replica is low if it is below lowTarget times the number of requests that a replica serves concurrently. The policy is then
// also run with a target of suggestedTarget times that number. If that run meets the SLO and saves at least the share minAdvisedSaving of
// the cost, a warning is reported.
const lowTarget, suggestedTarget, minAdvisedSaving = 0.5, 0.8, 0.05

// concurrent contains the measures for which a target per replica is a number of concurrent requests.
var concurrent = map[measure.Measure]string{measure.InSystem: "requests in flight", measure.Running: "running requests"}

// lowTargets returns a warning for each signal whose target per replica is far below what a replica serves concurrently, with the cost of a
// higher target on the same traffic. It runs the policy once more for each of these signals. ours is the run of the unchanged policy.
func (c *Case) lowTargets(ctx context.Context, ours *Run) (warnings []string, err error) {
	p := c.limits()
	if p.Formula != nil || !ours.MeetsSLO { // a formula can ignore the targets, so a higher target may have no effect
		return nil, nil
	}
	slots := float64(max(1, c.Service.Slots))
	knobs := Knobs(c.Policy)
	search := c.SearchPolicy(knobs)
	for i := range p.Signals {
		what := concurrent[measure.Of(c.Policy, i, c.Measures).Measure]
		target := p.Signals[i].Target
		if what == "" || target == 0 || target >= lowTarget*slots { // a signal without a target is an input of an objective
			continue
		}
		settings, suggested := Values(knobs), math.Max(1, math.Round(suggestedTarget*slots))
		for k := range knobs {
			if knobs[k].Name == p.Signals[i].Name+" target" {
				settings[k] = suggested
			}
		}
		run, err := search.Play(ctx, settings)
		if err != nil {
			return nil, err
		}
		if run.MeetsSLO && run.Cost < ours.Cost*(1-minAdvisedSaving) {
			warnings = append(warnings, fmt.Sprintf(
				"signal %s: its target of %s %s uses %.0f%% of the %s that a replica serves concurrently; "+
					"a target of %s would cost $%.2f instead of $%.2f on this traffic, and meet the SLO",
				p.Signals[i].Name, number(target), what, 100*target/slots, number(slots), number(suggested), run.Cost, ours.Cost))
		}
	}
	return warnings, nil
}

// idleActivity returns a warning for each signal of GPU activity that keeps two replicas although the traffic needs less than one on
// average. A single request is enough for a high activity of a replica, so such a signal does not lower the target to one replica while
// requests arrive.
func (c *Case) idleActivity() (warnings []string) {
	served, arrive := c.perReplica(c.Traffic.Duration)
	p := c.limits()
	if served == 0 || arrive >= served || p.MaxReplicas < 2 || c.Service.Slots < 2 {
		return nil
	}
	busy := c.assumptions().BusyActivity
	for i := range p.Signals {
		s := &p.Signals[i]
		if measure.Of(c.Policy, i, c.Measures).Measure != measure.Activity || s.Target == 0 || 2*busy <= s.Target {
			continue
		}
		warnings = append(warnings, fmt.Sprintf(
			"signal %s: a replica has at least %.0f%% GPU activity while it serves any request (assumed), so with a target of %.0f%% "+
				"this signal keeps two replicas, and the traffic needs %.1f on average; "+
				"requests in flight per replica would be a better signal for this service",
			s.Name, 100*busy, 100*s.Target, arrive/served))
	}
	return warnings
}
