package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cluster"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

func capacityCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "capacity",
		Short: "Show what gpuscaler changes on NodePools",
		Long: `A capacity group is a set of NodePools that can replace each other. gpuscaler sets their limits, weight and
disruption only where both sides agree: the PlatformConfig names the NodePool, and the NodePool has the
annotation gpuscaler.io/nudge, which lists the fields that gpuscaler may set.`,
		Example: `  kubectl annotate nodepool l40s-spot gpuscaler.io/nudge=limits,weight,disruption
  gpuscaler capacity plan --config platform.yaml --config policies/`,
	}
	c.AddCommand(capacityPlanCommand())
	return c
}

// planOptions are the flags of `gpuscaler capacity plan`.
type planOptions struct {
	config, from       []string
	kubeconfig, output string
	ahead              time.Duration
}

func capacityPlanCommand() *cobra.Command {
	o := planOptions{}
	c := &cobra.Command{
		Use:   "plan --config PATH",
		Short: "Print the planned NodePool changes as a diff; write nothing",
		Long: `Print the NodePool changes that the controller would make in the next --for, if the replicas and the nodes do not change.
The command decides for each capacity group of --config as the controller does. It reads the cluster, or files. It writes
nothing and does not contact the controller.

Each line names the rule that makes the change, and the time of the change. The plan also lists fields that gpuscaler may
not set, and what prevents the removal of empty nodes.`,
		Example: `  gpuscaler capacity plan --config platform.yaml --config policies/
  gpuscaler capacity plan --config platform.yaml --for 12h -o json | jq '.groups[].changes'
  kubectl get nodepools,nodeclaims,nodes,pods,deployments -A --show-managed-fields -o yaml > now.yaml
  gpuscaler capacity plan --config platform.yaml --config policies/ --from now.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout()) },
	}
	f := c.Flags()
	commandline.Config(f, &o.config, "")
	f.StringArrayVar(&o.from, "from", nil, "file with the output of kubectl get -o yaml (or json), used instead of a live cluster; may be "+
		"repeated")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: the default of kubectl, else the cluster of this pod")
	f.DurationVar(&o.ahead, "for", 15*time.Minute, "time to look ahead, at most 24h")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	_ = c.MarkFlagRequired("config")
	return c
}

func (o *planOptions) run(ctx context.Context, out io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %q: use text or json", o.output)
	}
	if o.ahead < 0 || o.ahead > 24*time.Hour {
		return fmt.Errorf("--for %s: use at most 24h", o.ahead)
	}
	store := store.New(store.Options{})
	report := store.Load(o.config...)
	if policy.Errors(report.Problems) > 0 {
		fmt.Fprint(commandline.Stderr, policy.Render(report.Problems))
		return errors.New("fix the errors above first")
	}
	if len(store.Groups()) == 0 {
		return errors.New("the PlatformConfig has no capacityGroups: there is nothing to plan")
	}
	seen, done, err := o.load(ctx, store)
	if err != nil {
		return err
	}
	defer done()
	plan := makePlan(ctx, store, seen, o.ahead)
	if o.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(plan)
	}
	_, err = io.WriteString(out, plan.text())
	return err
}

// load returns the observed state, read from the cluster or from the files of --from. It waits until the caches are synced. The caller must
// call done to stop the caches.
func (o *planOptions) load(ctx context.Context, store *store.Store) (seen *cluster.Cluster, done func(), err error) {
	options := cluster.Options{
		Policies: store, Groups: store, Leading: func() bool { return false }, Log: slog.New(slog.NewTextHandler(os.Stderr,
			&slog.HandlerOptions{Level: slog.LevelWarn})),
		Hourly: func(o cost.Offer) float64 { return store.Platform().Hourly(o.InstanceType, o.CapacityType) },
	}
	if len(o.from) > 0 {
		objects, err := commandline.ReadObjects(o.from)
		if err != nil {
			return nil, nil, err
		}
		seen, err = cluster.Offline(objects, options)
		return seen, func() {}, err
	}
	kube, err := (&commandline.Kube{Kubeconfig: o.kubeconfig}).ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: %w; give --kubeconfig, or --from with files", err)
	}
	if seen, err = cluster.New(kube, options); err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- seen.Run(ctx) }()
	limit := time.After(readTimeout)
	for !seen.Synced() {
		select {
		case err := <-ended:
			stop()
			return nil, nil, fmt.Errorf("cluster: %w", err)
		case <-limit:
			stop()
			return nil, nil, fmt.Errorf("reading the cluster took longer than %s; check that you may list and watch pods, "+
				"deployments, nodes, events, nodepools and nodeclaims", readTimeout)
		case <-ctx.Done():
			stop()
			return nil, nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return seen, stop, nil
}

const readTimeout = time.Minute

// text returns the planned changes of NodePools as text.
func (p *capacityPlan) text() string {
	var b strings.Builder
	for i := range p.Groups {
		g := &p.Groups[i]
		mode := ""
		if g.Advisory {
			mode = ", advisory: nothing is written"
		}
		fmt.Fprintf(&b, "capacity group %s (%s%s)\n", g.Name, g.Phase, mode)
		for _, r := range g.Reasons {
			fmt.Fprintf(&b, "  %s\n", r)
		}
		if len(g.Changes) == 0 {
			fmt.Fprintf(&b, "  no change within %s\n", p.For)
		}
		object := ""
		for _, c := range g.Changes {
			if c.Object != object {
				object = c.Object
				fmt.Fprintf(&b, "\n  %s\n", object)
			}
			when := "now"
			if c.In > 0 {
				when = "in " + c.In.String()
			}
			fmt.Fprintf(&b, "  - %s: %s\n  + %s: %s   # %s, %s\n", c.Field, c.From, c.Field, c.To, c.Rule, when)
		}
		if len(g.Findings) > 0 {
			b.WriteString("\n  obstacles and notes:\n")
			for _, f := range g.Findings {
				fmt.Fprintf(&b, "  ! %s\n", f)
			}
		}
		b.WriteString("\n")
	}
	for _, line := range p.Released {
		fmt.Fprintf(&b, "no longer in any capacity group: %s\n", line)
	}
	return b.String()
}
