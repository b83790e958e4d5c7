package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/confidence"
)

// Folds are several evaluations of the same cases: on report parts at several places of the traffic, and with several seeds. Fold number i,
// from 0, ends i report parts before the end of the traffic, so the report parts do not overlap. Its train part is all traffic before its
// report part.
type Folds struct {
	Count int // number of folds; with 1, the only report part is the end of the traffic
	Seeds int // number of seeds in each fold: the seed of the cases and the seeds after it
}

// FoldReport contains the means over the folds. The seeds of a fold have the same traffic, so an interval is computed from the means of the
// folds. With one fold, it is computed from the seeds.
type FoldReport struct {
	Policy  string    `json:"policy"`
	Traffic string    `json:"traffic"`
	HeldOut float64   `json:"heldOut,omitempty"` // length of each report part as a share of the traffic
	Folds   int       `json:"folds"`
	Seeds   int       `json:"seeds"`
	Runs    []FoldRun `json:"runs"` // gpuscaler first
}

// FoldRun is one run, for example of a baseline, over all folds and seeds.
type FoldRun struct {
	Name    string              `json:"name"`
	Variant string              `json:"variant"`
	Met     int                 `json:"met"` // number of evaluations in which the run meets the SLO, out of Of
	Of      int                 `json:"of"`
	OnTime  confidence.Interval `json:"onTime"`
	Cost    confidence.Interval `json:"cost"` // $
	// OverBound is the cost divided by the request-level bound, in the evaluations in which the run meets the SLO; absent without a bound.
	OverBound *confidence.Interval `json:"costOverRequestLevelBound,omitempty"`

	onTime, cost, over confidence.Groups
}

// check returns an error if the folds do not fit into the traffic.
func (f Folds) check(c *Case) error {
	var errs []error
	if f.Count < 1 || f.Seeds < 1 {
		errs = append(errs, fmt.Errorf("replay: %d folds and %d seeds: use at least 1", f.Count, f.Seeds))
	}
	switch {
	case f.Count > 1 && c.HeldOut == 0:
		errs = append(errs, errors.New("replay: folds need a held-out share, the length of each report part"))
	case f.Count > 1 && float64(f.Count)*c.HeldOut >= 1:
		errs = append(errs, fmt.Errorf("replay: %d folds with a held-out share of %v leave no train part: use a share below %.4f", f.Count,
			c.HeldOut, 1/float64(f.Count)))
	}
	return errors.Join(errs...)
}

// Evaluate runs the cases in each fold with each seed.
func (f Folds) Evaluate(ctx context.Context, cases []Case, progress Progress) (*FoldReport, error) {
	if err := f.check(&cases[0]); err != nil {
		return nil, err
	}
	out := &FoldReport{HeldOut: cases[0].HeldOut, Folds: f.Count, Seeds: f.Seeds}
	for fold := range f.Count {
		for seed := range f.Seeds {
			r, err := Workloads(ctx, f.part(cases, fold, uint64(seed)), progress)
			if err != nil {
				return nil, fmt.Errorf("fold %d, seed %d: %w", fold+1, cases[0].Seed+uint64(seed), err)
			}
			group := uint64(fold)
			if f.Count == 1 {
				group = uint64(seed)
			}
			out.add(r, group)
		}
	}
	for i := range out.Runs {
		run := &out.Runs[i]
		run.OnTime, run.Cost = run.onTime.Interval(), run.cost.Interval()
		if len(run.over) > 0 {
			over := run.over.Interval()
			run.OverBound = &over
		}
	}
	return out, nil
}

// part returns the cases for one fold and one seed.
func (f Folds) part(cases []Case, fold int, seed uint64) []Case {
	length := time.Duration(0)
	for i := range cases {
		length = max(length, cases[i].Horizon())
	}
	out := make([]Case, len(cases))
	for i := range cases {
		out[i] = cases[i]
		out[i].Seed += seed
		if left := 1 - float64(fold)*cases[i].HeldOut; fold > 0 {
			out[i].For = time.Duration(left * float64(length)).Round(slotLength)
			out[i].HeldOut = cases[i].HeldOut / left
		}
	}
	return out
}

// add adds the runs of a report to the results. A report that lacks a run, for example a clairvoyant run without a solution, does not count
// in the results of that run.
func (f *FoldReport) add(r *Report, group uint64) {
	f.Policy, f.Traffic = r.Policy, r.Traffic.Name
	for i := range r.Runs {
		from := &r.Runs[i]
		run := f.run(from.Name, from.Variant)
		if run.Of++; from.MeetsSLO {
			run.Met++
		}
		run.onTime.Add(group, from.OnTime)
		run.cost.Add(group, from.Cost)
		if from.CostOverRequest != nil {
			run.over.Add(group, *from.CostOverRequest)
		}
	}
}

func (f *FoldReport) run(name, variant string) *FoldRun {
	for i := range f.Runs {
		if f.Runs[i].Name == name && f.Runs[i].Variant == variant {
			return &f.Runs[i]
		}
	}
	f.Runs = append(f.Runs, FoldRun{Name: name, Variant: variant})
	return &f.Runs[len(f.Runs)-1]
}

// WriteText writes the means with their 90% intervals as a table.
func (f *FoldReport) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s: means over %d folds", f.Policy, f.Traffic, f.Folds)
	if f.HeldOut > 0 {
		fmt.Fprintf(w, " of %.4g%% of the traffic", 100*f.HeldOut)
	}
	fmt.Fprintf(w, " and %d seeds, with 90%% confidence intervals\n", f.Seeds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tVARIANT\tMEETS SLO\tON TIME\tCOST\tCOST/BOUND")
	for i := range f.Runs {
		r := &f.Runs[i]
		over := "-"
		if r.OverBound != nil {
			over = intervalText(*r.OverBound, "%.3f", 1)
		}
		fmt.Fprintf(t, "%s\t%s\t%d of %d\t%s\t$%s\t%s\n", r.Name, r.Variant, r.Met, r.Of, intervalText(r.OnTime, "%.3f%%", 100),
			intervalText(r.Cost, "%.2f", 1), over)
	}
	return t.Flush()
}

// intervalText returns a mean and half of its confidence interval, each multiplied by a factor.
func intervalText(i confidence.Interval, format string, factor float64) string {
	text := fmt.Sprintf(format, factor*i.Mean)
	if i.Half != nil {
		text += " +-" + fmt.Sprintf(format, factor**i.Half)
	}
	return text
}
