// Package tune searches the parameters of a policy on recorded traffic for the cheapest settings that meet the SLO on the
// searched part and on a later held-out part. Settings that only fit the searched part are rejected.
package tune

import (
	"context"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// maxChecked limits how many settings are checked on the held-out part, because among very many settings one meets the SLO there
// by chance.
const maxChecked = 20

// If settings miss the SLO on the held-out part, the next ones have at most nextLateShare of their late requests on the searched part. The
// cheapest twenty of a search are almost the same settings and would fail together. Once no request is late on the searched part, the
// next settings cost at least nextCostFactor times as much there.
const nextLateShare, nextCostFactor = 0.9, 1.05

// Result is the result of a search.
type Result struct {
	Policy  string  `json:"policy"`
	Tried   int     `json:"settingsTried"`
	Checked int     `json:"settingsCheckedOnHeldOut"`
	Found   bool    `json:"found"` // settings that meet the SLO on both parts were found
	Changes []Knob  `json:"knobs"`
	Search  Part    `json:"searched"`
	HeldOut Part    `json:"heldOut"`
	SLO     float64 `json:"sloShare"`
	Wait    float64 `json:"sloWaitSeconds"`
	Checks  []Check `json:"checks"` // checks on the held-out part, in order
	knobs   []evaluate.Knob
	best    []float64
}

// Knob is a parameter with its values before and after.
type Knob struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Check is a setting that meets the SLO on the searched part, with its result on the held-out part.
type Check struct {
	SearchedCost   float64 `json:"searchedCost"`   // $
	SearchedOnTime float64 `json:"searchedOnTime"` // share of requests
	HeldOutCost    float64 `json:"heldOutCost"`
	HeldOutOnTime  float64 `json:"heldOutOnTime"`
	Meets          bool    `json:"meetsSLO"` // also on the held-out part
}

// Part holds the runs of the policy on one part of the traffic.
type Part struct {
	Traffic string       `json:"traffic"`
	Before  evaluate.Run `json:"before"`
	After   evaluate.Run `json:"after"` // equal to before if no settings were found
}

// Search returns the settings found. Both cases contain the same policy. The result depends only on the cases, not on the number
// of cores.
func Search(ctx context.Context, searched, heldOut evaluate.Case, progress func(runs, of int, best evaluate.Run)) (*Result, error) {
	knobs := evaluate.Knobs(searched.Policy)
	out := &Result{Policy: searched.Policy.Workload.Key.String(), SLO: searched.SLO.Share, Wait: searched.SLO.Wait.Seconds(), knobs: knobs, best: evaluate.Values(knobs)}
	for _, c := range []*evaluate.Case{&searched, &heldOut} {
		drawn, err := c.Traffic.Drawn(0)
		if err != nil {
			return nil, err
		}
		c.Traffic = drawn
	}
	out.Search.Traffic, out.HeldOut.Traffic = describe(searched), describe(heldOut)
	s, check := searched.SearchPolicy(knobs), heldOut.SearchPolicy(knobs)
	s.Progress = progress
	if _, err := s.Climb(ctx, evaluate.Values(knobs), evaluate.Generous(knobs)); err != nil {
		return nil, err
	}
	var err error
	if out.Search.Before, err = s.Play(ctx, out.best); err != nil {
		return nil, err
	}
	if out.HeldOut.Before, err = check.Play(ctx, out.best); err != nil {
		return nil, err
	}
	out.Search.After, out.HeldOut.After = out.Search.Before, out.HeldOut.Before
	ranked := s.Ranked()
	out.Tried = len(ranked)
	late, cost := 1-out.SLO, 0.0 // maximum late requests and minimum cost of the next settings on the searched part
	for _, t := range ranked {
		if !t.Run.MeetsSLO || out.Checked == maxChecked {
			break
		}
		if 1-t.Run.OnTime > late || t.Run.Cost < cost {
			continue
		}
		run, err := check.Play(ctx, t.Settings)
		if err != nil {
			return nil, err
		}
		out.Checked++
		out.Checks = append(out.Checks, Check{t.Run.Cost, t.Run.OnTime, run.Cost, run.OnTime, run.MeetsSLO})
		if run.MeetsSLO {
			out.Found, out.best, out.Search.After, out.HeldOut.After = true, t.Settings, t.Run, run
			break
		}
		if late = nextLateShare * (1 - t.Run.OnTime); late == 0 {
			cost = nextCostFactor * t.Run.Cost
		}
	}
	for i, k := range knobs {
		out.Changes = append(out.Changes, Knob{k.Name, k.Write(k.Value), k.Write(out.best[i])})
	}
	return out, nil
}

func describe(c evaluate.Case) string {
	n := 0
	for range c.Traffic.All() {
		n++
	}
	return fmt.Sprintf("%d requests in %s", n, c.Traffic.Duration.Round(1e9))
}
