package evaluate

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotbench"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// spotBenchCommand returns the command of `make bench-spot`. For each recorded spot market it simulates a workload with as many replicas as
// the market has nodes on average.
func spotBenchCommand() *cobra.Command {
	var data string
	var cold time.Duration
	c := &cobra.Command{
		Use:    "bench-spot",
		Hidden: true,
		Short:  "Availability and cost on the shared spot traces, compared with Karpenter alone, SkyServe and a plan that knows the trace",
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			files, err := filepath.Glob(filepath.Join(data, "spot", "*"))
			if err != nil {
				return err
			}
			ran := 0
			for _, file := range files {
				if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
					continue
				}
				s, err := spotmarket.Open(file)
				if err != nil {
					return err
				}
				r, err := spotbench.Compare(c.Context(), spotbench.Case{Spot: s, Replicas: int32(s.Summarize().Mean),
					SpotHourly:     evaluate.DefaultSpotHourly,
					OnDemandHourly: evaluate.DefaultHourly, ColdStart: cold, Seed: 1})
				if err != nil {
					return err
				}
				if err := r.WriteText(c.OutOrStdout()); err != nil {
					return err
				}
				fmt.Fprintln(c.OutOrStdout())
				ran++
			}
			if ran == 0 {
				return fmt.Errorf("--data %s: no spot traces found", data)
			}
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", "../shared/data", "directory of the shared traces")
	c.Flags().DurationVar(&cold, "cold-start", 5*time.Minute, "time from the request for a node until a replica on it is ready")
	return c
}
