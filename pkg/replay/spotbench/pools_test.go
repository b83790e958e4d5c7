package spotbench

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// Two zones lose all their nodes for an hour each, one after the other. Together they always have enough nodes, so the plan that knows both
// markets never uses on-demand nodes. Each run must use the spot nodes of both zones: with one zone, it would pay for at least an hour on
// demand.
func TestTwoZonesReplaceEachOther(t *testing.T) {
	second := &spotmarket.Trace{Name: "second", Duration: 6 * time.Hour, Initial: 6,
		Events: []spotmarket.Event{{At: 3 * time.Hour, Lost: 6}, {At: 4 * time.Hour, Added: 6}}}
	c := Case{Name: "two zones", Spot: []*spotmarket.Trace{gone(), second}, Replicas: 4, SpotHourly: 1, OnDemandHourly: 3,
		ColdStart: 5 * time.Minute, Seed: 1, Only: []string{Ours, Fallback}}
	r, err := Compare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Trace != "two zones" || math.Abs(r.Least-4*6) > 1e-9 || len(r.Runs) != 2 {
		t.Fatalf("%s: lowest cost $%g, %d runs; want $24 and two runs", r.Trace, r.Least, len(r.Runs))
	}
	for _, run := range r.Runs {
		if !(run.Availability >= 0.97 && run.Cost >= r.Least*run.Availability) || run.Ledger.SpotHours < 20 {
			t.Errorf("%s: %+v, want at least 20 of 24 hours on spot", run.Name, run)
		}
	}
	if ours := r.Runs[0]; ours.OverLeast > 1.5 {
		t.Errorf("gpuscaler costs %.2f times as much as the plan that knows both markets", ours.OverLeast)
	}
}

func TestTheShortestMarketLimitsTheDuration(t *testing.T) {
	long := &spotmarket.Trace{Name: "long", Duration: 30 * time.Hour, Initial: 1, Events: []spotmarket.Event{{At: 20 * time.Hour, Lost: 1}}}
	c := Case{Spot: []*spotmarket.Trace{long, gone()}, Replicas: 8, SpotHourly: 1, OnDemandHourly: 3}
	if d := c.duration(); d != 6*time.Hour {
		t.Errorf("duration %v, want 6h", d)
	}
	// Eight replicas for six hours at $1 (spot) and $3 (on-demand). One replica is always on a node of the first market, and one is always on
	// demand. The other six are on nodes of the second market, which are lost for one hour; in this hour these six are on demand.
	if want := 6*1*1.0 + 5*6*1 + 6*1*3 + 1*6*3; math.Abs(c.lowestCost()-want) > 1e-9 {
		t.Errorf("lowest cost $%g, want $%g", c.lowestCost(), want)
	}
}

// The table of generated markets has a row for each run, with the number of seeds for which the run reaches the goal. The same seeds give
// the same table.
func TestGeneratedMarketsAreSummarizedOverSeeds(t *testing.T) {
	g := Generated{Zones: spotmarket.Zones{Count: 2, Nodes: 4, Duration: 3 * time.Hour, Common: 0.5}, Replicas: 3, Seeds: []uint64{1, 2},
		Case: Case{SpotHourly: 1, OnDemandHourly: 3, ColdStart: 5 * time.Minute}}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := WriteGenerated(t.Context(), out, []Generated{g}); err != nil {
			t.Fatal(err)
		}
	}
	text := first.String()
	if text != second.String() || strings.Count(text, "of 2 seeds") != 2 ||
		!strings.Contains(text, Ours) || !strings.Contains(text, Fallback) {
		t.Errorf("\n%s", text)
	}
	outcomes, err := g.Compare(t.Context())
	if err != nil || outcomes[0].Seeds != 2 || outcomes[0].Availability.Mean < 0.9 || half(outcomes[0].Availability) < 0 {
		t.Errorf("%+v (%v)", outcomes, err)
	}
}

func TestGoalOfSeveralPools(t *testing.T) {
	for _, c := range []struct {
		availability, cost float64
		want               bool
	}{{0.999, 1.35, true}, {0.999, 1.36, false}, {0.9989, 1.2, false}, {0.995, 1.15, true}, {0.9949, 1.0, false}} {
		if r := (&Run{Availability: c.availability, OverLeast: c.cost}); r.Goal() != c.want {
			t.Errorf("%v at %v: %v", c.availability, c.cost, r.Goal())
		}
	}
}
