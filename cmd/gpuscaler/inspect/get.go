package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// getOptions are the flags of `gpuscaler get`.
type getOptions struct {
	leader            leaderFlags
	all, watch        bool
	namespace, output string
	interval          time.Duration
}

func getCommand() *cobra.Command {
	o := getOptions{}
	c := &cobra.Command{
		Use:   "get [NAME...]",
		Short: "List the targets of workloads",
		Long: `List the policies of a namespace with the target of each workload, its replicas and the rule that decided. The
namespace is -n, or the one of the kubeconfig's context; -A lists all namespaces. With --server it lists all
namespaces unless -n names one. -w prints the table, and then a row each time the target, the replicas, the mode or the
rule of a workload changes, until Ctrl-C.

The command needs permission to list gpuscaler-explain.external.metrics.k8s.io in the namespace, which the role view
has, or to forward a port to the leader's page.`,
		Example: `  gpuscaler get -n team-chat
  gpuscaler get -A -o wide
  gpuscaler get -n team-chat -w
  gpuscaler get -A -o json | jq -r '.[] | select(.degraded) | .policy'`,
		RunE: func(c *cobra.Command, names []string) error {
			return o.run(c.Context(), names, c.OutOrStdout(), c.ErrOrStderr())
		},
		ValidArgsFunction: o.complete,
	}
	o.leader.registerConnection(c)
	f := c.Flags()
	f.StringVar(&o.leader.namespace, "system-namespace", "gpuscaler-system", "namespace of gpuscaler")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the workloads; empty: the one of the kubeconfig's context")
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "workloads of all namespaces")
	f.StringVarP(&o.output, "output", "o", "text", "text, wide, json or yaml")
	f.BoolVarP(&o.watch, "watch", "w", false, "after the list, print each change until Ctrl-C; with -o json one line for each object")
	f.DurationVar(&o.interval, "interval", 2*time.Second, "with -w: time between two reads")
	return c
}

func (o *getOptions) run(ctx context.Context, names []string, out, problems io.Writer) error {
	if err := o.validate(names); err != nil {
		return err
	}
	found, err := o.chosen(ctx, names)
	switch {
	case err != nil:
		return err
	case o.watch:
		return o.follow(ctx, names, found, &watchOutput{rows: out, problems: problems, form: o.output})
	}
	switch o.output {
	case "json":
		return commandline.WriteJSON(out, found)
	case "yaml":
		text, err := yaml.Marshal(found)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	return o.table(found, out)
}

// validate returns an error for arguments and flags that contradict each other.
func (o *getOptions) validate(names []string) error {
	switch {
	case o.output != "text" && o.output != "wide" && o.output != "json" && o.output != "yaml":
		return fmt.Errorf("-o %q: use text, wide, json or yaml", o.output)
	case o.all && o.namespace != "":
		return fmt.Errorf("-A and -n %s contradict each other: use one of them", o.namespace)
	case o.all && len(names) > 0:
		return fmt.Errorf("-A lists all workloads: name %q with -n NAMESPACE", names[0])
	case o.watch && o.output == "yaml":
		return errors.New("-w -o yaml: use text, wide or json")
	case o.watch && o.interval <= 0:
		return fmt.Errorf("--interval %s: use a duration above 0", o.interval)
	}
	return nil
}

// chosen returns the explanations with the given names in the selected namespace, or all explanations of that namespace if no names are
// given.
func (o *getOptions) chosen(ctx context.Context, names []string) ([]explain.Explanation, error) {
	found, err := o.list(ctx)
	if err != nil {
		return nil, err
	}
	return choose(found, names)
}

// list returns the explanations of the selected namespace, or of all namespaces.
func (o *getOptions) list(ctx context.Context) ([]explain.Explanation, error) {
	namespace := o.namespace
	if namespace == "" && !o.all && o.leader.server == "" {
		var err error
		flags := commandline.Kube{Kubeconfig: o.leader.kubeconfig, Context: o.leader.context}
		if _, err = flags.ClientConfig(); err != nil {
			return nil, err
		}
		if namespace, _, err = flags.Loader().Namespace(); err != nil {
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
		_, err := fmt.Fprintln(out, o.none())
		return err
	}
	rows := [][]string{header(o.output)}
	for i := range all {
		rows = append(rows, cells(&all[i], o.output))
	}
	return commandline.WriteTable(out, commandline.TerminalWidth(), rows)
}

// none returns the message that is printed if no policy is found.
func (o *getOptions) none() string {
	if o.namespace == "" {
		return "no policies in any namespace"
	}
	return "no policies in namespace " + o.namespace + ": use -A for all namespaces"
}

func header(form string) []string {
	columns := []string{"POLICY", "TARGET", "CURRENT", "READY", "MODE", "RULE", "SINCE"}
	if form == "wide" {
		columns = append(columns, "SCALED BY", "REASON")
	}
	return columns
}

// cells returns the columns of one policy. "?" replaces the numbers of a policy without a decision. The form "wide" has two more columns.
func cells(e *explain.Explanation, form string) []string {
	row := []string{e.Policy, "?", "?", "?", e.Mode, "-", "-"}
	if !e.At.IsZero() {
		number := func(n int32) string { return strconv.Itoa(int(n)) }
		row = []string{e.Policy, number(e.Target), number(e.Current), number(e.Ready), e.Mode, e.Binding, e.Since.Local().Format(time.DateTime)}
	}
	if form == "wide" {
		row = append(row, scaledBy(e), reason(e))
	}
	return row
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

// completionTimeout is the maximum time of the request for the names of policies. It is short, because the user's shell waits for the
// names.
const completionTimeout = 3 * time.Second

// complete returns the names of the policies in the selected namespace for the completion in a shell.
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
