// Command gpuscaler decides how many replicas GPU workloads should have, serves that number to HPAs and KEDA, and explains it.
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

// stderr is for text that contains what others wrote. Commands write their output to cobra's OutOrStdout, which main cleans as well.
var stderr = printable.NewWriter(os.Stderr)

// errReported ends a command whose output has said what is wrong already.
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
		Short: "Replicas for GPU workloads from GPU utilization, queue depth and the calendar",
		Long: `gpuscaler reads GPU utilization, queue depths and schedules, decides how many replicas each
GPU workload should have, and serves that number to HorizontalPodAutoscalers (as an external
metric) and to KEDA (as an external scaler). Every number is explained.`,
		Example: `  gpuscaler demo                                       # see it work, without a cluster
  gpuscaler validate policies/                         # before a policy is applied
  gpuscaler explain team-chat/llama-chat --at 03:12    # why it had so many replicas`,
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

// hideEmptyDefaults keeps "(default [])" out of the help of a map that is empty unless given.
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
