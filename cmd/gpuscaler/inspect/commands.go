// Package inspect has the commands that read a cluster or an installed release and change nothing: get, status, explain, page, check and
// capacity.
package inspect

import "github.com/spf13/cobra"

// Commands returns the commands of the package.
func Commands() []*cobra.Command {
	return []*cobra.Command{getCommand(), statusCommand(), explainCommand(), pageCommand(), checkCommand(), capacityCommand()}
}
