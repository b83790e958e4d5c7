// Command gpuscaler computes the replicas of GPU workloads, serves them to HPAs and KEDA, and explains them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// version is set by the linker.
var version = "dev"

// stderr cleans text that other programs wrote. Commands write their results to cobra's OutOrStdout, which main cleans as well.
var stderr = printable.NewWriter(os.Stderr)

// errReported ends a command that has printed its error already.
var errReported = errors.New("reported")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := rootCommand()
	root.SetOut(printable.NewWriter(os.Stdout))
	if err := root.ExecuteContext(ctx); err != nil {
		if !errors.Is(err, errReported) {
			fmt.Fprintln(stderr, "gpuscaler:", err)
		}
		os.Exit(1)
	}
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
	root.AddCommand(validateCommand(), lintCommand(), importCommand(), manifestsCommand())
	root.AddCommand(traceCommand(), replayCommand(), tuneCommand())
	root.AddCommand(explainCommand(), pageCommand(), reportCommand())
	root.AddCommand(capacityCommand(), restoreCommand())
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
