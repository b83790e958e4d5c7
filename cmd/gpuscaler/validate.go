package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

func validateCommand() *cobra.Command {
	output, policies := "text", policyPaths{}
	c := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check policy files: file, line, field, what was found, what is allowed",
		Long: `Check files and directories of policies and the PlatformConfig exactly as the controller reads
them, without a cluster. Each problem names its file, line and field, what was found and what is
allowed. Every document is accepted from PATH; --policies limits a path as it does for run. Exit code 1 when something would be refused; warnings alone exit 0.`,
		Example: `  gpuscaler validate policies/ platform.yaml
  gpuscaler validate platform.yaml --policies team-chat=chat/ --policies team-embed,team-search=embed/
  gpuscaler validate -o json policies/ | jq -r '.problems[].field'`,
		RunE: func(c *cobra.Command, names []string) error {
			out := c.OutOrStdout()
			paths, err := policies.with(names)
			if err != nil {
				return err
			}
			if len(paths) == 0 {
				return errors.New("give a PATH or --policies")
			}
			problems := policy.ValidatePaths(paths...)
			switch output {
			case "json":
				e := json.NewEncoder(out)
				e.SetIndent("", "  ")
				if err := e.Encode(map[string]any{"problems": problems, "valid": policy.Errors(problems) == 0}); err != nil {
					return err
				}
			case "text":
				fmt.Fprint(out, policy.Render(problems))
			default:
				return fmt.Errorf("-o %q: want text or json", output)
			}
			if n := policy.Errors(problems); n > 0 {
				if output == "text" {
					fmt.Fprintf(out, "refused: %d to mend; the last good version of such a document stays in force\n", n)
				}
				return errReported
			}
			if output == "text" {
				fmt.Fprintln(out, "ok")
			}
			return nil
		},
	}
	policies.register(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", output, "text or json")
	return c
}
