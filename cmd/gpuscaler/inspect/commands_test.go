package inspect

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
)

// rootCommand returns a root command with the commands of this package.
func rootCommand() *cobra.Command {
	root := &cobra.Command{Use: "gpuscaler", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Commands()...)
	return root
}

// runLine runs a command line, and returns the exit code, standard output and standard error.
func runLine(t *testing.T, args ...string) (code int, out, problem string) {
	t.Helper()
	return commandtest.Run(t, rootCommand(), args...)
}
