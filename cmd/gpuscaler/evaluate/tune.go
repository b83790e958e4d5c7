package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tune"
)

// tuneOptions are the flags of `gpuscaler tune`.
type tuneOptions struct {
	caseFlags
	heldOut float64
	output  string
	file    string
}

func tuneCommand() *cobra.Command {
	o := tuneOptions{}
	c := &cobra.Command{
		Use:   "tune --config FILE --requests FILE",
		Short: "Search for the policy settings that meet the SLO at the lowest cost",
		Long: `Search the policy's targets, windows, tolerances and cooldown on the first part of recorded traffic, on all
cores, and select the cheapest settings that meet the SLO there and on the last part, which the search does not use.
Bounds, schedules and formulas are not changed. --file names the output file for the tuned policy; comments are kept.
The exit code is 1 if no settings meet the SLO on both parts.`,
		Example: `  gpuscaler tune --config chat.yaml --requests week.csv.gz --slo 0.99:10s
  gpuscaler tune --config chat.yaml --requests week.csv.gz --held-out 0.4 --file chat.tuned.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	f := c.Flags()
	o.register(f)
	f.Float64Var(&o.heldOut, "held-out", 0.3, "share of the traffic, at its end, that the search does not use: the first half of it "+
		"chooses the settings, the second half is for the report")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.StringVar(&o.file, "file", "", "output file for the tuned policy; empty: not written")
	return c
}

func (o *tuneOptions) run(ctx context.Context, out, notes io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %q: use text or json", o.output)
	}
	if !(o.heldOut > 0 && o.heldOut < 1) {
		return fmt.Errorf("--held-out %g: use a share above 0 and below 1", o.heldOut)
	}
	cases, err := o.open(ctx, notes)
	if err != nil {
		return err
	}
	if len(cases) > 1 {
		return errors.New("--requests: tune accepts one workload")
	}
	parts, err := o.split(ctx, cases[0])
	if err != nil {
		return err
	}
	bar := commandline.NewProgress(notes)
	r, err := tune.Search(ctx, parts, func(runs, of int, best evaluate.Run) {
		bar.Report(fmt.Sprintf("%d settings tried; best: %.2f%% on time at $%.2f", runs, 100*best.OnTime, best.Cost), min(1,
			float64(runs)/float64(of)))
	})
	bar.End()
	if err != nil {
		return err
	}
	if err := o.write(r); err != nil {
		return err
	}
	if o.output == "json" {
		err = commandline.WriteJSON(out, r)
	} else {
		err = r.WriteText(out)
	}
	if err == nil && !r.Found {
		return commandline.ErrReported
	}
	return err
}

// split divides the traffic into three parts by time. On the part Search, many values are tried. The time after Search is divided into two
// halves: on the first half, Choose, the best of these values are compared to select one; on the second half, Report, the selected values
// are measured for the report.
func (o *tuneOptions) split(ctx context.Context, whole evaluate.Case) (p tune.Parts, err error) {
	_, files, err := o.recordings()
	if err != nil {
		return p, err
	}
	begin, length := o.trace.options.From, float64(whole.Traffic.Duration)
	at := func(share float64) time.Duration { return begin + time.Duration(length*share) }
	first, second := at(1-o.heldOut), at(1-o.heldOut/2)
	for _, part := range []struct {
		c        *evaluate.Case
		from, to time.Duration
	}{{&p.Search, begin, first}, {&p.Choose, first, second}, {&p.Report, second, o.trace.options.To}} {
		source := o.trace
		source.options.From, source.options.To = part.from, part.to
		*part.c = whole
		if part.c.Traffic, err = source.open(ctx, files[0]); err != nil {
			return p, err
		}
	}
	return p, nil
}

// write writes a copy of the policy file with the tuned values to the path of --file.
func (o *tuneOptions) write(r *tune.Result) error {
	if o.file == "" || !r.Found {
		return nil
	}
	if len(o.policies) != 1 {
		return fmt.Errorf("--file: give exactly one --config file")
	}
	text, err := os.ReadFile(o.policies[0])
	if err != nil {
		return err
	}
	if text, err = r.Rewrite(text); err != nil {
		return err
	}
	return os.WriteFile(o.file, text, 0o644)
}
