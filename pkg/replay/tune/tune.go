// Package tune searches the parameters of a policy on recorded traffic for the cheapest settings that meet the SLO.
//
// The traffic is divided into three parts in the order of time:
//
//   - search part: the settings are searched on this part.
//   - choice part: the results of the search are checked on this part, the cheapest first. The first settings that also meet the SLO here
//     are chosen.
//   - report part: the chosen settings run once on this part. This part did not influence the choice, so the result is an estimate for
//     later traffic.
package tune

import (
	"context"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/search"
)

// maxChecked is the maximum number of settings that are checked on the choice part of the traffic. If very many settings were checked, one
// of them would meet the SLO on this part by chance.
const maxChecked = 20

// nextLateShare and nextCostFactor select which settings are checked next on the choice part of the traffic, after some settings missed the
// SLO there. They refer to the results on the search part. The next settings must have at most nextLateShare times as many late requests as
// the settings that missed. If the settings that missed had no late request, the next settings must cost at least nextCostFactor times as
// much. Without this rule, the twenty cheapest settings of a search would be checked. They are almost equal and would all miss the SLO.
const nextLateShare, nextCostFactor = 0.9, 1.05

// Result contains the results of a search on the parts of the traffic.
type Result struct {
	Policy  string  `json:"policy"`
	Tried   int     `json:"settingsTried"`
	Checked int     `json:"settingsChecked"` // settings that were run on the choice part
	Chosen  bool    `json:"chosen"`          // whether there are settings that meet the SLO on the search part and the choice part
	Found   bool    `json:"found"`           // whether the chosen settings also meet the SLO on the report part
	Changes []Knob  `json:"knobs"`
	Search  Part    `json:"searched"`
	Choose  Part    `json:"choice"`
	Report  Part    `json:"report"`
	SLO     float64 `json:"sloShare"`
	Wait    float64 `json:"sloWaitSeconds"`
	Checks  []Check `json:"checks"` // results on the choice part, in the order of the checks
	knobs   []evaluate.Knob
	best    []float64
}

// Knob is a parameter of the policy with its current value and the value that was found.
type Knob struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Check is the result of settings on the choice part of the traffic. These settings meet the SLO on the search part.
type Check struct {
	SearchedCost   float64 `json:"searchedCost"`   // cost in $ on the search part
	SearchedOnTime float64 `json:"searchedOnTime"` // share of requests on time on the search part
	ChoiceCost     float64 `json:"choiceCost"`
	ChoiceOnTime   float64 `json:"choiceOnTime"`
	Meets          bool    `json:"meetsSLO"` // the settings also meet the SLO on the choice part
}

// Parts are the three parts of the traffic, in the order of time, with the same policy.
type Parts struct{ Search, Choose, Report evaluate.Case }

// Part contains the results of the current settings and of the chosen settings on one part of the traffic.
type Part struct {
	Traffic string       `json:"traffic"`
	Before  evaluate.Run `json:"before"`
	After   evaluate.Run `json:"after"` // equal to Before if no settings were chosen
}

// Search runs the search and returns its result, even if no settings were found. The result depends only on the parts, and not on the
// number of CPU cores. The function progress is called during the search; it may be nil.
func Search(ctx context.Context, p Parts, progress func(runs, of int, best evaluate.Run)) (*Result, error) {
	knobs, slo := evaluate.Knobs(p.Search.Policy), p.Search.SLO
	out := &Result{
		Policy: p.Search.Policy.Workload.Key.String(), SLO: slo.Share, Wait: slo.Wait.Seconds(),
		knobs: knobs, best: evaluate.Values(knobs),
	}
	for _, c := range []*evaluate.Case{&p.Search, &p.Choose, &p.Report} {
		drawn, err := c.Traffic.Drawn(0)
		if err != nil {
			return nil, err
		}
		c.Traffic = drawn
	}
	out.Search.Traffic, out.Choose.Traffic, out.Report.Traffic = describe(p.Search), describe(p.Choose), describe(p.Report)
	s, check := p.Search.SearchPolicy(knobs), p.Choose.SearchPolicy(knobs)
	s.Progress = progress
	if _, err := s.Climb(ctx, evaluate.Values(knobs), evaluate.Generous(knobs)); err != nil {
		return nil, err
	}
	var err error
	if out.Search.Before, err = s.Play(ctx, out.best); err != nil {
		return nil, err
	}
	if out.Choose.Before, err = check.Play(ctx, out.best); err != nil {
		return nil, err
	}
	out.Search.After, out.Choose.After = out.Search.Before, out.Choose.Before
	if err := out.choose(ctx, s.Ranked(), check); err != nil {
		return nil, err
	}
	if err := out.report(ctx, p.Report.SearchPolicy(knobs)); err != nil {
		return nil, err
	}
	for i, k := range knobs {
		out.Changes = append(out.Changes, Knob{k.Name, k.Write(k.Value), k.Write(out.best[i])})
	}
	return out, nil
}

// report runs the current and the chosen settings on the report part. If the chosen settings miss the SLO there, no other settings are
// tried: a result that was selected on this part would not be an estimate for later traffic.
func (out *Result) report(ctx context.Context, third *search.Search[evaluate.Run]) (err error) {
	if out.Report.Before, err = third.Play(ctx, evaluate.Values(out.knobs)); err != nil {
		return err
	}
	out.Report.After = out.Report.Before
	if out.Chosen {
		if out.Report.After, err = third.Play(ctx, out.best); err != nil {
			return err
		}
		out.Found = out.Report.After.MeetsSLO
	}
	return nil
}

// choose checks the ranked settings on the choice part, until some meet the SLO there or maxChecked settings were checked.
func (out *Result) choose(ctx context.Context, ranked []search.Tried[evaluate.Run], check *search.Search[evaluate.Run]) error {
	out.Tried = len(ranked)
	late, cost := 1-out.SLO, 0.0 // maximum share of late requests and minimum cost of the next settings, on the search part
	for _, t := range ranked {
		if !t.Run.MeetsSLO || out.Checked == maxChecked {
			break
		}
		if 1-t.Run.OnTime > late || t.Run.Cost < cost {
			continue
		}
		run, err := check.Play(ctx, t.Settings)
		if err != nil {
			return err
		}
		out.Checked++
		out.Checks = append(out.Checks, Check{t.Run.Cost, t.Run.OnTime, run.Cost, run.OnTime, run.MeetsSLO})
		if run.MeetsSLO {
			out.Chosen, out.best, out.Search.After, out.Choose.After = true, t.Settings, t.Run, run
			break
		}
		if late = nextLateShare * (1 - t.Run.OnTime); late == 0 {
			cost = nextCostFactor * t.Run.Cost
		}
	}
	return nil
}

func describe(c evaluate.Case) string {
	n := 0
	for range c.Traffic.All() {
		n++
	}
	return fmt.Sprintf("%d requests in %s", n, c.Traffic.Duration.Round(1e9))
}
