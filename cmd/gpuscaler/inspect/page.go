package inspect

import (
	"fmt"

	"github.com/spf13/cobra"
)

func pageCommand() *cobra.Command {
	f := leaderFlags{}
	c := &cobra.Command{
		Use:   "page",
		Short: "Forward the leader's page to this machine, for a browser",
		Long: `Find the leader's pod with your kubeconfig and forward its page to a loopback port of this machine, until
Ctrl-C. You need ` + "`list pods` and `create pods/portforward`" + ` in the namespace of gpuscaler. A user with these
rights sees all namespaces on the page.`,
		Example: `  gpuscaler page
  gpuscaler page -n gpuscaler-system --context prod`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			address, done, err := f.reach(c.Context())
			if err != nil {
				return err
			}
			defer done()
			fmt.Fprintf(c.OutOrStdout(), "%s/\nPress Ctrl-C to end the port-forward.\n", address)
			<-c.Context().Done()
			return nil
		},
	}
	f.register(c)
	return c
}
