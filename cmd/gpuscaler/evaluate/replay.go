package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/record"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// replayOptions are the flags of `gpuscaler replay`.
type replayOptions struct {
	caseFlags
	reportFlags
	verify string
	folds  evaluate.Folds
}

func replayCommand() *cobra.Command {
	o := replayOptions{}
	c := &cobra.Command{
		Use:   "replay --config FILE --requests FILE",
		Short: "Replay recorded traffic and compare a policy with other autoscalers and with a lower bound on cost",
		Long: `Run the engine of the controller on recorded traffic in a simulated cluster, and report cost, waits and whether
the SLO is met. --baselines adds runs of HPA, KEDA and others with their defaults and tuned; --bound adds a
lower bound on the cost of any policy. A run that misses the SLO is never reported as the cheapest. All
assumptions are printed.

Several workloads run in one cluster, and each has its own SLO: give all policies with --config, and the traffic
of each workload with --requests NAMESPACE/NAME=FILE. The lower bounds are added.

With --held-out 0.3 all results cover the last 30% of the traffic, the report part. Each run starts with the part before
it, the train part: there the policies learn, and the settings of tuned runs are searched.

With --fail-if the exit code is 1 if a condition is true, so that a CI pipeline fails. A condition is NAME<NUMBER, with
<, <=, > or >=. Names:
  ` + strings.Join(evaluate.GateNames(), "\n  "),
		Example: `  gpuscaler replay --config chat.yaml --requests requests.csv --baselines all --bound
  gpuscaler replay --config chat.yaml --requests requests.csv --baselines hpa-queue,keda -o html --file report.html
  gpuscaler replay --config chat.yaml --requests requests.csv.gz --fail-if 'slo<0.99' --fail-if 'p99>30s' -o json
  gpuscaler replay --config policies/ --requests team/chat=chat.csv --requests team/embed=embed.csv --slo 99%:10s --slo team/embed=95%:2m
  gpuscaler replay --config chat.yaml --requests week.csv.gz --held-out 0.3 --baselines all --bound
  gpuscaler replay --config chat.yaml --requests week.csv.gz --held-out 0.2 --folds 3 --seeds 2 --baselines hpa-queue,keda
  gpuscaler replay --config chat.yaml --prometheus http://127.0.0.1:9090 --query 'sum(rate(gateway_requests_total[1m]))' --start -7d
  gpuscaler replay --verify recording.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	f := c.Flags()
	o.caseFlags.register(f)
	o.reportFlags.register(f)
	c.AddCommand(replayBenchCommand(), replayScenarioCommand(), spotBenchCommand())
	f.IntVar(&o.folds.Count, "folds", 1, "number of report parts of the length --held-out, one before another; the output has the mean of "+
		"each run and its 90% confidence interval")
	f.IntVar(&o.folds.Seeds, "seeds", 1, "number of seeds in each fold, from --seed on")
	f.StringVar(&o.verify, "verify", "", "recompute the decisions of the recording in `FILE`, written by run --record, and fail at the "+
		"first difference; --config supplies formulas")
	return c
}

// verifyRecording recomputes the decisions of a recording and reports differences. A recording does not contain formulas, so
// verifyRecording reads the formulas from the policy files in policies.
func verifyRecording(path string, policies []string, out io.Writer) error {
	store := store.New(store.Options{})
	if len(policies) > 0 {
		if problems := store.Load(policies...).Problems; policy.Errors(problems) > 0 {
			return fmt.Errorf("--config:\n%s", strings.TrimSpace(policy.Render(problems)))
		}
	}
	v, err := record.VerifyFiles(path, func(key string) scaling.Formula {
		for _, w := range store.Current() {
			if w.Key.String() == key {
				return w.Policy.Formula
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if v.Decisions+v.Groups == 0 && len(v.LeftOut) == 0 {
		return fmt.Errorf("%s: no complete tick in the recording, so no decision was recomputed", path)
	}
	slices.Sort(v.LeftOut)
	for _, key := range slices.Compact(v.LeftOut) {
		fmt.Fprintf(out, "skipped: %s has a formula, and recordings do not contain formulas; add its policy file with --config\n", key)
	}
	groups := ""
	if v.Groups > 0 {
		groups = fmt.Sprintf(", and %d for capacity groups,", v.Groups)
	}
	fmt.Fprintf(out, "%d decisions in %d ticks%s from %s to %s are identical\n", v.Decisions, v.Ticks, groups,
		v.From.Format(time.RFC3339), v.To.Format(time.RFC3339))
	return nil
}

func (o *replayOptions) run(ctx context.Context, out, progress io.Writer) error {
	if o.verify != "" {
		return verifyRecording(o.verify, o.policies, out)
	}
	if err := o.prepare(); err != nil {
		return err
	}
	cases, err := o.open(ctx, progress)
	if err != nil {
		return err
	}
	if o.folds != (evaluate.Folds{Count: 1, Seeds: 1}) {
		return o.runFolds(ctx, cases, out, progress)
	}
	bar := commandline.NewProgress(progress)
	r, err := evaluate.Workloads(ctx, o.asked(cases), bar.Report)
	bar.End()
	if err != nil {
		return err
	}
	return o.write(out, progress, r)
}

// runFolds evaluates the cases in several folds (parts of the trace) and with several seeds, and writes the means.
func (o *replayOptions) runFolds(ctx context.Context, cases []evaluate.Case, out, progress io.Writer) error {
	switch {
	case o.output == "html":
		return errors.New("-o html with --folds or --seeds: use text or json")
	case len(o.gates) > 0:
		return errors.New("--fail-if with --folds or --seeds: a condition is about one evaluation")
	}
	bar := commandline.NewProgress(progress)
	r, err := o.folds.Evaluate(ctx, o.asked(cases), bar.Report)
	bar.End()
	if err != nil {
		return err
	}
	return commandline.ToFile(o.file, out, func(w io.Writer) error {
		if o.output == "json" {
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			return encoder.Encode(r)
		}
		return r.WriteText(w)
	})
}
