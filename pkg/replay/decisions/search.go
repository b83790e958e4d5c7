package decisions

import "math"

// oracleSearch searches the settings of the oracle on siblings: other traces that are drawn from the same law (random distribution).
type oracleSearch struct {
	siblings []*run
	s        setup
	values   [5][]float64              // the values of each setting, in the order of oracleSettings
	known    map[oracleSettings]*trial // trials (settings with their scores) that were made so far
}

func newOracleSearch(siblings []*run, s setup, bursts bool) *oracleSearch {
	cold := float64(s.cold)
	out := &oracleSearch{siblings: siblings, s: s, known: map[oracleSettings]*trial{}, values: [5][]float64{
		{-1, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8}, {0}, {0}, {0, cold / 2, cold, 4 * cold}, {0}}}
	if !bursts {
		return out
	}
	out.values[2], out.values[4] = []float64{0, cold, 4 * cold}, []float64{0, cold / 4, cold}
	fleet := int32(0)
	for _, r := range siblings {
		n, _ := smallestStatic(r, s, 0)
		fleet = max(fleet, n)
	}
	for _, share := range []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1} {
		if n := math.Round(share * float64(fleet)); n > out.values[1][len(out.values[1])-1] {
			out.values[1] = append(out.values[1], n)
		}
	}
	return out
}

// trial returns the trial (settings with their scores) of the settings with the given indices in values.
func (q *oracleSearch) trial(at [5]int) *trial {
	v := func(i int) float64 { return q.values[i][at[i]] }
	o := oracleSettings{v(0), int32(v(1)), int(v(2)), int(v(3)), int(v(4))}
	if q.known[o] == nil {
		q.known[o] = &trial{oracleSettings: o}
	}
	return q.known[o]
}

// together contains pairs of settings whose best values depend on each other. A setting is an index in values. best tries all combinations
// of the values of a pair.
var together = [][2]int{{0, 3}, {1, 2}, {0, 4}}

// best returns the cheapest settings with which at most half of the allowed share of the work is late in every sibling. If there are none,
// best returns the settings with the least late work. Only half of the allowed share is used, because the siblings do not contain every
// burst that the law permits.
//
// best changes two settings at a time while the result improves. It starts twice: first with settings that keep no replicas for bursts, and
// then with a fixed number of replicas that serves all bursts.
func (q *oracleSearch) best(allowed float64) oracleSettings {
	var best *trial
	for _, start := range [][5]int{{10, 0, 0, 1, 0}, {3, len(q.values[1]) - 1, 0, 1, 0}} {
		var here *trial
		for improved := q.better(q.trial(start), &here, allowed/2); improved; {
			improved = false
			for _, pair := range together {
				next := start
				for next[pair[0]] = range q.values[pair[0]] {
					for next[pair[1]] = range q.values[pair[1]] {
						if q.better(q.trial(next), &here, allowed/2) {
							start, improved = next, true
						}
					}
				}
			}
		}
		q.better(here, &best, allowed/2)
	}
	return best.oracleSettings
}

// trial contains settings of the oracle and their scores on the first siblings.
type trial struct {
	oracleSettings
	scores []score
}

func (t *trial) total() (worst, cost float64) {
	for _, s := range t.scores {
		worst, cost = max(worst, s.lateShare()), cost+s.Cost
	}
	return worst, cost
}

// better replaces best with t, and returns true, in one of two cases: t meets the allowed share of late work in every sibling and costs
// less than best, or best does not meet this share and t has less late work. The late work of a trial is its greatest share of late work in
// a sibling. better simulates t on further siblings only until the result is certain.
func (q *oracleSearch) better(t *trial, best **trial, allowed float64) bool {
	for {
		worst, cost := t.total()
		if *best != nil {
			worstBest, costBest := (*best).total()
			if worstBest <= allowed && (worst > allowed || cost >= costBest) || worstBest > allowed && worst >= worstBest {
				return false
			}
		}
		n := len(t.scores)
		if n == len(q.siblings) {
			*best = t
			return true
		}
		r := q.siblings[n]
		first := max(r.from-hour-8*q.s.cold, 0)
		t.scores = append(t.scores, simulatePart(r, q.s, newOracle(t.oracleSettings, r, q.s, first), first))
	}
}
