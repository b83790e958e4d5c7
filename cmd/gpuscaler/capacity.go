package main

import (
	"bytes"
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/cluster"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

func capacityCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "capacity",
		Short: "What gpuscaler does to NodePools",
		Long: `Capacity groups are NodePools that stand for one another. gpuscaler nudges their limits, weight and
disruption where both sides agree: the PlatformConfig names the NodePool, and the NodePool carries the
annotation gpuscaler.io/nudge with the fields that it hands over.`,
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
		Short: "What would be changed on NodePools, as a diff; nothing is written",
		Long: `Decide for every capacity group of --config exactly as the controller would, on what the cluster shows
now (or on files), and print what would be changed on its NodePools within --for if nothing else
happened. Nothing is written, and no controller is asked.

Each workload is taken to want the replicas that it has: a plan shows what nodes are done to, not what
signals would make of the replicas. A line says which rule wants a change and when it would come; what
is in the way (a field that is not handed over, what keeps an empty node) is listed with it.`,
		Example: `  gpuscaler capacity plan --config platform.yaml --config policies/
  gpuscaler capacity plan --config platform.yaml --for 12h -o json | jq '.groups[].changes'
  kubectl get nodepools,nodeclaims,nodes,pods,deployments -A --show-managed-fields -o yaml > now.yaml
  gpuscaler capacity plan --config platform.yaml --config policies/ --from now.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringArrayVar(&o.config, "config", nil, "file or directory of policies and the PlatformConfig; may be given several times")
	f.StringArrayVar(&o.from, "from", nil, "file with what kubectl get -o yaml (or json) printed, instead of a live cluster; may be given several times")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: as kubectl finds it, else the cluster that we run in")
	f.DurationVar(&o.ahead, "for", 15*time.Minute, "how far to look ahead, at most 24h")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	_ = c.MarkFlagRequired("config")
	return c
}

func (o *planOptions) run(ctx context.Context, out io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %q: want text or json", o.output)
	}
	if o.ahead < 0 || o.ahead > 24*time.Hour {
		return fmt.Errorf("--for %s: want at most 24h", o.ahead)
	}
	store := policy.NewStore(policy.Options{})
	report := store.Load(o.config...)
	if policy.Errors(report.Problems) > 0 {
		fmt.Fprint(stderr, policy.Render(report.Problems))
		return errors.New("mend that first")
	}
	if len(store.Groups()) == 0 {
		return errors.New("the PlatformConfig has no capacityGroups: there is nothing to plan")
	}
	seen, done, err := o.see(ctx, store)
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

// see reads the cluster, or the files that stand for it.
func (o *planOptions) see(ctx context.Context, store *policy.Store) (seen *cluster.Cluster, done func(), err error) {
	options := cluster.Options{
		Policies: store, Groups: store, Leading: func() bool { return false }, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Hourly: func(o cost.Offer) float64 { return store.Platform().Hourly(o.InstanceType, o.CapacityType) },
	}
	if len(o.from) > 0 {
		objects, err := objectsIn(o.from)
		if err != nil {
			return nil, nil, err
		}
		seen, err = cluster.Offline(objects, options)
		return seen, func() {}, err
	}
	kube, err := (&kubeFlags{kubeconfig: o.kubeconfig}).config().ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: %w; give --kubeconfig, or --from with files", err)
	}
	if seen, err = cluster.New(kube, options); err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- seen.Run(ctx) }()
	limit := time.After(readWithin)
	for !seen.Synced() {
		select {
		case err := <-ended:
			stop()
			return nil, nil, fmt.Errorf("cluster: %w", err)
		case <-limit:
			stop()
			return nil, nil, fmt.Errorf("the cluster could not be read within %s; plan needs list and watch of pods, deployments, nodes, events, nodepools and nodeclaims", readWithin)
		case <-ctx.Done():
			stop()
			return nil, nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return seen, stop, nil
}

const readWithin = time.Minute

// objectsIn reads the objects of files; Lists are opened.
func objectsIn(files []string) (all []*unstructured.Unstructured, err error) {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			u := &unstructured.Unstructured{}
			if err := d.Decode(&u.Object); err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			switch {
			case len(u.Object) == 0:
			case u.IsList():
				list, err := u.ToList()
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				for i := range list.Items {
					all = append(all, &list.Items[i])
				}
			default:
				all = append(all, u)
			}
		}
	}
	return all, nil
}

// text is the plan for people.
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
			b.WriteString("\n  in the way or worth knowing:\n")
			for _, f := range g.Findings {
				fmt.Fprintf(&b, "  ! %s\n", f)
			}
		}
		b.WriteString("\n")
	}
	for _, line := range p.Released {
		fmt.Fprintf(&b, "no group names it any more: %s\n", line)
	}
	return b.String()
}
