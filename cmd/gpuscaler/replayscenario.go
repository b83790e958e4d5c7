package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/pkg/replay/scenario"
)

// replayScenarioCommand runs several workloads at once, from one file.
func replayScenarioCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "scenario FILE...",
		Short: "Several workloads in one simulated cluster, beside fleets that stand",
		Long: `Run the workloads of a scenario file together, on its NodePools and its spot traces, with the engine of the
controller, and once more with fleets of a fixed size: what is saved, and who waits for it.`,
		Example: `  gpuscaler replay scenario config/examples/scenarios/office-hours/scenario.yaml
  gpuscaler replay scenario config/examples/scenarios/*/scenario.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("-o %q: want text or json", output)
			}
			for i, path := range args {
				s, err := scenario.Open(path)
				if err != nil {
					return err
				}
				r, err := s.Run(c.Context())
				if err != nil {
					return err
				}
				if output == "json" {
					err = writeJSON(c.OutOrStdout(), r)
				} else {
					if i > 0 {
						fmt.Fprintln(c.OutOrStdout())
					}
					err = r.WriteText(c.OutOrStdout())
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}
