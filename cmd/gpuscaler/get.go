package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// getOptions are the flags of `gpuscaler get`.
type getOptions struct {
	leader            leaderFlags
	all               bool
	namespace, output string
}

func getCommand() *cobra.Command {
	o := getOptions{}
	c := &cobra.Command{
		Use:   "get [NAME...]",
		Short: "List the targets of workloads",
		Long: `List the policies of a namespace with the target of each workload, its replicas and the rule that decided. The
namespace is -n, or the one of the kubeconfig's context; -A lists all namespaces. With --server it lists all
namespaces unless -n names one.

The command needs permission to list gpuscaler-explain.external.metrics.k8s.io in the namespace, which the role view
has, or to forward a port to the leader's page.`,
		Example: `  gpuscaler get -n team-chat
  gpuscaler get -A -o wide
  gpuscaler get -A -o json | jq -r '.[] | select(.degraded) | .policy'`,
		RunE:              func(c *cobra.Command, names []string) error { return o.run(c.Context(), names, c.OutOrStdout()) },
		ValidArgsFunction: o.complete,
	}
	o.leader.registerConnection(c)
	f := c.Flags()
	f.StringVar(&o.leader.namespace, "system-namespace", "gpuscaler-system", "namespace of gpuscaler")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the workloads; empty: the one of the kubeconfig's context")
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "workloads of all namespaces")
	f.StringVarP(&o.output, "output", "o", "text", "text, wide, json or yaml")
	return c
}

func (o *getOptions) run(ctx context.Context, names []string, out io.Writer) error {
	switch {
	case o.output != "text" && o.output != "wide" && o.output != "json" && o.output != "yaml":
		return fmt.Errorf("-o %q: use text, wide, json or yaml", o.output)
	case o.all && o.namespace != "":
		return fmt.Errorf("-A and -n %s contradict each other: use one of them", o.namespace)
	case o.all && len(names) > 0:
		return fmt.Errorf("-A lists all workloads: name %q with -n NAMESPACE", names[0])
	}
	found, err := o.list(ctx)
	if err != nil {
		return err
	}
	if found, err = choose(found, names); err != nil {
		return err
	}
	switch o.output {
	case "json":
		return writeJSON(out, found)
	case "yaml":
		text, err := yaml.Marshal(found)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	return o.table(found, out)
}

// list returns the explanations of the selected namespace, or of all namespaces.
func (o *getOptions) list(ctx context.Context) ([]explain.Explanation, error) {
	namespace := o.namespace
	if namespace == "" && !o.all && o.leader.server == "" {
		var err error
		flags := kubeFlags{o.leader.kubeconfig, o.leader.context}
		if _, err = flags.clientConfig(); err != nil {
			return nil, err
		}
		if namespace, _, err = flags.config().Namespace(); err != nil {
			return nil, err
		}
		o.namespace = namespace
	}
	e := explainOptions{leader: o.leader}
	if namespace != "" && o.leader.server == "" {
		if code, body, ok := o.leader.throughAPIServer(ctx, namespace+"/", nil); ok {
			return answered("", code, body)
		}
	}
	all, err := e.ask(ctx, "")
	if err != nil || namespace == "" {
		return all, err
	}
	found := []explain.Explanation{}
	for i := range all {
		if strings.HasPrefix(all[i].Policy, namespace+"/") {
			found = append(found, all[i])
		}
	}
	return found, nil
}

// choose returns the explanations with the given names, in the order of the names. Without names it returns all.
func choose(all []explain.Explanation, names []string) ([]explain.Explanation, error) {
	if len(names) == 0 {
		return all, nil
	}
	found := []explain.Explanation{}
next:
	for _, name := range names {
		for i := range all {
			if _, policy, _ := strings.Cut(all[i].Policy, "/"); policy == name || all[i].Policy == name {
				found = append(found, all[i])
				continue next
			}
		}
		return nil, fmt.Errorf("no policy %q: `gpuscaler get -A` lists all", name)
	}
	return found, nil
}

func (o *getOptions) table(all []explain.Explanation, out io.Writer) error {
	if len(all) == 0 {
		where := "in namespace " + o.namespace + ": use -A for all namespaces"
		if o.namespace == "" {
			where = "in any namespace"
		}
		_, err := fmt.Fprintf(out, "no policies %s\n", where)
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "POLICY\tTARGET\tCURRENT\tREADY\tMODE\tRULE\tSINCE")
	if o.output == "wide" {
		fmt.Fprint(t, "\tSCALED BY\tREASON")
	}
	fmt.Fprintln(t)
	for i := range all {
		e := &all[i]
		if e.At.IsZero() {
			fmt.Fprintf(t, "%s\t?\t?\t?\t%s\t-\t-", e.Policy, e.Mode)
		} else {
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\t%s", e.Policy, e.Target, e.Current, e.Ready, e.Mode, e.Binding,
				e.Since.Local().Format(time.DateTime))
		}
		if o.output == "wide" {
			fmt.Fprintf(t, "\t%s\t%s", scaledBy(e), reason(e))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func scaledBy(e *explain.Explanation) string {
	switch {
	case e.ScaledBy == nil:
		return "-"
	case e.ScaledBy.Exact:
		return e.ScaledBy.Kind + "/" + e.ScaledBy.Name
	}
	return e.ScaledBy.Kind + "/" + e.ScaledBy.Name + " (not exact)"
}

// reason returns why there is no decision, or else the cause of the target.
func reason(e *explain.Explanation) string {
	if e.NotDecided != "" {
		return e.NotDecided
	}
	return e.Why
}

// completionTimeout is the maximum time of the request for names, because the user's shell waits for it.
const completionTimeout = 3 * time.Second

// complete returns the names of policies for the completion in a shell.
func (o *getOptions) complete(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	all, err := o.list(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := []string{}
	for i := range all {
		if _, name, found := strings.Cut(all[i].Policy, "/"); found {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completePolicies returns the names of all policies, as NAMESPACE/NAME, for the completion in a shell.
func (f *leaderFlags) completePolicies(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	all, err := (&explainOptions{leader: *f}).ask(ctx, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := []string{}
	for i := range all {
		names = append(names, all[i].Policy)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
