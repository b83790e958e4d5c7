package advise

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// TestSearchAgreesWithAllCandidates replays a candidate for every minReplicas and every objective, without Search. The candidate that
// Search recommends must be the cheapest that attains the SLO. No candidate may cost less than the lower bound of the cost, or less than
// the price of its minReplicas, which Search uses to end early.
func TestSearchAgreesWithAllCandidates(t *testing.T) {
	early, attained := 0, 0
	for _, preset := range []string{"flat", "diurnal", "bursty", "nights", "spikes"} {
		for seed := range uint64(2) {
			in := question(t, preset, 15*time.Minute, func(p *trace.Profile) {
				p.Seed, p.Rate, p.Start = seed+1, []float64{0.3, 1}[seed], time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
			})
			in.Case.ColdStart = []time.Duration{30 * time.Second, 3 * time.Minute}[seed%2]
			in.SLOs = []evaluate.SLO{{Share: 0.98, Wait: 5 * time.Second}, {Share: 0.9, Wait: 5 * time.Second}}
			in.MaxReplicas = 3
			r := searched(t, in)
			for i, slo := range in.SLOs {
				if len(r.Answers[i].Candidates) < 2*int(in.MaxReplicas+1) {
					early++
				}
				want, least := math.Inf(1), r.Answers[i].Certificate
				for _, c := range everyCandidate(t, in, slo) {
					if c.cost < c.price {
						t.Errorf("%s %d: a candidate costs %v a day, its minReplicas %v", preset, seed, c.cost, c.price)
					}
					if c.onTime < slo.Share {
						continue
					}
					want = min(want, c.cost)
					if least.Problem == "" && c.cost < least.CostPerDay || least.Problem != "" && r.Answers[i].Cheapest == nil {
						t.Errorf("%s %d, SLO %d: a candidate costs %v a day, the certificate is %+v", preset, seed, i, c.cost, least)
					}
				}
				got := math.Inf(1)
				if best := r.Answers[i].Cheapest; best != nil {
					got, attained = best.CostPerDay, attained+1
				}
				fleet, fixed := cheapestFleet(t, in, slo), math.Inf(1)
				if f := r.Answers[i].Fleet; f != nil {
					fixed = f.CostPerDay
				}
				if cheaper := fleet < got; cheaper && fixed != fleet || !cheaper && !math.IsInf(fixed, 1) || fixed < least.CostPerDay {
					t.Errorf("%s %d, SLO %d: the answer has a fixed fleet for %v, the cheapest costs %v, the answer %v", preset, seed, i, fixed,
						fleet, got)
				}
				if got != want {
					t.Errorf("%s %d, SLO %d: the answer costs %v a day, the cheapest of all candidates %v", preset, seed, i, got, want)
				}
			}
		}
	}
	if early < 5 || attained < 10 {
		t.Errorf("the search ended early for %d answers and attained %d: the cases do not test the rule", early, attained)
	}
	t.Logf("%d of 20 answers ended early, %d attained their SLO", early, attained)
}

type replayed struct{ onTime, cost, price float64 }

// cheapestFleet returns the cost of the smallest fixed number of replicas that attains the SLO.
func cheapestFleet(t *testing.T, in Input, slo evaluate.SLO) float64 {
	t.Helper()
	for n := int32(1); n <= in.MaxReplicas; n++ {
		percentile := math.Round(1e4*slo.Share) / 100
		if r := replay(t, in, slo, Setting{MinReplicas: n, MaxReplicas: n, Wait: slo.Wait, Percentile: percentile}); r.onTime >= slo.Share {
			return r.cost
		}
	}
	return math.Inf(1)
}

func everyCandidate(t *testing.T, in Input, slo evaluate.SLO) (out []replayed) {
	t.Helper()
	for least := range in.MaxReplicas + 1 {
		for _, late := range []float64{1, 0.5} {
			out = append(out, replay(t, in, slo, Setting{MinReplicas: least, MaxReplicas: in.MaxReplicas, Wait: slo.Wait,
				Percentile: math.Round(100*(100-100*late*(1-slo.Share))) / 100}))
		}
	}
	return out
}

func replay(t *testing.T, in Input, slo evaluate.SLO, set Setting) replayed {
	t.Helper()
	c := in.Case
	c.SLO = slo
	var err error
	if c.Policy, err = in.Compile(set); err != nil {
		t.Fatal(err)
	}
	r, err := evaluate.Workload(context.Background(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	days := c.Horizon().Hours() / 24
	return replayed{r.Runs[0].OnTime, 24 * r.Runs[0].Cost / c.Horizon().Hours(),
		c.Hourly * 24 * float64(set.MinReplicas) * (1 - startSlack.Hours()/24/days)}
}
