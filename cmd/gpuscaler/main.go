// Command gpuscaler computes the replicas of GPU workloads, serves them to HPAs and KEDA, and explains them.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/controller"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/costs"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/evaluate"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/inspect"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/policies"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := commandline.Run(ctx, rootCommand(), os.Args[1:], os.Stdout, commandline.Stderr)
	stop()
	os.Exit(code)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: displayName(os.Args[0])},

		Use:   "gpuscaler",
		Short: "Scale GPU workloads by GPU utilization, queue depth and schedules",
		Long: `gpuscaler reads GPU utilization, queue depths and schedules, computes the replicas of each GPU workload, and
serves that target to HorizontalPodAutoscalers (as an external metric) and to KEDA (as an external scaler). It
explains every target.`,
		Example: `  gpuscaler demo                                       # simulate a cluster and show the page
  gpuscaler validate policies/                         # check policies before applying them
  gpuscaler explain team-chat/llama-chat --at 03:12    # explain the replicas at 03:12`,
		Version:       commandline.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, commands := range [][]*cobra.Command{
		controller.Commands(), inspect.Commands(), policies.Commands(), costs.Commands(), evaluate.Commands(), {versionCommand()},
	} {
		root.AddCommand(commands...)
	}
	hideEmptyDefaults(root)
	completeOutputs(root)
	return root
}

// displayName returns the command with which the user runs this program: "kubectl gpuscaler" if kubectl runs it as a plugin.
func displayName(program string) string {
	if strings.HasPrefix(filepath.Base(program), "kubectl-") {
		return "kubectl gpuscaler"
	}
	return "gpuscaler"
}

// outputs matches the values of the flag --output in its description.
var outputs = regexp.MustCompile(`\b(text|wide|json|yaml|html|csv|prom|svg)\b`)

// completeOutputs registers the shell completion for the values of the flag --output of a command and its subcommands.
func completeOutputs(c *cobra.Command) {
	if f := c.Flags().Lookup("output"); f != nil {
		var values []string
		for _, v := range outputs.FindAllString(f.Usage, -1) {
			if !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if err := c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // impossible, because the flag exists and has no completion yet
		}
	}
	for _, child := range c.Commands() {
		completeOutputs(child)
	}
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
