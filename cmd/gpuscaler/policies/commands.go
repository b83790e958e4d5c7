// Package policies has the commands for writing and checking policies and manifests: validate, lint, import and manifests.
package policies

import "github.com/spf13/cobra"

// Commands returns the commands of the package.
func Commands() []*cobra.Command {
	return []*cobra.Command{validateCommand(), lintCommand(), importCommand(), manifestsCommand()}
}
