package tune

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// WriteText writes the result for a terminal.
func (r *Result) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s: %s\n", r.Policy, r.verdict())
	fmt.Fprintf(t, "SLO: %.4g%% of requests wait at most %s; searched on %s, chosen on the next %s, reported on the last %s\n", 100*r.SLO,
		time.Duration(r.Wait*float64(time.Second)), r.Search.Traffic, r.Choose.Traffic, r.Report.Traffic)
	fmt.Fprintln(t, "\nPART\tPOLICY\tSLO\tON TIME\tCOST\tP99\tMAX WAIT")
	r.Search.write(t, "search", r.Chosen)
	r.Choose.write(t, "choice", r.Chosen)
	r.Report.write(t, "report", r.Chosen)
	if r.Found {
		fmt.Fprintln(t, "\nKNOB\tBEFORE\tAFTER")
		for _, k := range r.Changes {
			after := k.After
			if after == k.Before {
				after = "as before"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", k.Name, k.Before, after)
		}
	}
	if len(r.Checks) > 0 {
		fmt.Fprintln(t, "\nSELECTION: the cheapest settings that meet the SLO on the searched part are checked on the choice part; if they "+
			"miss it there, the")
		fmt.Fprintf(t, "next ones have at most %.0f%% of their late requests on the searched part, or cost %.0f%% more without late requests; "+
			"at most %d settings are checked\n\n", 100*nextLateShare, 100*(nextCostFactor-1), maxChecked)
		fmt.Fprintln(t, "TRIED\tSEARCH: ON TIME\tCOST\tCHOICE: SLO\tON TIME\tCOST")
		for i, c := range r.Checks {
			fmt.Fprintf(t, "%d\t%.2f%%\t$%.3f\t%s\t%.2f%%\t$%.3f\n", i+1, 100*c.SearchedOnTime, c.SearchedCost,
				met(c.Meets), 100*c.ChoiceOnTime, c.ChoiceCost)
		}
	}
	return t.Flush()
}

// verdict returns the result in one sentence.
func (r *Result) verdict() string {
	after, before := &r.Report.After, &r.Report.Before
	switch {
	case r.Found && before.MeetsSLO && after.Cost < before.Cost:
		return fmt.Sprintf("settings were found that meet the SLO on all parts, and cost %.1f%% less on the report "+
			"part", 100*(1-after.Cost/before.Cost))
	case r.Found && before.MeetsSLO:
		return "settings were found that meet the SLO on all parts; on the report part they do not cost less than the current settings"
	case r.Found:
		return "settings were found that meet the SLO on all parts; the current settings miss it on the report part"
	case r.Chosen:
		return "the chosen settings miss the SLO on the report part, so they are not reliable; the policy is not changed"
	case r.Checked == 0:
		return fmt.Sprintf("none of %d settings meets the SLO on the searched part; the policy is not changed", r.Tried)
	}
	return fmt.Sprintf("none of the %d settings checked on the choice part, of %d searched, meets the SLO there; the policy is not "+
		"changed", r.Checked, r.Tried)
}

func met(meets bool) string {
	if meets {
		return "meets"
	}
	return "misses SLO"
}

// write prints the results on one part of the traffic: a row for the current settings and, if settings were chosen, a row for these.
func (p *Part) write(w io.Writer, name string, chosen bool) {
	line := func(policy string, run *evaluate.Run) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f%%\t$%.3f\t%.1fs\t%.1fs\n",
			name, policy, met(run.MeetsSLO), 100*run.OnTime, run.Cost, run.Wait.P99, run.Wait.Max)
	}
	line("before", &p.Before)
	if chosen {
		line("after", &p.After)
	}
}
