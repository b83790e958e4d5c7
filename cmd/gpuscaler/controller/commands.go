// Package controller has the commands that act on a cluster: run, which connects all parts of the controller, and restore, which removes
// what a controller changed on NodePools, even if that controller no longer runs.
package controller

import "github.com/spf13/cobra"

// Commands returns the commands of the package.
func Commands() []*cobra.Command {
	return []*cobra.Command{runCommand(), restoreCommand()}
}
