// Package controller has the commands that change a cluster: `gpuscaler run`, which connects all packages of the controller, and `gpuscaler
// restore`, which removes the changes of a controller from NodePools, even if the controller does not run.
package controller

import "github.com/spf13/cobra"

// Commands returns the commands of the package.
func Commands() []*cobra.Command {
	return []*cobra.Command{runCommand(), restoreCommand()}
}
