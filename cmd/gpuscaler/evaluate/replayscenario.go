package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/scenario"
)

// replayScenarioCommand returns the command that simulates the workloads of a scenario file in one cluster.
func replayScenarioCommand() *cobra.Command {
	o := reportFlags{}
	var cold time.Duration
	c := &cobra.Command{
		Use:   "scenario FILE...",
		Short: "Replay several workloads in one simulated cluster and compare them with static fleets",
		Long: `Run the workloads of a scenario file together, on its NodePools and its spot traces, with the engine of the
controller, and again with static fleets, and compare cost and waits. Each workload has its own SLO. A baseline
scales all workloads, and the lower bounds are added.`,
		Example: `  gpuscaler replay scenario config/examples/scenarios/office-hours/scenario.yaml
  gpuscaler replay scenario config/examples/scenarios/training-spot/scenario.yaml --baselines all --bound -o html --file report.html
  gpuscaler replay scenario config/examples/scenarios/*/scenario.yaml --fail-if 'missed>0' --fail-if 'saved<30%'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runScenarios(c.Context(), &scenarioRun{o, cold, args, c.OutOrStdout(), c.ErrOrStderr()})
		},
	}
	o.register(c.Flags())
	c.Flags().DurationVar(&cold, "cold-start", 0, "time from the request for a replica until it is ready; 0: the sum of randomly drawn "+
		"phases, see the printed assumptions")
	return c
}

// scenarioRun contains the flags of `gpuscaler replay scenario`.
type scenarioRun struct {
	reportFlags
	cold       time.Duration
	files      []string
	out, notes io.Writer
}

func runScenarios(ctx context.Context, o *scenarioRun) error {
	if err := o.prepare(); err != nil {
		return err
	}
	if len(o.files) > 1 && (o.file != "" || o.output == "html") {
		return errors.New("-o html and --file accept one scenario at a time")
	}
	failed := false
	for i, path := range o.files {
		s, err := scenario.Open(path)
		if err != nil {
			return err
		}
		cases := o.asked(s.Cases())
		for i := range cases {
			cases[i].ColdStart = o.cold
		}
		bar := commandline.NewProgress(o.notes)
		r, err := s.Evaluate(ctx, cases, bar.Report)
		bar.End()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if i > 0 && o.output == "text" {
			fmt.Fprintln(o.out)
		}
		switch err := o.write(o.out, o.notes, r); {
		case errors.Is(err, commandline.ErrReported):
			failed = true // the loop continues with the next scenario
		case err != nil:
			return err
		}
	}
	if failed {
		return commandline.ErrReported
	}
	return nil
}
