package scenario

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteText writes the report for a terminal. A workload that misses its SLO says so beside every saving.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n\n", r.Name, r.Words)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tCOST\tSPOT\tON-DEMAND\tGPU-HOURS\tSERVING\tSPOT LOSSES")
	for _, side := range []struct {
		name string
		s    *Side
	}{{"gpuscaler", &r.Scaled}, {"static", &r.Static}} {
		fmt.Fprintf(t, "%s\t$%.2f\t$%.2f\t$%.2f\t%.1f\t%.0f%%\t%d\n", side.name, side.s.Cost, side.s.CostBy["spot"], side.s.Cost-side.s.CostBy["spot"],
			side.s.GPUHours, 100*side.s.Productive, side.s.SpotLosses)
	}
	fmt.Fprintln(t, "\nWORKLOAD\tSLO\tON TIME\tSTATIC\tP99 WAIT\tREQUESTS\tSTARTS\tAT ZERO")
	missed := 0
	for i := range r.By {
		row := &r.By[i]
		verdict := "meets"
		if !row.Meets() {
			verdict = "misses"
			missed++
		}
		fmt.Fprintf(t, "%s\t%s %g%% in %gs\t%.2f%%\t%.2f%%\t%.1fs\t%d\t%d\t%.1fh of %.0fh\n", row.Policy, verdict, 100*row.Share, row.Wait,
			100*row.OnTime, 100*row.OnTimeStatic, row.P99, row.Arrived, row.Starts, row.AtZero, r.For)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := "every workload keeps its SLO"
	if missed > 0 {
		verdict = fmt.Sprintf("but %d of %d workloads miss their SLO, so this is no saving", missed, len(r.By))
	}
	_, err := fmt.Fprintf(w, "\n%.0f%% less than the static fleets; %s\n", 100*r.Saved, verdict)
	return err
}
