package decisions

import "math"

// oracleSettings are the settings of the oracle, which are tuned on other draws of the same law.
type oracleSettings struct {
	margin float64 // number of standard deviations of Poisson arrivals above the expected load
	hold   int     // number of slots for which the replicas of a burst are kept
	floor  float64 // the oracle always keeps replicas for this share (0..1) of the greatest load that it expects
}

// oracle is a policy that knows almost everything: the part of the rate that is known in advance, for every time; the present rate of this
// draw; the capacity of a replica; and the backlog. It does not know future bursts and arrivals.
type oracle struct {
	oracleSettings
	r     *run
	s     setup
	ahead []float64 // greatest rate known in advance between now+cold and now+2*cold, in units of work per slot
	peak  float64   // greatest work per slot, known from other draws of the same law
	held  slidingMax
}

func newOracle(o oracleSettings, r *run, s setup, ahead []float64, peak float64) *oracle {
	return &oracle{o, r, s, ahead, peak, newSlidingMax(o.hold)}
}

// lookAhead returns, for each slot, the greatest rate known in advance within the next two cold starts. A replica that is needed again
// within a cold start is kept, because stopping it and starting another one costs as much (the ski rental problem).
func lookAhead(r *run, s setup) []float64 {
	out, q := make([]float64, len(r.base)), newSlidingMin(2*s.cold+2)
	for t := len(r.base) - 1; t >= 0; t-- {
		q.push(-t, -int32(r.base[t]*SlotSeconds*1e4)) // as an integer, with a resolution of 1e-4 units of work
		q.expire(-t - 2*s.cold)
		out[t] = float64(-q.first()) / 1e4
	}
	return out
}

func (p *oracle) decide(v *view) int32 {
	t := min(v.t, len(p.r.base)-1)
	capacity := p.r.capacityAt(min(t+p.s.cold, len(p.r.base)-1))
	need := func(load float64) float64 {
		// Work may wait for `wait` slots, so the variation is averaged over wait+1 slots.
		return (load + p.margin*math.Sqrt(load/float64(p.s.wait+1)))
	}
	load := need(p.ahead[t])
	now := p.r.rate[max(t-1, 0)] * SlotSeconds
	present := need(max(now, 0))
	// backlog is the part of the queue that the ready replicas cannot serve within one cold start.
	backlog := v.queue - (float64(v.ready)*capacity-now)*float64(p.s.cold)
	if backlog > 0 && v.queue > float64(v.ready)*capacity*float64(p.s.wait) {
		present += backlog / float64(p.s.cold)
	}
	held := p.held.push(v.t, int32(math.Ceil(present/capacity-1e-9)), p.hold)
	n := int32(math.Ceil(max(load, need(p.peak*p.floor))/capacity - 1e-9))
	if v.queue > 0 {
		n = max(n, 1)
	}
	return max(n, held)
}

// oracleFor returns the settings of the oracle for a run. It chooses them from the scores on other draws of the same law (siblings): the
// cheapest settings that meet the SLO in every sibling or, if there are none, the settings with the least late work.
func oracleFor(grid []oracleScore, allowed float64) oracleSettings {
	best, met := -1, false
	for i := range grid {
		ok := grid[i].worst <= allowed
		better := best < 0 || ok && !met || ok == met && (ok && grid[i].cost < grid[best].cost || !ok && grid[i].worst < grid[best].worst)
		if better {
			best, met = i, met || ok
		}
	}
	return grid[best].oracleSettings
}

type oracleScore struct {
	oracleSettings
	worst, cost float64
}

// oracleGrid runs the oracle with every combination of settings on the siblings, and returns the scores.
func oracleGrid(siblings []*run, s setup, peak float64, bursts bool) (out []oracleScore) {
	floors, holds := []float64{0}, []int{0}
	if bursts {
		floors, holds = []float64{0, 0.2, 0.4, 0.6, 0.8, 1}, []int{0, s.cold, 4 * s.cold}
	}
	ahead := make([][]float64, len(siblings))
	for i, r := range siblings {
		ahead[i] = lookAhead(r, s)
	}
	for _, margin := range []float64{0, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8} {
		for _, floor := range floors {
			for _, hold := range holds {
				o := oracleScore{oracleSettings: oracleSettings{margin, hold, floor}}
				for i, r := range siblings {
					got := simulate(r, s, newOracle(o.oracleSettings, r, s, ahead[i], peak))
					o.worst, o.cost = max(o.worst, got.lateShare()), o.cost+got.Cost
				}
				out = append(out, o)
			}
		}
	}
	return out
}
