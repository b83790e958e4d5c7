// Command gpuscaler computes the replicas of GPU workloads, serves them to HPAs and KEDA, and explains them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// version is set by the linker.
var version = "dev"

// stderr is standard error without control characters, because messages can contain text of other programs. Commands write their results to
// cobra's OutOrStdout, which main filters as well.
var stderr = printable.NewWriter(os.Stderr)

// errReported makes the process exit with an error without printing one, because the command has printed it already.
var errReported = errors.New("reported")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runCommandLine(ctx, os.Args[1:], os.Stdout, stderr)
	stop()
	os.Exit(code)
}

// exitInterrupted is the exit code of a command that Ctrl-C ended: 128 plus the number of SIGINT, as in shells.
const exitInterrupted = 130

// runCommandLine runs a command line and returns the exit code.
func runCommandLine(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	out := &resultWriter{to: stdout}
	root.SetOut(printable.NewWriter(out))
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("write the result: %w", out.err)
	}
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) { // Ctrl-C, not an error of a request
		fmt.Fprintln(stderr, "cancelled")
		return exitInterrupted
	}
	if !errors.Is(err, errReported) {
		fmt.Fprintln(stderr, "gpuscaler:", err)
	}
	return 1
}

// resultWriter writes the result of a command and keeps the first error. Without it a full disk would go unnoticed where a command
// ignores the error of fmt.Fprintf, and CI would accept the incomplete output.
type resultWriter struct {
	to  io.Writer
	err error
}

func (r *resultWriter) Write(p []byte) (int, error) {
	n, err := r.to.Write(p)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "gpuscaler",
		Short: "Scale GPU workloads by GPU utilization, queue depth and schedules",
		Long: `gpuscaler reads GPU utilization, queue depths and schedules, computes the replicas of each GPU workload, and
serves that target to HorizontalPodAutoscalers (as an external metric) and to KEDA (as an external scaler). It
explains every target.`,
		Example: `  gpuscaler demo                                       # simulate a cluster and show the page
  gpuscaler validate policies/                         # check policies before applying them
  gpuscaler explain team-chat/llama-chat --at 03:12    # explain the replicas at 03:12`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), demoCommand())
	root.AddCommand(checkCommand(), validateCommand(), lintCommand(), importCommand(), manifestsCommand())
	root.AddCommand(traceCommand(), replayCommand(), adviseCommand(), tuneCommand())
	root.AddCommand(getCommand(), explainCommand(), pageCommand(), reportCommand(), auditCommand())
	root.AddCommand(capacityCommand(), restoreCommand(), versionCommand())
	hideEmptyDefaults(root)
	return root
}

// hideEmptyDefaults removes "(default [])" from the help of map flags that are empty by default.
func hideEmptyDefaults(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "stringToString" && f.DefValue == "[]" {
			f.DefValue = ""
		}
	})
	for _, child := range c.Commands() {
		hideEmptyDefaults(child)
	}
}
