package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/advise"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// adviseOptions are the flags of `gpuscaler advise`.
type adviseOptions struct {
	caseFlags
	budget float64
	most   int32
	output string
	file   string
	given  func(flag string) bool // reports whether the user set a flag
}

func adviseCommand() *cobra.Command {
	o := adviseOptions{}
	c := &cobra.Command{
		Use:   "advise --requests FILE",
		Short: "Show which objective is attainable at which cost, and print the policy for it",
		Long: `Replay recorded traffic with policies that have an objective, for each number of warm replicas (minReplicas), and
report the share of the requests on time and the cost per day. The cheapest policy that attains the SLO is printed, ready
to apply. A lower bound shows what any policy must cost.

Several --slo are in the order of preference: the first that is attained is recommended. With --budget it must also cost
at most that much a day; without --slo these are then 99.9%, 99%, 95% and 90% of the requests within 10 s.

--config names the policy whose signals, schedules and other fields are kept; its minReplicas and objective are replaced.
Without --config it is a new one for vLLM servers. Zero warm replicas need a signal that exists at zero replicas, such as
the queue of a gateway. State the service time of your replicas: --slots and --service-fixed, or the --service-per-...-token
flags.

Each replay begins without learned values, so the cost of the first hours is higher than later. The traffic of a day or
more gives the best result. The exit code is 1 if no SLO is attained; the report then has the reason.`,
		Example: `  gpuscaler advise --requests day.csv --slo 99%:10s --slots 8 --service-fixed 5s
  gpuscaler advise --config chat.yaml --requests week.csv.gz --budget 400 -o yaml > chat.advised.yaml
  gpuscaler advise --policy-name team/chat --prometheus http://127.0.0.1:9090 --query 'sum(rate(gateway_requests_total[1m]))' \
    --start -7d --service-fixed 4s --slo 99%:10s --slo 95%:30s
  gpuscaler advise --config chat.yaml --requests day.csv -o json | jq '.objectives[].cheapest.costPerDay'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.given = c.Flags().Changed
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	o.register(f)
	f.Lookup("config").Usage += "; empty: a new policy for vLLM servers"
	f.Lookup("policy-name").Usage = "NAMESPACE/NAME of the policy; required if the files contain several"
	f.Lookup("requests").Usage = "recorded traffic: CSV, JSON lines, windowed rates, Prometheus; also .gz"
	f.Lookup("slo").Usage = "share of the requests, and the longest time that these may wait, as `SHARE:WAIT`; may be repeated, with the " +
		"preferred one first"
	f.Float64Var(&o.budget, "budget", 0, "highest cost in $ per day; not set: no limit")
	f.Int32Var(&o.most, "max-replicas", 0, "maxReplicas of the policy; 0: as in --config, or one and a half times what the busiest minute "+
		"needs")
	f.StringVarP(&o.output, "output", "o", "text", "text, json, or yaml for the policy only")
	f.StringVar(&o.file, "file", "", "output file for the recommended policy; empty: not written")
	return c
}

// budgetSLOs contains the SLOs that advise tries if the user gives only a budget. An SLO is the share of the requests that must start
// within a time.
var budgetSLOs = []string{"99.9%:10s", "99%:10s", "95%:10s", "90%:10s"}

func (o *adviseOptions) run(ctx context.Context, out, notes io.Writer) error {
	in, err := o.input()
	if err != nil {
		return err
	}
	source, err := o.open(notes)
	if err != nil {
		return err
	}
	defer source.close()
	_, files, err := o.recordings()
	if err != nil {
		return err
	}
	if in.Case.Traffic, err = o.trace.open(ctx, files[0]); err != nil {
		return err
	}
	in.Compile = source.compile
	if in.MaxReplicas = source.most; o.most > 0 {
		in.MaxReplicas = o.most
	}
	if in.MaxReplicas == 0 {
		in.MaxReplicas = advise.MaxReplicasFor(&in.Case)
	}
	bar := commandline.NewProgress(notes)
	r, err := advise.Search(ctx, in, bar.Report)
	bar.End()
	if err != nil {
		return err
	}
	return o.write(out, r, source)
}

// input returns the settings of the search that the flags define, without traffic and policy. It reads no file, so that wrong flags are
// reported before wrong files.
func (o *adviseOptions) input() (in advise.Input, err error) {
	switch {
	case o.output != "text" && o.output != "json" && o.output != "yaml":
		return in, fmt.Errorf("-o %q: use text, json or yaml", o.output)
	case o.given("budget") && !(o.budget > 0 && !math.IsInf(o.budget, 1)):
		return in, fmt.Errorf("--budget %v: use a number above 0, in $ per day", o.budget)
	case o.most < 0:
		return in, fmt.Errorf("--max-replicas %d: use 1 or more, or omit the flag", o.most)
	case len(o.requests) > 1:
		return in, errors.New("--requests: advise accepts one workload")
	}
	texts := o.slos
	if o.given("budget") && !o.given("slo") {
		texts = budgetSLOs
	}
	for _, text := range texts {
		slo, err := evaluate.ParseSLO(text)
		if err != nil {
			return in, fmt.Errorf("--slo %w", err)
		}
		in.SLOs = append(in.SLOs, slo)
	}
	in.Budget = o.budget
	in.Case, err = o.simulation()
	return in, err
}

// write prints the result. It returns commandline.ErrReported if no policy is recommended.
func (o *adviseOptions) write(out io.Writer, r *advise.Result, source *candidates) error {
	if r.Recommended != nil {
		text, err := source.document.With(r.Recommended.Setting())
		if err != nil {
			return err
		}
		r.Document = fmt.Sprintf("# gpuscaler advise: %s\n%s", r.Summary(), text)
	}
	if o.file != "" && r.Document != "" {
		if err := os.WriteFile(o.file, []byte(r.Document), 0o644); err != nil {
			return err
		}
	}
	var err error
	switch o.output {
	case "json":
		err = commandline.WriteJSON(out, r)
	case "yaml":
		if r.Recommended == nil {
			return errors.New(strings.Join(r.Reasons(), "\n"))
		}
		_, err = io.WriteString(out, r.Document)
	default:
		err = r.WriteText(out)
	}
	if err == nil && r.Recommended == nil {
		return commandline.ErrReported
	}
	return err
}
