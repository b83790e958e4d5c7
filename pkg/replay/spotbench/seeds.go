package spotbench

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/confidence"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// Generated describes comparisons on generated markets with one NodePool for each zone. Each seed gives another market.
type Generated struct {
	Zones    spotmarket.Zones // Seed is ignored
	Replicas int32
	Seeds    []uint64
	Case     Case // prices and cold start; the other fields are ignored
}

// Outcome contains the results of one run over all seeds. Met is the number of seeds with which the run reaches the goal (see Run.Goal).
type Outcome struct {
	Name         string
	Availability confidence.Interval
	OverLeast    confidence.Interval
	Met, Seeds   int
}

// Goal reports whether a run reaches the goal of the project for several spot NodePools: 99.9% available at no more than 1.35 times the
// lowest cost, or 99.5% at no more than 1.15 times the lowest cost.
func (r *Run) Goal() bool {
	return r.Availability >= 0.999 && r.OverLeast <= 1.35 || r.Availability >= 0.995 && r.OverLeast <= 1.15
}

// Compare runs gpuscaler and SkyServe's fallback with the markets of each seed.
func (g Generated) Compare(ctx context.Context) ([]Outcome, error) {
	out := []Outcome{{Name: Ours}, {Name: Fallback}}
	values := make([]struct{ availability, cost confidence.Groups }, len(out))
	for _, seed := range g.Seeds {
		c, z := g.Case, g.Zones
		z.Seed = seed
		c.Spot, c.Replicas, c.Seed, c.Only = spotmarket.Generate(z), g.Replicas, seed, []string{Ours, Fallback}
		r, err := Compare(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("seed %d: %w", seed, err)
		}
		for i := range r.Runs {
			run := &r.Runs[i]
			values[i].availability.Add(seed, run.Availability)
			values[i].cost.Add(seed, run.OverLeast)
			if out[i].Seeds++; run.Goal() {
				out[i].Met++
			}
		}
	}
	for i := range out {
		out[i].Availability, out[i].OverLeast = values[i].availability.Interval(), values[i].cost.Interval()
	}
	return out, nil
}

// half returns half of the length of an interval. It is infinite with one seed.
func half(i confidence.Interval) float64 { return i.High - i.Mean }

// WriteGenerated writes a row for each of the comparisons and each of their runs.
func WriteGenerated(ctx context.Context, w io.Writer, all []Generated) error {
	fmt.Fprintln(w, "generated markets, one NodePool for each zone; common: share of the shortages that begin in all zones; +-: half of the\n"+
		"90% interval over the seeds; goal: 99.9% available at no more than 1.35 of omniscient over all NodePools, or 99.5% at 1.15")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ZONES\tNODES\tCOMMON\tREPLICAS\tTIME\tRUN\tAVAILABLE\tCOST/OMNISCIENT\tGOAL")
	for _, g := range all {
		outcomes, err := g.Compare(ctx)
		if err != nil {
			return err
		}
		z := &g.Zones
		for _, o := range outcomes {
			fmt.Fprintf(t, "%d\t%d\t%.1f\t%d\t%v\t%s\t%.3f%% +-%.3f\t%.3f +-%.3f\t%d of %d seeds\n", z.Count, z.Nodes, z.Common, g.Replicas,
				z.Duration.Round(time.Minute), o.Name, 100*o.Availability.Mean, 100*half(o.Availability), o.OverLeast.Mean, half(o.OverLeast),
				o.Met, o.Seeds)
		}
	}
	return t.Flush()
}
