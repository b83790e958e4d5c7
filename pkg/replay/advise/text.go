package advise

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteText writes the result for a terminal: a sentence and a table for each SLO, and the recommended policy.
func (r *Result) WriteText(w io.Writer) error {
	out := &strings.Builder{}
	cold := "cold start from the phases of the simulator"
	if r.ColdStart > 0 {
		cold = "cold start " + span(r.ColdStart)
	}
	fmt.Fprintf(out, "%s: %s in %s; %s, %s per GPU hour, %s per replica, maxReplicas %d\n", r.Traffic.Name,
		counted(r.Traffic.Requests, "request"), span(r.Traffic.Duration), cold, dollars(r.Hourly),
		counted(int64(r.GPUs), "GPU"), r.MaxReplicas)
	for _, line := range r.Warnings {
		fmt.Fprintln(out, "WARNING ", line)
	}
	for i := range r.Answers {
		r.Answers[i].write(out, r)
	}
	if r.Recommended != nil {
		a := &r.Answers[r.SLO]
		fmt.Fprintf(out, "\nRecommended for %s: minReplicas %d and percentile %s, about %s a day.\n", a.name(), r.Recommended.MinReplicas,
			strings.TrimSuffix(percent(r.Recommended.Percentile), "%"), dollars(r.Recommended.CostPerDay))
	} else {
		fmt.Fprint(out, "\nNo policy is recommended, because no SLO is attained")
		if r.Budget > 0 {
			fmt.Fprintf(out, " within %s a day", dollars(r.Budget))
		}
		fmt.Fprintln(out, ".")
	}
	if r.Document != "" {
		fmt.Fprint(out, "\n", r.Document)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Summary returns the recommendation in one line, or "" if no candidate is recommended.
func (r *Result) Summary() string {
	if r.Recommended == nil {
		return ""
	}
	return fmt.Sprintf("%s at about %s a day; %s were on time in the replay of %s", r.Answers[r.SLO].name(),
		dollars(r.Recommended.CostPerDay), share(r.Recommended.OnTime), counted(r.Traffic.Requests, "request"))
}

// Reasons returns a sentence for each SLO that is not attained within the budget.
func (r *Result) Reasons() (out []string) {
	for i := range r.Answers {
		if r.Answers[i].Why != nil {
			out = append(out, r.Answers[i].Sentence())
		}
	}
	return out
}

// name returns the SLO in words: 99% within 10s.
func (a *Answer) name() string {
	return percent(100*a.SLO.Share) + " within " + span(a.SLO.Wait)
}

// Sentence returns the answer in one or two sentences.
func (a *Answer) Sentence() string {
	text := a.name()
	switch fewest, best := a.Fewest(), a.Cheapest; {
	case best == nil:
		return text + " is not attained: " + a.Why.Text + ". Next: " + a.Why.Next + "."
	case best.MinReplicas == fewest.MinReplicas:
		text += fmt.Sprintf(" needs minReplicas %d, about %s a day", best.MinReplicas, dollars(best.CostPerDay))
	default:
		text += fmt.Sprintf(" is cheapest with minReplicas %d, about %s a day; minReplicas %d also attains it, at %s", best.MinReplicas,
			dollars(best.CostPerDay), fewest.MinReplicas, dollars(fewest.CostPerDay))
	}
	if below := a.below(); below != nil {
		text += fmt.Sprintf("; with %d, %s are on time at %s a day", below.MinReplicas, share(below.OnTime), dollars(below.CostPerDay))
	}
	if a.Why != nil {
		text += ". This is not within the budget: " + a.Why.Text + ". Next: " + a.Why.Next
	}
	return text + "."
}

// below returns the candidate that shows why no lower minReplicas than in Fewest attains the SLO. Of the candidates with a lower
// minReplicas, it is the candidate with the highest minReplicas, and then with the most requests on time. below returns nil if there is no
// such candidate. Fewest must not return nil.
func (a *Answer) below() (out *Candidate) {
	fewest := a.Fewest()
	for i := range a.Candidates {
		c := &a.Candidates[i]
		if c.Refused != "" || c.MinReplicas >= fewest.MinReplicas {
			continue
		}
		if out == nil || c.MinReplicas > out.MinReplicas || c.MinReplicas == out.MinReplicas && c.OnTime > out.OnTime {
			out = c
		}
	}
	return out
}

func (a *Answer) write(out *strings.Builder, r *Result) {
	fmt.Fprintf(out, "\n%s\n", a.Sentence())
	if a.Certificate.Problem == "" {
		fmt.Fprintf(out, "No policy can attain it for less than %s a day (lower bound with the whole traffic known).\n",
			dollars(a.Certificate.CostPerDay))
	} else if a.Cheapest != nil {
		fmt.Fprintf(out, "There is no lower bound: %s.\n", a.Certificate.Problem)
	}
	if f := a.Fleet; f != nil {
		fmt.Fprintf(out, "On this traffic a fixed number of %s also attains it, for %s a day: minReplicas %d and maxReplicas %d.\n",
			counted(int64(f.MinReplicas), "replica"), dollars(f.CostPerDay), f.MinReplicas, f.MinReplicas)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MIN REPLICAS\tPERCENTILE\tSLO\tON TIME\tCOST/DAY\tMEAN REPLICAS\tWAIT P99\tLONGEST WAIT\tNOTE")
	var refusals []string
	for i := range a.Candidates {
		c := &a.Candidates[i]
		if c.Refused != "" {
			refusals = append(refusals, fmt.Sprintf("minReplicas %d is not valid: %s", c.MinReplicas, c.Refused))
			continue
		}
		met := "misses"
		if a.attains(c) {
			met = "meets"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%.2f\t%.1fs\t%.1fs\t%s\n", c.MinReplicas, strings.TrimSuffix(percent(c.Percentile), "%"), met,
			share(c.OnTime), dollars(c.CostPerDay), c.Replicas, c.P99, c.Longest, a.note(c, r))
	}
	t.Flush()
	for _, line := range slices.Compact(refusals) {
		fmt.Fprintln(out, line)
	}
}

// note returns the remark at the end of a candidate's row in the table, for example that the candidate is recommended.
func (a *Answer) note(c *Candidate, r *Result) string {
	var notes []string
	if r.Recommended != nil && &r.Answers[r.SLO] == a && c.setting == r.Recommended.setting {
		notes = append(notes, "recommended")
	}
	switch {
	case c.AtZero > 0:
		notes = append(notes, fmt.Sprintf("at zero for %s of the time", share(c.AtZero)))
	case c.untested():
		notes = append(notes, "never at zero")
	}
	if r.Budget > 0 && c.CostPerDay > r.Budget {
		notes = append(notes, "above the budget")
	}
	return strings.Join(notes, "; ")
}
