// Package tune searches a policy's parameters on recorded traffic: the cheapest that keep the SLO on the part that is searched, and
// on a later part that the search has not seen. Settings that only fit the first part are passed over.
package tune

import (
	"context"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// mostChecked bounds how many settings are tried on the held-out part: one that is picked out of very many would fit it by chance.
const mostChecked = 20

// closer is how much nearer to all requests on time the next setting must have come on the searched part, where one fails on the
// held-out part: the cheapest twenty of a search are one setting twenty times, and fail together. Where none is late on the searched part
// any more, the next costs so much more there.
const closer, dearer = 0.9, 1.05

// Result is what a search came to.
type Result struct {
	Policy  string  `json:"policy"`
	Tried   int     `json:"settingsTried"`
	Checked int     `json:"settingsCheckedOnHeldOut"`
	Found   bool    `json:"found"` // settings that keep the SLO on both parts
	Changes []Knob  `json:"knobs"`
	Search  Part    `json:"searched"`
	HeldOut Part    `json:"heldOut"`
	SLO     float64 `json:"sloShare"`
	Wait    float64 `json:"sloWaitSeconds"`
	Checks  []Check `json:"checks"` // on the held-out part, in the order in which they were made
	knobs   []evaluate.Knob
	best    []float64
}

// Knob is a parameter before and after.
type Knob struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Check is a setting that keeps the SLO on the searched part, tried on the held-out part.
type Check struct {
	SearchedCost   float64 `json:"searchedCost"`   // $
	SearchedOnTime float64 `json:"searchedOnTime"` // share of requests
	HeldOutCost    float64 `json:"heldOutCost"`
	HeldOutOnTime  float64 `json:"heldOutOnTime"`
	Meets          bool    `json:"meetsSLO"` // on the held-out part too
}

// Part is the policy on one part of the traffic, before and after.
type Part struct {
	Traffic string       `json:"traffic"`
	Before  evaluate.Run `json:"before"`
	After   evaluate.Run `json:"after"` // as before where nothing was found
}

// Search looks for the settings. Both cases hold the same policy. It answers the same for the same cases, on any number of cores.
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
	late, cost := 1-out.SLO, 0.0 // what the next setting may have of late requests on the searched part, and must cost there
	for _, t := range ranked {
		if !t.Run.MeetsSLO || out.Checked == mostChecked {
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
		if late = closer * (1 - t.Run.OnTime); late == 0 {
			cost = dearer * t.Run.Cost
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
