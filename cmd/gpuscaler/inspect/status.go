package inspect

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// workloadStatus is the result of `gpuscaler status`.
type workloadStatus struct {
	Workloads int       `json:"workloads"`
	Attention []problem `json:"attention"`
}

// problem is a workload that needs attention.
type problem struct {
	Policy string `json:"policy"`
	Cause  string `json:"cause"`
}

func statusCommand() *cobra.Command {
	o := getOptions{}
	c := &cobra.Command{
		Use:   "status",
		Short: "Count the workloads and list each workload that needs attention",
		Long: `Count the workloads, and list each workload that needs attention with the cause: no decision, missing signals, replicas that
restart or are rejected, a target that is not served, a pause or an override. ` + "`gpuscaler explain`" + ` has the details of one
workload, and ` + "`gpuscaler check`" + ` checks the installation.

The command lists all namespaces, or the one of -n, and needs the same permissions as ` + "`gpuscaler get`" + `.`,
		Example: `  gpuscaler status
  gpuscaler status -n team-chat -o json | jq -r '.attention[].policy'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.status(c) },
	}
	o.leader.registerConnection(c)
	f := c.Flags()
	f.StringVar(&o.leader.namespace, "system-namespace", "gpuscaler-system", "namespace of gpuscaler")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the workloads; empty: all namespaces")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	return c
}

func (o *getOptions) status(c *cobra.Command) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %q: use text or json", o.output)
	}
	o.all = o.namespace == ""
	all, err := o.list(c.Context())
	if err != nil {
		return err
	}
	s := workloadStatus{Workloads: len(all), Attention: []problem{}}
	for i := range all {
		if cause := attention(&all[i]); cause != "" {
			s.Attention = append(s.Attention, problem{all[i].Policy, cause})
		}
	}
	if o.output == "json" {
		return commandline.WriteJSON(c.OutOrStdout(), s)
	}
	return s.write(c.OutOrStdout())
}

func (s *workloadStatus) write(out io.Writer) error {
	all := commandline.Count(s.Workloads, "workload")
	_, err := fmt.Fprintf(out, "%s: %d without a problem\n", all, s.Workloads-len(s.Attention))
	if err != nil || len(s.Attention) == 0 {
		return err
	}
	rows := [][]string{{"POLICY", "NEEDS ATTENTION"}}
	for _, p := range s.Attention {
		rows = append(rows, []string{p.Policy, p.Cause})
	}
	return commandline.WriteTable(out, commandline.TerminalWidth(), rows)
}

// attention returns why a workload needs attention, and "" if it needs none. If there are several causes, it returns the most severe cause.
func attention(e *explain.Explanation) string {
	switch {
	case e.NotDecided != "":
		return e.NotDecided
	case e.Rejected > 0:
		return fmt.Sprintf("%s rejects the pods of %s: %s", e.Rejection.By(), commandline.Count(int(e.Rejected), "replica"), e.Rejection.Text)
	case e.Crashing > 0:
		return fmt.Sprintf("%s in a loop of restarts, for example the pod %s", commandline.Count(int(e.Crashing), "replica"), e.CrashingPod)
	case e.Degraded:
		return "the target cannot decrease, because signals are missing: " + strings.Join(missing(e), ", ")
	case e.Operator != nil:
		return e.Operator.Text(time.Local)
	case e.Served != "" && e.Served != "served" && e.Mode != "advisory":
		return e.Served
	case e.ScaledBy != nil && !e.ScaledBy.Exact:
		return scaledBy(e)
	}
	return ""
}

// missing returns the names of the signals without a value, each with the cause in the same text.
func missing(e *explain.Explanation) (names []string) {
	for i := range e.Signals {
		switch s := &e.Signals[i]; {
		case s.Value != nil:
		case s.Cause != "":
			names = append(names, s.Name+" ("+s.Cause+")")
		default:
			names = append(names, s.Name)
		}
	}
	return names
}
