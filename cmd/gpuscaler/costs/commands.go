// Package costs has the commands that report what GPUs cost: report, and audit for clusters without gpuscaler.
package costs

import "github.com/spf13/cobra"

// Commands returns the commands of the package.
func Commands() []*cobra.Command {
	return []*cobra.Command{reportCommand(), auditCommand()}
}
