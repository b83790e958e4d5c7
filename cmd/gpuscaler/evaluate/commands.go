// Package evaluate has the commands that simulate policies without a cluster, on recorded or generated traffic: demo, trace, replay, advise
// and tune. The controller does not import this package.
package evaluate

import "github.com/spf13/cobra"

// Commands returns the commands of the package.
func Commands() []*cobra.Command {
	return []*cobra.Command{demoCommand(), traceCommand(), replayCommand(), adviseCommand(), tuneCommand()}
}
