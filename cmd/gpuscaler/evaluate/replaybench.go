package evaluate

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/report"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
)

// benchTrace is one recorded trace of `make bench-replay`.
type benchTrace struct {
	name, file string
	options    tracefile.Options
}

// benchTraces are the traces in the shared data folder, scaled so that each needs about a dozen replicas.
var benchTraces = []benchTrace{
	{"Azure conversations, flat hour", "AzureLLMInferenceTrace_conv.csv", tracefile.Options{}},
	{"ServeGen deepseek-r1, 24 h, x0.3", "servegen_deepseek-r1_traces.tar.gz", tracefile.Options{Scale: 0.3, Seed: 1}},
	{"ServeGen m-large, second day, x0.02", "servegen_m-large_traces.tar.gz", tracefile.Options{Scale: 0.02, From: 24 * time.Hour,
		To: 48 * time.Hour, Seed: 1}},
}

// open returns an evaluation of a trace in the directory of the shared data. Its policy and its cold start are not set.
func (t *benchTrace) open(data string) (evaluate.Case, error) {
	traffic, err := tracefile.Open(filepath.Join(data, "requests", t.file), t.options)
	return evaluate.Case{
		Traffic: traffic, Service: simulator.Chat8B, Measures: map[string]measure.Measure{"inflight": measure.InSystem, "rate": measure.Arrivals},
		SLO: evaluate.SLO{Share: 0.99, Wait: 10 * time.Second}, Initial: evaluate.AutoInitial, Hourly: evaluate.DefaultHourly, Seed: 1,
	}, err
}

// replayBenchCommand returns the command that `make bench-replay` runs.
func replayBenchCommand() *cobra.Command {
	var data, quick, slow string
	var colds []time.Duration
	c := &cobra.Command{
		Use:    "bench",
		Hidden: true,
		Short:  "Print cost/LB, SLO and simulated seconds per second on the shared traces",
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			shipped, err := openShipped(quick, slow)
			if err != nil {
				return err
			}
			for _, t := range benchTraces {
				base, err := t.open(data)
				if err != nil {
					return err
				}
				for _, base.ColdStart = range colds {
					base.Policy = shipped.suited(base.ColdStart)
					if err := benchCase(c.Context(), t.name, base, c.OutOrStdout(), c.ErrOrStderr()); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", "../shared/data", "directory of the shared traces")
	c.Flags().StringVar(&quick, "config", "config/examples/scenarios/rate.yaml",
		"policy to replay with cold starts of at most "+quickStart.String())
	c.Flags().StringVar(&slow, "config-slow-start", "config/examples/scenarios/rate-slow-start.yaml",
		"policy to replay with longer cold starts")
	c.Flags().DurationSliceVar(&colds, "cold-start", []time.Duration{time.Minute, 5 * time.Minute}, "cold starts")
	return c
}

// forecastColdStarts is the forecast window of the example policy, as a multiple of the cold start.
const forecastColdStarts = 6

// quickStart is the longest cold start for which the policy for short cold starts is used.
const quickStart = 2 * time.Minute

// shippedPolicies contains the example policies that the benchmark replays. quick is for short cold starts. slow is for longer cold starts
// and reacts to each reading without a delay: with a long cold start, each delay of a scale-up makes many more requests late.
type shippedPolicies struct{ quick, slow *policy.Compiled }

func openShipped(quick, slow string) (out shippedPolicies, err error) {
	if out.quick, err = openPolicy([]string{quick}, "", io.Discard); err != nil {
		return out, err
	}
	out.slow, err = openPolicy([]string{slow}, "", io.Discard)
	return out, err
}

// suited returns the example policy for a cold start. It sets the window of each forecast to forecastColdStarts times the cold start.
func (s shippedPolicies) suited(cold time.Duration) *policy.Compiled {
	c := s.quick
	if cold > quickStart {
		c = s.slow
	}
	knobs := evaluate.Knobs(c)
	values := evaluate.Values(knobs)
	for i := range knobs {
		if len(knobs[i].Path) > 0 && knobs[i].Path[len(knobs[i].Path)-1] == "window" {
			values[i] = (forecastColdStarts * cold).Seconds()
		}
	}
	return evaluate.With(c, knobs, values)
}

func benchCase(ctx context.Context, name string, c evaluate.Case, out, notes io.Writer) error {
	speed, err := replaySpeed(ctx, c)
	if err != nil {
		return err
	}
	c.Baselines, c.TuneBaselines, c.TuneOurs, c.Bound = baseline.All(), true, true, true
	bar := commandline.NewProgress(notes)
	r, err := evaluate.Workload(ctx, c, bar.Report)
	bar.End()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d requests, cold start %s, %d replicas at the start; %.0f simulated seconds per second on one core\n",
		name, r.Traffic.Requests, c.ColdStart, r.Initial, speed)
	for _, b := range r.Bounds {
		fmt.Fprintf(out, "%s bound: $%.3f (UB/LB %.4f) %s\n", b.Kind, b.Lower, b.Gap, b.Problem)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tSLO\tON TIME\tCOST\tCOST/LB\t/FLUID\tP99\tSTARTS\tSETTINGS")
	ratio := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return strconv.FormatFloat(*v, 'f', 3, 64)
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		fmt.Fprintf(t, "%s\t%s\t%.2f%%\t$%.2f\t%s\t%s\t%.1fs\t%d\t%s\n", run.Title(), report.Verdict(run), 100*run.OnTime, run.Cost,
			ratio(run.CostOverRequest), ratio(run.CostOverFluid), run.Wait.P99, run.ReplicaStarts, report.Settings(&run.Load))
	}
	t.Flush()
	if r.SavedSmallest != nil {
		fmt.Fprintf(out, "gpuscaler costs %.1f%% less than the smallest static fleet that meets the SLO\n", 100**r.SavedSmallest)
	}
	fmt.Fprintf(out, "cheapest that meets the SLO: %s\n\n", r.Cheapest)
	return nil
}

// replaySpeed returns the speed of a replay without other autoscalers, in simulated seconds per second.
func replaySpeed(ctx context.Context, c evaluate.Case) (float64, error) {
	begun := time.Now()
	_, err := evaluate.Workload(ctx, c, nil)
	return c.Traffic.Duration.Seconds() / time.Since(begun).Seconds(), err
}
