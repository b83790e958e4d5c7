package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
)

func versionCommand() *cobra.Command {
	output := "text"
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: `Print the version of this program, of Go, and the platform for which it was built. The version of an installed
release is the tag of its image: kubectl -n gpuscaler-system get deploy gpuscaler -o wide`,
		Example: `  gpuscaler version
  gpuscaler version -o json | jq -r .version`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			switch output {
			case "json":
				return commandline.WriteJSON(c.OutOrStdout(), map[string]string{
					"version": commandline.Version, "go": runtime.Version(), "platform": platform})
			case "text":
				_, err := fmt.Fprintf(c.OutOrStdout(), "gpuscaler %s (%s, %s)\n", commandline.Version, runtime.Version(), platform)
				return err
			}
			return fmt.Errorf("-o %q: use text or json", output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", output, "text or json")
	return c
}
