package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func pageCommand() *cobra.Command {
	f := leaderFlags{}
	c := &cobra.Command{
		Use:   "page",
		Short: "Open a way to the leader's page, for a browser on this machine",
		Long: `Find the leader's pod with your kubeconfig and forward its page to a port of this machine's loopback, until
Ctrl-C. It needs ` + "`list pods` and `create pods/portforward`" + ` in gpuscaler's namespace; whoever may do that sees
every namespace on the page.`,
		Example: `  gpuscaler page
  gpuscaler page -n gpuscaler-system --context prod`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			address, done, err := f.reach(c.Context())
			if err != nil {
				return err
			}
			defer done()
			fmt.Fprintf(c.OutOrStdout(), "%s/\nCtrl-C ends it\n", address)
			<-c.Context().Done()
			return nil
		},
	}
	f.register(c)
	return c
}
