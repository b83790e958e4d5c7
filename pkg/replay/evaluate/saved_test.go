package evaluate

import "testing"

// A static fleet costs $10, but a fleet of $5 would meet the SLO. The run costs $4. It saves 60% of $10 and 20% of $5.
func TestSavingsAgainstBothStaticFleets(t *testing.T) {
	run := func(name, variant string, cost float64, meets bool) Run {
		return Run{Name: name, Variant: variant, Cost: cost, Load: Load{MeetsSLO: meets}}
	}
	for _, c := range []struct {
		name            string
		ours, smallest  Run
		saved, smallers float64 // -1: absent
	}{
		{"both", run("gpuscaler", Ours, 4, true), run("static", Tuned, 5, true), 0.6, 0.2},
		{"no static fleet meets the SLO", run("gpuscaler", Ours, 4, true), run("static", Tuned, 5, false), 0.6, -1},
		{"the run misses the SLO", run("gpuscaler", Ours, 4, false), run("static", Tuned, 5, true), -1, -1},
	} {
		r := &Report{Runs: []Run{c.ours, run(StaticFleet, Default, 10, true), c.smallest}}
		r.compare()
		for what, v := range map[string]struct {
			got  *float64
			want float64
		}{"the static fleet": {r.Saved, c.saved}, "the smallest fleet": {r.SavedSmallest, c.smallers}} {
			if got := v.got; (got == nil) != (v.want < 0) || got != nil && !(*got >= v.want-1e-9 && *got <= v.want+1e-9) {
				t.Errorf("%s, %s: saved %v, want %v", c.name, what, got, v.want)
			}
		}
	}
}
