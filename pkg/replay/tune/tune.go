// Package tune searches a policy's parameters on recorded traffic: the cheapest that keep the SLO on the part that is searched, and
// on a later part that the search has not seen. Settings that only fit the first part are passed over.
package tune

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/gpuscaler/gpuscaler/pkg/replay/judge"
)

// mostChecked bounds how many settings are tried on the held-out part: one that is picked out of very many would fit it by chance.
const mostChecked = 20

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
	knobs   []judge.Knob
	best    []float64
}

// Knob is a parameter before and after.
type Knob struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Part is the policy on one part of the traffic, before and after.
type Part struct {
	Traffic       string `json:"traffic"`
	Before, After judge.Run
}

// Search looks for the settings. Both cases hold the same policy. It answers the same for the same cases, on any number of cores.
func Search(ctx context.Context, searched, heldOut judge.Case, told func(runs, of int, best judge.Run)) (*Result, error) {
	knobs := judge.Knobs(searched.Policy)
	out := &Result{Policy: searched.Policy.Workload.Key.String(), SLO: searched.SLO.Share, knobs: knobs, best: judge.Values(knobs)}
	for _, c := range []*judge.Case{&searched, &heldOut} {
		drawn, err := c.Traffic.Drawn(0)
		if err != nil {
			return nil, err
		}
		c.Traffic = drawn
	}
	out.Search.Traffic, out.HeldOut.Traffic = describe(searched), describe(heldOut)
	s, check := searched.SearchPolicy(knobs), heldOut.SearchPolicy(knobs)
	s.Told = told
	if _, err := s.Climb(ctx, judge.Values(knobs), judge.Generous(knobs)); err != nil {
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
	for _, t := range ranked[:min(len(ranked), mostChecked)] {
		if !t.Run.MeetsSLO {
			break
		}
		run, err := check.Play(ctx, t.Settings)
		if err != nil {
			return nil, err
		}
		out.Checked++
		if run.MeetsSLO {
			out.Found, out.best, out.Search.After, out.HeldOut.After = true, t.Settings, t.Run, run
			break
		}
	}
	for i, k := range knobs {
		out.Changes = append(out.Changes, Knob{k.Name, k.Write(k.Value), k.Write(out.best[i])})
	}
	return out, nil
}

func describe(c judge.Case) string {
	n := 0
	for range c.Traffic.All() {
		n++
	}
	return fmt.Sprintf("%d requests in %s", n, c.Traffic.Duration.Round(1e9))
}

// WriteText writes the result for a terminal.
func (r *Result) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if r.Found {
		fmt.Fprintf(t, "%s: the cheapest of %d settings that keeps the SLO on both parts (%d checked on the held-out part)\n\n", r.Policy, r.Tried, r.Checked)
	} else {
		fmt.Fprintf(t, "%s: none of %d settings keeps the SLO on both parts (%d checked on the held-out part); nothing is changed\n\n", r.Policy, r.Tried, r.Checked)
	}
	fmt.Fprintln(t, "KNOB\tBEFORE\tAFTER")
	for _, k := range r.Changes {
		fmt.Fprintf(t, "%s\t%s\t%s\n", k.Name, k.Before, k.After)
	}
	fmt.Fprintln(t, "\nPART\tPOLICY\tSLO\tON TIME\tCOST\tP99\tMAX WAIT")
	for _, p := range []struct {
		name string
		part *Part
	}{{"searched", &r.Search}, {"held out", &r.HeldOut}} {
		for _, side := range []struct {
			name string
			run  *judge.Run
		}{{"before", &p.part.Before}, {"after", &p.part.After}} {
			verdict := "misses SLO"
			if side.run.MeetsSLO {
				verdict = "meets"
			}
			fmt.Fprintf(t, "%s, %s\t%s\t%s\t%.2f%%\t$%.3f\t%.1fs\t%.1fs\n", p.name, p.part.Traffic, side.name, verdict,
				100*side.run.OnTime, side.run.Cost, side.run.Wait.P99, side.run.Wait.Max)
		}
	}
	return t.Flush()
}
