package scaling

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// learner is what was learned about a workload with an objective, and the plan of the newest tick. A State and its packed copies share one
// learner. It stores the plan so that a second call of Decide for the same tick, for example with a team limit, uses the same plan.
type learner struct {
	model  *objective.Model
	at     int64           // time of the newest tick that the model observed
	plan   *objective.Plan // not changed after it is set
	starts starts
	keep   keep
	ages   []time.Duration // reused for objective.Evidence, to save allocations
	cold   []objective.ColdStart
}

// clone returns an independent copy.
func (l *learner) clone() *learner {
	if l == nil {
		return nil
	}
	c := *l
	c.model, c.ages, c.cold = l.model.Clone(), nil, nil
	return &c
}

// Learned returns the state's model of a workload with an objective, or nil. The caller must not change it.
func (s *State) Learned() *objective.Model {
	if s.learner == nil {
		return nil
	}
	return s.learner.model
}

// adoptLearned keeps what was learned if the policy p still has an objective and measures the same work as the policy old.
func (s *State) adoptLearned(p, old *Policy) {
	switch {
	case p.Objective == nil:
		s.learner = nil
	case s.learner == nil || old != nil && !p.Work().Same(old.Work()):
		s.learner = &learner{model: objective.New(), at: -history.MaxStamp}
	}
}

// isEvidence reports whether the signal has no target and is only evidence for the objective.
func (s *Signal) isEvidence() bool { return s.Target == 0 && s.Measures != MeasureNone }

// observe adds the evidence of this tick to the model and computes the plan. It does so once for each tick.
func (t *tick) observe() {
	l := t.s.learner
	if t.p.Objective == nil || l == nil || l.at == t.at {
		return
	}
	e := t.evidence()
	l.starts.follow(t, l)
	e.Ready, e.Starting, e.ColdStarts, e.Version = t.ready, l.ages, l.cold, t.o.Version
	// time.Time contains a pointer to its zone. Passing the time of the tick itself would allocate the whole tick on the heap.
	now := history.Time(t.at)
	l.model.Observe(now, &e)
	high := max(t.maxReplicas(), 0)
	limits := objective.Limits{Min: clamp(t.p.MinReplicas, 0, high), Max: high}
	plan := l.model.Plan(now, *t.p.Objective, limits)
	l.keep.observe(t, l.at)
	l.keep.apply(&plan, t.at, limits)
	if l.plan == nil || *l.plan != plan {
		// a copy, because the decisions of earlier ticks still refer to the old plan
		changed := plan
		l.plan = &changed
	}
	l.at = t.at
}

// evidence returns the readings of this tick as evidence. A reading that is stale or has low coverage is missing, because it shows neither
// more nor less load. Several signals may measure the queue or the work in flight; their sum is missing if one of them is.
func (t *tick) evidence() (e objective.Evidence) {
	var missing [MeasureLatency + 1]bool
	for i := range t.signals {
		sig := &t.p.Signals[i]
		into := evidenceOf(&e, sig.Measures)
		switch {
		case into == nil:
		case t.status[i] == SignalOK && !(sig.Measures == MeasureBusy && t.o.Readings[i].Shared):
			r := &t.o.Readings[i]
			into.V += t.amount(sig, r)
			into.Known = true
			if at := history.Time(history.Stamp(r.At)); at.After(into.At) {
				into.At = at
			}
		case t.status[i] != SignalUnmeasured && !sig.Optional:
			missing[sig.Measures] = true
		}
	}
	for m, is := range missing {
		if is {
			*evidenceOf(&e, Measure(m)) = objective.Value{}
		}
	}
	return e
}

// evidenceOf returns the field of e for a measure; nil for MeasureNone.
func evidenceOf(e *objective.Evidence, m Measure) *objective.Value {
	switch m {
	case MeasureArrivals:
		return &e.Arrivals
	case MeasureServed:
		return &e.Served
	case MeasureQueued:
		return &e.Queued
	case MeasureInFlight:
		return &e.InFlight
	case MeasureBusy:
		return &e.Busy
	case MeasureLatency:
		return &e.Latency
	}
	return nil
}

// amount returns the evidence in a reading, for the whole workload. A reading that covers only some of the pods counts as if the others had
// the same values.
func (t *tick) amount(sig *Signal, r *Reading) float64 {
	v := r.Value
	switch sig.Measures {
	case MeasureBusy, MeasureLatency:
		return v
	case MeasureArrivals, MeasureServed:
		if sig.PerSecond > 0 {
			v /= sig.PerSecond
		}
	}
	switch {
	case sig.Kind == Mean && r.Measured > 0:
		v *= float64(min(r.Measured, maxReplicas))
	case sig.Kind == Mean:
		v *= float64(t.ready)
	case r.Coverage > 0 && r.Coverage < 1:
		v /= r.Coverage
	}
	return v
}

// objective raises or lowers the target to the replicas that the objective needs. Proposals of signals with a target, and the result of a
// formula, can only raise it.
func (t *tick) objective() {
	l := t.s.learner
	if t.p.Objective == nil || l == nil || l.plan == nil {
		return
	}
	need := clamp(l.plan.Replicas-l.plan.Added[objective.TermLimits], 0, maxReplicas)
	atLeast := int32(0) // what other signals need, or what missing signals keep
	switch {
	case t.inputs.degraded:
		atLeast = t.n
	case t.hasRequest:
		atLeast = t.requested
	}
	if need <= atLeast && (t.hasRequest || t.inputs.degraded) {
		t.set(RuleObjective, -1, t.n, float64(need), float64(l.plan.Safe))
		return
	}
	t.requested, t.hasRequest = need, true
	t.set(RuleObjective, -1, need, float64(need), float64(l.plan.Safe))
	t.unrounded, t.binding, t.index = float64(need), RuleObjective, -1
}

// hasObjective reports whether the rule objective applies in this run of the rules.
func (t *tick) hasObjective() bool {
	return t.p.Objective != nil && t.s.learner != nil && t.s.learner.plan != nil && !t.skips(RuleObjective, -1)
}
