package decisions

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

var epoch = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC) // start of each run, a Monday

// learned is a policy that uses the model of package objective. The model gets only the objective and the bounds, and learns everything
// else.
type learned struct {
	m     *objective.Model
	o     objective.Objective
	s     setup
	ages  []time.Duration
	cold  [1]objective.ColdStart
	last  int32
	r     *run
	plan  objective.Plan
	count [64]int

	// sampled is true if the policy reads what a usual installation measures. If it is false, the policy reads exact values of the last slot.
	sampled bool
	samples samples
}

func newLearned(r *run, s setup, percentile float64, t objective.Tuning) *learned {
	return &learned{m: objective.NewTuned(t), s: s, r: r, ages: make([]time.Duration, 0, 1024), last: 1,
		o: objective.Objective{Limit: time.Duration(s.wait) * SlotSeconds * time.Second, Percentile: percentile}}
}

func (p *learned) decide(v *view) int32 {
	now := epoch.Add(time.Duration(v.t) * SlotSeconds * time.Second)
	known := func(x float64) objective.Value { return objective.Value{V: x, At: now, Known: v.t > 0} }
	arrived, served, queued := known(v.arrived/SlotSeconds), known(v.served/SlotSeconds), known(v.queue)
	if p.sampled {
		arrived, served, queued = p.samples.read(v, now)
	}
	version := uint64(1)
	if v.t > p.r.change {
		version = 2
	}
	e := objective.Evidence{Arrivals: arrived, Served: served, Queued: queued, Ready: v.ready, Starting: p.starting(v), Version: version}
	if v.ready > p.last { // replicas became ready since the previous slot
		p.cold[0].Total = time.Duration(p.s.cold) * SlotSeconds * time.Second
		e.ColdStarts = p.cold[:]
	}
	p.last = v.ready
	p.m.Observe(now, &e)
	p.plan = p.m.Plan(now, p.o, objective.Limits{Max: p.s.most})
	if v.t > p.r.from {
		p.count[p.plan.Rule]++
	}
	return p.plan.Replicas
}

// starting returns the age of each replica that is not ready yet.
func (p *learned) starting(v *view) []time.Duration {
	p.ages = p.ages[:0]
	q := v.starts
	for i := q.head; i+1 < q.tail; i++ {
		mask := len(q.slot) - 1
		for range q.value[(i+1)&mask] - q.value[i&mask] {
			p.ages = append(p.ages, time.Duration(v.t-1-q.slot[i&mask])*SlotSeconds*time.Second)
		}
	}
	return p.ages
}

func (p *learned) ruleName() string {
	best := 0
	for i, n := range p.count {
		if n > p.count[best] {
			best = i
		}
	}
	return objective.Plan{Rule: uint8(best)}.RuleText()
}
