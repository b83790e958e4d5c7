package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/pkg/replay/scenario"
)

// replayScenarioCommand runs several workloads at once, from one file.
func replayScenarioCommand() *cobra.Command {
	o := judgeFlags{}
	c := &cobra.Command{
		Use:   "scenario FILE...",
		Short: "Several workloads in one simulated cluster, beside fleets that stand",
		Long: `Run the workloads of a scenario file together, on its NodePools and its spot traces, with the engine of the
controller, and once more with fleets of a fixed size: what is saved, and who waits for it. Each workload is
judged by its own SLO; rivals move all of them, and bounds add up.`,
		Example: `  gpuscaler replay scenario config/examples/scenarios/office-hours/scenario.yaml
  gpuscaler replay scenario config/examples/scenarios/training-spot/scenario.yaml --rivals all --bound -o html --file report.html
  gpuscaler replay scenario config/examples/scenarios/*/scenario.yaml --fail-if 'missed>0' --fail-if 'saved<30%'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runScenarios(c.Context(), &o, args, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.register(c.Flags())
	return c
}

func runScenarios(ctx context.Context, o *judgeFlags, files []string, out, notes io.Writer) error {
	if err := o.prepare(); err != nil {
		return err
	}
	if len(files) > 1 && (o.file != "" || o.output == "html") {
		return errors.New("a page or a --file holds one scenario: name one at a time")
	}
	failed := false
	for i, path := range files {
		s, err := scenario.Open(path)
		if err != nil {
			return err
		}
		bar := newProgress(notes)
		r, err := s.Judge(ctx, o.asked(s.Cases()), bar.tell)
		bar.end()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if i > 0 && o.output == "text" {
			fmt.Fprintln(out)
		}
		switch err := o.write(out, notes, r); {
		case errors.Is(err, errReported):
			failed = true // and those that follow are run all the same
		case err != nil:
			return err
		}
	}
	if failed {
		return errReported
	}
	return nil
}
