package decisions

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/confidence"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// grid describes the table: its rows (cells) are all combinations of its traffic families, seeds, cold starts, waits and percentiles.
type grid struct {
	families    []family
	seeds       []uint64
	colds       []time.Duration
	waits       []time.Duration
	percentiles []float64
	tuning      objective.Tuning
	sampled     bool                           // policies with the model read samples (learned.sampled)
	anchors     map[string]map[float64]anchors // results for comparison that were already computed
}

// cell is one row of the table: the results on one trace of one traffic family, with one cold start, one allowed wait and one percentile.
// The family and the seed determine the trace.
type cell struct {
	family     string
	seed       uint64
	cold, wait time.Duration
	percentile float64
	learned    score
	anchors
	rule string
}

func (c *cell) allowed() float64 { return allowedLate(c.percentile) }
func (c *cell) met(s score) bool { return s.lateShare() <= c.allowed() }

// siblings is the number of other traces, drawn from the same law with other seeds, on which the oracle is tuned.
const siblings = 3

// cells simulates all cells (rows of the table) of one family and one seed, and calls the function each for every cell.
func (g grid) cells(f family, seed uint64, each func(c *cell)) {
	l := f.newLaw(seed)
	r := l.realize(seed)
	drawn := l
	drawn.recorded = nil
	var others []*run
	for i := range uint64(siblings) {
		o := drawn.realize(seed + 1000*(i+1))
		o.capacity, o.changed = r.capacity, r.changed
		others = append(others, o)
	}
	for _, cold := range g.colds {
		for _, wait := range g.waits {
			s := newSetup(r, cold, wait)
			key := fmt.Sprintf("%s %d %v %v", f.name, seed, cold, wait)
			known, ok := g.anchors[key]
			if !ok {
				known = newAnchors(r, s, others, l.burst != nil, percentiles)
				g.anchors[key] = known
			}
			for _, percentile := range g.percentiles {
				c := cell{family: f.name, seed: seed, cold: cold, wait: wait, percentile: percentile, anchors: known[percentile]}
				policy := newLearned(r, s, percentile, g.tuning)
				policy.sampled = g.sampled
				c.learned = simulate(r, s, policy)
				c.rule = policy.ruleName()
				each(&c)
			}
		}
	}
}

// percentiles are the percentiles for which the results for comparison (anchors) are computed.
var percentiles = []float64{95, 99, 99.9}

// write prints the rows of all cells and the summaries.
func (g grid) write(w io.Writer, quiet bool) {
	header(w)
	var all summary
	for _, f := range g.families {
		var of summary
		for _, seed := range g.seeds {
			g.cells(f, seed, func(c *cell) {
				if !quiet {
					c.write(w)
				}
				c.warn(w)
				of.add(c)
				all.add(c)
			})
		}
		of.write(w, f.name)
	}
	all.write(w, "all")
}

// summary simulates all cells (rows of the table) and returns their summary.
func (g grid) summary() (all summary) {
	for _, f := range g.families {
		for _, seed := range g.seeds {
			g.cells(f, seed, all.add)
		}
	}
	return all
}

func newSetup(r *run, cold, wait time.Duration) setup {
	return setup{cold: int(cold / (SlotSeconds * time.Second)), wait: int(wait / (SlotSeconds * time.Second)),
		most: int32(min(1000, 4+3*math.Ceil(slices.Max(r.rate)*SlotSeconds/min(r.capacity, r.changed))))}
}

func header(w io.Writer) {
	fmt.Fprint(w, "cold: cold start, W: allowed wait, seconds; learned: % of the work within W; fleet: its mean replicas; its cost relative\n"+
		"to the smallest static fleet and the best reactive baseline in hindsight, the default reactive baseline, and the oracle (x: misses\n"+
		"the SLO); orcl-at: % that the oracle attains; result: aims that are missed, dominated: see the warnings; the rule that was used most.\n")
	fmt.Fprintf(w, "%-9s %4s %4s %3s %5s | %7s %6s | %6s %6s %6s %6s | %7s %s\n", "family", "seed", "cold", "W", "pct",
		"learned", "fleet", "static", "tuned", "deflt", "oracle", "orcl-at", "result")
}

