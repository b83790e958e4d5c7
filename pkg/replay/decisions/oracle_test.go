package decisions

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// knownRun returns a run whose work is known in advance.
func knownRun(work []float64, capacity, changed float64, change int) *run {
	r := &run{work: work, total: make([]float64, len(work)+1), capacity: capacity, changed: changed, change: change}
	for i, w := range work {
		r.total[i+1] = r.total[i] + w
		r.base = append(r.base, w/SlotSeconds)
	}
	r.rate, r.known = r.base, r.total
	return r
}

// The oracle knows the work of each slot, so it starts replicas exactly one cold start before they are necessary, and removes them at once.
func TestOracleServesKnownWorkAtTheLeastCost(t *testing.T) {
	const cold = 10
	s := setup{cold: cold, most: 10}
	steady := slices.Concat(make([]float64, 20), slices.Repeat([]float64{2}, 80))
	one := slices.Repeat([]float64{1}, 40)
	for _, c := range []struct {
		name string
		r    *run
		cost float64 // sum of the replicas over all slots
	}{
		{"the work ends", knownRun(slices.Concat(steady[:60], make([]float64, 40)), 1, 1, 100), 2 * (cold + 40)},
		{"a short peak", knownRun(slices.Concat(make([]float64, 20), one, slices.Repeat([]float64{5}, 4), one[:20]), 1, 1, 84),
			cold + 64 + 4*(cold+4)},
		{"a rollout to faster replicas in slot 50", knownRun(steady, 1, 2, 50), 2*(cold+30) + 50},
		{"a rollout to slower replicas in slot 50", knownRun(steady, 2, 1, 50), 30 + 2*(cold+50)},
	} {
		if got := simulate(c.r, s, newOracle(oracleSettings{}, c.r, s, 0)); got.Late > 0 || got.Cost != c.cost*SlotSeconds {
			t.Errorf("%s: %.1f late at a cost of %v, want nothing late at %v", c.name, got.Late, got.Cost, c.cost*SlotSeconds)
		}
	}
}

// Work may wait, so the oracle needs fewer replicas than for the work of a slot. It keeps them until the queue is served, because the
// oldest work of the queue has already waited.
func TestOracleServesAQueueInTime(t *testing.T) {
	s := setup{cold: 12, wait: 12, most: 20}
	one := slices.Repeat([]float64{1}, 80)
	work := slices.Concat(make([]float64, 20), one, slices.Repeat([]float64{8}, 60), one, one[:20])
	r := knownRun(work, 1, 1, len(work))
	got := simulate(r, s, newOracle(oracleSettings{deviations: 1}, r, s, 0))
	if atOnce := float64(12 + 240 + 7*72); got.Late > 0 || got.Cost > atOnce*SlotSeconds {
		t.Errorf("%.1f late at a cost of %v, want nothing late at most %v, the cost without waits", got.Late, got.Cost, atOnce*SlotSeconds)
	}
}

// Two runs of the same law have the same traffic until a slot, in which one run has a flash crowd. The oracle must decide the same for both
// runs until this slot.
func TestOracleDoesNotKnowTheFuture(t *testing.T) {
	f := developed[slices.IndexFunc(developed, func(f family) bool { return f.name == "flash" })]
	l := f.newLaw(1)
	l.base, l.cv = l.base[:4*hour], 1
	calm := l.realize(1)
	crowded := *calm
	const from = 3 * hour
	crowded.work, crowded.rate = slices.Clone(calm.work), slices.Clone(calm.rate)
	for i := from; i < len(crowded.work); i++ {
		crowded.work[i], crowded.rate[i] = 5*calm.work[i], 5*calm.rate[i]
	}
	crowded.total = make([]float64, len(crowded.work)+1)
	for i, w := range crowded.work {
		crowded.total[i+1] = crowded.total[i] + w
	}
	s := newSetup(&crowded, 3*time.Minute, time.Minute)
	var targets [2][]int32
	for i, r := range []*run{calm, &crowded} {
		o := oracleSettings{deviations: 1, floor: 1, hold: s.cold, idle: s.cold, drain: s.cold}
		simulate(r, s, &watched{newOracle(o, r, s, 0), &targets[i]})
	}
	if !slices.Equal(targets[0][:from+1], targets[1][:from+1]) || slices.Equal(targets[0], targets[1]) {
		t.Error("the targets must be equal until the crowded begins, and differ after that")
	}
}

// watched is a policy that records its targets.
type watched struct {
	policy
	targets *[]int32
}

func (p *watched) decide(v *view) int32 {
	n := p.policy.decide(v)
	*p.targets = append(*p.targets, n)
	return n
}

// The search does not simulate all settings on all siblings (other traces of the same law). It must find the same settings as a search that
// does.
func TestOracleSearchFindsTheCheapestSettings(t *testing.T) {
	l := law{name: "an hour", base: daily(hour, 4, 0.5, 0), cv: 1.2, fleet: 4}
	siblings := []*run{l.realize(1), l.realize(2)}
	s := newSetup(siblings[0], time.Minute, 10*time.Second)
	q := newOracleSearch(siblings, s, false)
	for _, percentile := range percentiles {
		limit, cheapest := allowedLate(percentile)/2, 0.0
		found := &trial{oracleSettings: q.best(allowedLate(percentile))}
		for _, deviations := range q.values[0] {
			for _, idle := range q.values[3] {
				all := trial{oracleSettings: oracleSettings{deviations: deviations, idle: int(idle)}}
				for _, r := range siblings {
					all.scores = append(all.scores, simulate(r, s, newOracle(all.oracleSettings, r, s, 0)))
				}
				if all.oracleSettings == found.oracleSettings {
					found.scores = all.scores
				}
				if worst, cost := all.total(); worst <= limit && (cheapest == 0 || cost < cheapest) {
					cheapest = cost
				}
			}
		}
		if worst, cost := found.total(); worst > limit || cost != cheapest {
			t.Errorf("%v%%: %+v has %.4f late at a cost of %v, want at most %.4f at %v", percentile, found.oracleSettings, worst, cost, limit,
				cheapest)
		}
	}
}

// In an earlier version, the objective attained more than the oracle in these cells (rows of the table), at less cost. If the rate of the
// traffic is known in advance, no baseline may attain more at less cost either, even if it is chosen in hindsight.
func TestNoPolicyDominatesTheOracle(t *testing.T) {
	for _, c := range []struct {
		family     string
		seed       uint64
		cold, wait time.Duration
	}{
		{"diurnal", 1, time.Minute, time.Minute},
		{"sparse", 1, time.Minute, time.Minute},
	} {
		f := developed[slices.IndexFunc(developed, func(f family) bool { return f.name == c.family })]
		g := grid{seeds: []uint64{c.seed}, colds: []time.Duration{c.cold}, waits: []time.Duration{c.wait}, percentiles: percentiles[:2],
			tuning: objective.DefaultTuning(), anchors: map[string]map[float64]anchors{}}
		g.cells(f, c.seed, func(c *cell) {
			results := c.online()
			if f.newLaw(c.seed).burst == nil {
				results = append(results, c.chosenInHindsight()...)
			}
			for _, r := range c.dominating(results) {
				t.Error(c.warning(r))
			}
		})
	}
}
