package inspect

import (
	"bytes"
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
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
	var stdout, stderr bytes.Buffer
	code = commandline.Run(t.Context(), rootCommand(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
