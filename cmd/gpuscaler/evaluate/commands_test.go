package evaluate

import (
	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/policies"
)

// rootCommand returns a root command with the commands of this package. It also has the commands of package policies, which the tests use
// to check policies that a command has written.
func rootCommand() *cobra.Command {
	root := &cobra.Command{Use: "gpuscaler", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Commands()...)
	root.AddCommand(policies.Commands()...)
	return root
}