func (c *cell) write(w io.Writer) {
	ratio := func(s score, met bool) string {
		if !met {
			return "x"
		}
		return fmt.Sprintf("%.2f", c.learned.Cost/s.Cost)
	}
	scored := c.Static.Cost / max(float64(c.Fleet), 1)
	fmt.Fprintf(w, "%-9s %4d %4.0f %3.0f %5.1f | %7.3f %6.2f | %6s %6s %6s %6s | %7.3f %-12s %s\n", c.family, c.seed,
		c.cold.Seconds(), c.wait.Seconds(), c.percentile, 100*(1-c.learned.lateShare()), c.learned.Cost/scored, ratio(c.Static, true),
		ratio(c.Tuned, c.TunedMet),
		ratio(c.Standard, c.met(c.Standard)), ratio(c.Oracle, true), 100*(1-c.Oracle.lateShare()), c.result(), c.rule)
}

// result returns text with the goals that this row of the table misses, or "" if it misses none.
func (c *cell) result() string {
	out := ""
	switch share := c.learned.lateShare(); {
	case c.met(c.learned):
	case c.met(c.Oracle):
		out += " slo"
	case share > 1.5*c.allowed():
		out += " late"
	}
	if c.TunedMet && c.met(c.learned) && c.learned.Cost > 1.1*c.Tuned.Cost {
		out += " tuned"
	}
	if c.met(c.learned) && c.met(c.Oracle) && c.learned.Cost > 1.1*c.Oracle.Cost {
		out += " oracle"
	}
	if len(c.dominating(c.online())) > 0 {
		out += " dominated"
	}
	if out == "" {
		return "ok"
	}
	return out[1:]
}

// summary contains the results of many cells (rows of the table).
type summary struct {
	cells, attainable, attained int
	// cost divided by the cost of the tuned baseline (baseline) and of the oracle (law), in the cells in which both policies meet the SLO
	baseline, law []float64
	seeds         confidence.Groups // the values of law, by seed
	lateExcess    []float64         // share of late work divided by the allowed share, in the cells in which the oracle misses the SLO
	// Number of cells in which a policy dominates the oracle (dominated), in which a policy has as much late work as the oracle at less cost
	// (lucky), and in which a baseline that is chosen in hindsight dominates the oracle (hindsight).
	dominated, lucky, hindsight int
}

func (m *summary) add(c *cell) {
	m.cells++
	if len(c.dominating(c.online())) > 0 {
		m.dominated++
	} else if c.lucky(c.online()) {
		m.lucky++
	}
	if len(c.dominating(c.chosenInHindsight())) > 0 {
		m.hindsight++
	}
	if c.met(c.Oracle) {
		m.attainable++
		if c.met(c.learned) {
			m.attained++
			m.law = append(m.law, c.learned.Cost/c.Oracle.Cost)
			m.seeds.Add(c.seed, c.learned.Cost/c.Oracle.Cost)
		}
	} else {
		m.lateExcess = append(m.lateExcess, c.learned.lateShare()/c.allowed())
	}
	if c.TunedMet && c.met(c.learned) {
		m.baseline = append(m.baseline, c.learned.Cost/c.Tuned.Cost)
	}
}

func (m *summary) write(w io.Writer, name string) {
	fmt.Fprintf(w, "%-9s SLO attained in %d of %d cells in which the oracle attains it (%.0f%%); ", name, m.attained, m.attainable,
		100*float64(m.attained)/max(float64(m.attainable), 1))
	for _, part := range []struct {
		name   string
		values []float64
	}{{"cost/tuned baseline", m.baseline}, {"cost/oracle", m.law}, {"late/allowed where the oracle misses", m.lateExcess}} {
		if len(part.values) > 0 {
			slices.SortFunc(part.values, cmp.Compare[float64])
			fmt.Fprintf(w, "%s median %.2f p90 %.2f worst %.2f (%d); ", part.name, quantile(part.values, 0.5), quantile(part.values, 0.9),
				part.values[len(part.values)-1], len(part.values))
		}
	}
	if len(m.seeds) > 0 {
		fmt.Fprintf(w, "cost/oracle %v", m.seeds)
	}
	fmt.Fprintf(w, "; the oracle is dominated in %d of %d cells (as much is attained at less cost in %d more; a baseline chosen "+
		"in hindsight dominates it in %d)\n", m.dominated, m.cells, m.lucky, m.hindsight)
}

func quantile(sorted []float64, q float64) float64 {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
