package evaluate

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotbench"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// spotBench contains the options of `make bench-spot`.
type spotBench struct {
	data  string
	cold  time.Duration
	seeds int
	only  string
	out   io.Writer
}

// spotBenchCommand returns the command of `make bench-spot`. For each recorded spot market, it simulates a workload with as many replicas
// as the market has nodes on average. It then uses all recorded markets as NodePools of one group, and generated markets of several zones.
func spotBenchCommand() *cobra.Command {
	var o spotBench
	c := &cobra.Command{
		Use:    "bench-spot",
		Hidden: true,
		Short:  "Availability and cost on recorded and generated spot markets, compared with Karpenter, SkyServe and a plan that knows them",
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.out = c.OutOrStdout()
			if o.only != "generated" {
				if err := o.recorded(c.Context()); err != nil {
					return err
				}
			}
			if o.only == "recorded" {
				return nil
			}
			return spotbench.WriteGenerated(c.Context(), o.out, o.generated())
		},
	}
	f := c.Flags()
	f.StringVar(&o.data, "data", "../shared/data", "directory of the shared traces")
	f.DurationVar(&o.cold, "cold-start", 5*time.Minute, "time from the request for a node until a replica on it is ready")
	f.IntVar(&o.seeds, "seeds", 5, "number of seeds of the generated markets")
	f.StringVar(&o.only, "only", "", "recorded or generated; empty: both")
	return c
}

// prices returns a case that has only prices, a cold start and a seed. The caller sets its spot markets and replicas.
func (o *spotBench) prices() spotbench.Case {
	return spotbench.Case{SpotHourly: evaluate.DefaultSpotHourly, OnDemandHourly: evaluate.DefaultHourly, ColdStart: o.cold, Seed: 1}
}

// recorded simulates each recorded spot market alone, with as many replicas as the market has nodes on average. It then simulates all
// markets as NodePools of one capacity group, twice: with the mean of the markets' numbers of replicas, and with twice this mean.
func (o *spotBench) recorded(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(o.data, "spot", "*"))
	if err != nil {
		return err
	}
	all, mean := o.prices(), 0.0
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			continue
		}
		s, err := spotmarket.Open(file)
		if err != nil {
			return err
		}
		alone := o.prices()
		alone.Spot, alone.Replicas = []*spotmarket.Trace{s}, int32(s.Summarize().Mean)
		if err := o.compare(ctx, alone); err != nil {
			return err
		}
		all.Spot, mean = append(all.Spot, s), mean+s.Summarize().Mean
	}
	if len(all.Spot) == 0 {
		return fmt.Errorf("--data %s: no spot traces found", o.data)
	}
	if mean /= float64(len(all.Spot)); len(all.Spot) > 1 {
		for _, times := range []float64{1, 2} {
			all.Name, all.Replicas = fmt.Sprintf("%d recorded markets as NodePools of one group", len(all.Spot)), int32(times*mean)
			if err := o.compare(ctx, all); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *spotBench) compare(ctx context.Context, c spotbench.Case) error {
	r, err := spotbench.Compare(ctx, c)
	if err != nil {
		return err
	}
	if err := r.WriteText(o.out); err != nil {
		return err
	}
	_, err = fmt.Fprintln(o.out)
	return err
}

// generated returns generated spot markets of three zones whose shortages are independent, partly common or mostly common. The replicas
// fill one zone or two zones. For comparison, it also returns markets of one zone.
func (o *spotBench) generated() (all []spotbench.Generated) {
	g := spotbench.Generated{Case: o.prices()}
	for seed := range o.seeds {
		g.Seeds = append(g.Seeds, uint64(seed+1))
	}
	add := func(zones int, common float64, replicas int32) {
		g.Zones, g.Replicas = spotmarket.Zones{Count: zones, Nodes: 12, Duration: 24 * time.Hour, Common: common}, replicas
		all = append(all, g)
	}
	add(1, 0, 12)
	for _, common := range []float64{0, 0.5, 0.9} {
		add(3, common, 12)
		add(3, common, 24)
	}
	return all
}
