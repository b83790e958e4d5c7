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
	fmt.Fprintf(t, "SLO: %.4g%% of requests wait at most %s; searched on %s, held out and never searched: the %s after them\n", 100*r.SLO,
		time.Duration(r.Wait*float64(time.Second)), r.Search.Traffic, r.HeldOut.Traffic)
	fmt.Fprintln(t, "\nPART\tPOLICY\tSLO\tON TIME\tCOST\tP99\tMAX WAIT")
	r.Search.write(t, "searched", r.Found)
	r.HeldOut.write(t, "held out", r.Found)
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
		fmt.Fprintln(t, "\nHOW IT WAS CHOSEN: the cheapest that keeps the SLO on the searched part is tried on the held-out part; where it fails there, the")
		fmt.Fprintf(t, "cheapest that makes at most %.0f%% of its late requests on the searched part, or none at %.0f%% more, and so on, %d settings at most\n\n", 100*closer, 100*(dearer-1), mostChecked)
		fmt.Fprintln(t, "TRIED\tSEARCHED: ON TIME\tCOST\tHELD OUT: SLO\tON TIME\tCOST")
		for i, c := range r.Checks {
			fmt.Fprintf(t, "%d\t%.2f%%\t$%.3f\t%s\t%.2f%%\t$%.3f\n", i+1, 100*c.SearchedOnTime, c.SearchedCost, met(c.Meets), 100*c.HeldOutOnTime, c.HeldOutCost)
		}
	}
	return t.Flush()
}

// verdict is the sentence that a reader takes away.
func (r *Result) verdict() string {
	after, before := &r.HeldOut.After, &r.HeldOut.Before
	switch {
	case r.Found && before.MeetsSLO && after.Cost < before.Cost:
		return fmt.Sprintf("settings were found that keep the SLO on both parts, and cost %.1f%% less on the held-out part", 100*(1-after.Cost/before.Cost))
	case r.Found && before.MeetsSLO:
		return "settings were found that keep the SLO on both parts; on the held-out part they cost no less than those that stand"
	case r.Found:
		return "settings were found that keep the SLO on both parts; those that stand miss it on the held-out part"
	case r.Checked == 0:
		return fmt.Sprintf("none of %d settings keeps the SLO even on the searched part; nothing is changed", r.Tried)
	}
	return fmt.Sprintf("none of the %d settings that were tried on the held-out part, of %d searched, keeps the SLO there; nothing is changed", r.Checked, r.Tried)
}

func met(meets bool) string {
	if meets {
		return "meets"
	}
	return "misses SLO"
}

// write is a part's lines: with what was found only where something was.
func (p *Part) write(w io.Writer, name string, found bool) {
	line := func(policy string, run *evaluate.Run) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f%%\t$%.3f\t%.1fs\t%.1fs\n", name, policy, met(run.MeetsSLO), 100*run.OnTime, run.Cost, run.Wait.P99, run.Wait.Max)
	}
	line("before", &p.Before)
	if found {
		line("after", &p.After)
	}
}
