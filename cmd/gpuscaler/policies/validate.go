package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// maxInput is the maximum size of the documents on standard input, in bytes.
const maxInput = 64 << 20

func validateCommand() *cobra.Command {
	output, policies, noPlatform := "text", commandline.PolicyPaths{}, false
	var config []string
	c := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check policy files and print file, line, field, the found value and the allowed values",
		Long: `Check files and directories of policies and the PlatformConfig as the controller reads them, without a cluster.
Each problem names its file, line and field, the found value and the allowed values. The exit code is 1 if a document is
refused, and 0 if there are only warnings.

PATH is a file or a directory with documents of any namespace, or - for standard input; --config PATH is the same.
--policies names a path with policies of some namespaces only, as the flag of run does. In the manifest of a ConfigMap,
each key is checked. From a ConfigMap with the label gpuscaler.io/policy, only policies of its namespace are accepted.
Without the file of the PlatformConfig, use --no-platform.`,
		Example: `  gpuscaler validate policies/ platform.yaml
  gpuscaler validate platform.yaml --policies team-chat=chat/ --policies team-embed,team-search=embed/
  gpuscaler validate --no-platform policies/
  kustomize build policies/ | gpuscaler validate - platform.yaml
  gpuscaler validate -o json policies/ | jq -r '.problems[].field'`,
		RunE: func(c *cobra.Command, names []string) error {
			out := c.OutOrStdout()
			names = append(names, config...)
			paths, err := policies.With(names)
			if err != nil {
				return err
			}
			if len(paths) == 0 {
				return errors.New("a PATH, --config or --policies is required")
			}
			var text []byte
			if slices.Contains(names, "-") {
				if text, err = io.ReadAll(io.LimitReader(c.InOrStdin(), maxInput)); err != nil {
					return fmt.Errorf("read standard input: %w", err)
				}
			}
			check := store.ValidateWith
			if noPlatform {
				check = store.ValidatePolicies
			}
			problems, documents := check(text, paths...)
			switch output {
			case "json":
				e := json.NewEncoder(out)
				e.SetIndent("", "  ")
				if err := e.Encode(map[string]any{"problems": problems, "documents": documents, "valid": policy.Errors(problems) == 0}); err != nil {
					return err
				}
			case "text":
				fmt.Fprint(out, policy.Render(problems))
			default:
				return fmt.Errorf("-o %q: use text or json", output)
			}
			if n := policy.Errors(problems); n > 0 {
				if output == "text" {
					fmt.Fprintf(out, "refused: %s; a running controller keeps the last valid version of a refused document\n",
						commandline.Count(n, "problem"))
				}
				return commandline.ErrReported
			}
			if output == "text" {
				fmt.Fprintf(out, "ok: %s\n", commandline.Count(documents, "document"))
			}
			return nil
		},
	}
	commandline.Config(c.Flags(), &config, ", like the argument PATH")
	policies.Register(c.Flags())
	c.Flags().BoolVar(&noPlatform, "no-platform", false, "the PlatformConfig is not among the paths: accept the names of data sources, "+
		"queries and groups, and check everything else")
	c.Flags().StringVarP(&output, "output", "o", output, "text or json")
	return c
}
