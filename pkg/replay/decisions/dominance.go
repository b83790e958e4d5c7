package decisions

import (
	"fmt"
	"io"
	"slices"
)

// result is the score of a policy, with the name of the policy.
type result struct {
	name string
	score
}

// online returns the results of the policies that do not know the scored part in advance.
func (c *cell) online() []result {
	return []result{{"the objective", c.learned}, {"the default baseline", c.Standard}}
}

// chosenInHindsight returns the results of the baselines whose settings are chosen on the scored part itself. These baselines know more
// about the scored part than the oracle, so they can dominate the oracle.
func (c *cell) chosenInHindsight() []result {
	out := []result{{"the static fleet", c.Static}}
	if c.TunedMet {
		out = append(out, result{"the tuned baseline", c.Tuned})
	}
	return out
}

// dominating returns the results that dominate the oracle: they have less late work than the oracle, at less cost.
func (c *cell) dominating(results []result) (out []result) {
	for _, r := range results {
		if r.Late < c.Oracle.Late && r.Cost < c.Oracle.Cost {
			out = append(out, r)
		}
	}
	return out
}

// lucky reports whether one of the results has exactly as much late work as the oracle, at less cost. This can happen if the scored part
// has no burst: the oracle has replicas for bursts, because it does not know that none will occur.
func (c *cell) lucky(results []result) bool {
	return slices.ContainsFunc(results, func(r result) bool { return r.Late == c.Oracle.Late && r.Cost < c.Oracle.Cost })
}

// warn prints a line for each policy that dominates the oracle. The oracle knows more than these policies, so none of them should dominate
// it.
func (c *cell) warn(w io.Writer) {
	for _, r := range c.dominating(c.online()) {
		fmt.Fprintln(w, c.warning(r))
	}
}

// warning returns the text about a result that dominates the oracle.
func (c *cell) warning(r result) string {
	return fmt.Sprintf("warning: %s, seed %d, cold start %v, wait %v, %v%%: %s attains %.3f%% at %.4f of the cost of the oracle, "+
		"which attains %.3f%%", c.family, c.seed, c.cold, c.wait, c.percentile, r.name, 100*(1-r.lateShare()), r.Cost/c.Oracle.Cost,
		100*(1-c.Oracle.lateShare()))
}
