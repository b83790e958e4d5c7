package scaling

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// isEvidence reports whether the signal has no target. A signal without a target proposes no replicas. Only the model of the objective uses
// its readings.
func (s *Signal) isEvidence() bool { return s.Target == 0 && s.Measures != MeasureNone }

// observe adds the readings of this tick to the model of the objective and computes the plan, which is the number of replicas that the
// objective needs. If it is called again in the same tick, it does nothing.
func (t *tick) observe() {
	learned := t.s.planner
	if t.p.Objective == nil || learned == nil || learned.Observed(t.at) {
		return
	}
	high := max(t.maxReplicas(), 0)
	limits := objective.Limits{Min: clamp(t.p.MinReplicas, 0, high), Max: high}
	now := planner.Tick{At: t.at, Current: t.current, Ready: t.ready, Loading: t.loading, Pending: clamp(t.o.Pending, 0, maxReplicas),
		Started: t.o.Started, LastTarget: t.s.lastTarget, Evidence: t.evidence()}
	learned.Observe(&now, t.p.Objective, limits)
}

// evidence returns the readings of this tick in the form that the model of the objective reads. A reading that is stale or that covers too
// few pods is treated as missing, because the total load cannot be computed from it. If several signals measure the queue or the work in
// flight, their values are added. If one of these values is missing, the sum is missing.
func (t *tick) evidence() (e objective.Evidence) {
	e.Version = t.o.Version
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
			into.Window = max(into.Window, time.Duration(sig.WindowSeconds)*time.Second)
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

// evidenceOf returns a pointer to the field of e that contains the value of a measure, or nil for MeasureNone.
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

// amount returns the value of a reading for the whole workload, in the unit of the model. If the reading covers only some of the pods,
// amount assumes that the other pods have the same values.
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

// objective raises or lowers the target to the replicas that the objective needs. The proposals of signals with a target, and the result of
// a formula, can only raise this number.
func (t *tick) objective() {
	plan := t.s.planner.Plan()
	if t.p.Objective == nil || plan == nil {
		return
	}
	need := clamp(plan.Replicas-plan.Added[objective.TermLimits], 0, maxReplicas)
	atLeast := int32(0) // number of replicas that other signals need; while signals are missing, the target so far
	switch {
	case t.inputs.degraded:
		atLeast = t.n
	case t.hasRequest:
		atLeast = t.requested
	}
	if need <= atLeast && (t.hasRequest || t.inputs.degraded) {
		t.set(RuleObjective, -1, t.n, float64(need), float64(plan.Safe))
		return
	}
	t.requested, t.hasRequest = need, true
	t.set(RuleObjective, -1, need, float64(need), float64(plan.Safe))
	t.unrounded, t.binding, t.index = float64(need), RuleObjective, -1
}

// hasObjective reports whether RuleObjective applies in this run of the rules.
func (t *tick) hasObjective() bool {
	return t.p.Objective != nil && t.s.planner.Plan() != nil && !t.skips(RuleObjective, -1)
}

// work contains the measures that are counted in the unit of work, for example requests or tokens.
var work = [...]Measure{MeasureArrivals, MeasureServed, MeasureQueued, MeasureInFlight}

// Work identifies the unit of work that a policy measures. It contains one number for each of arrivals, served, queued and in flight. The
// number is 0 if no signal has this measure. The numbers are the same in every process.
type Work [len(work)]uint64

// Work returns the unit of work that the policy measures.
func (p *Policy) Work() (w Work) {
	for i, m := range work {
		for j := range min(len(p.Signals), MaxSignals) {
			if s := &p.Signals[j]; s.Measures == m {
				w[i] = max(w[i]+s.identity(), 1)
			}
		}
	}
	return w
}

// Same reports whether two policies measure the same unit of work. It compares only measures that both policies contain. If a source
// changed, for example from requests to tokens, it returns false, because the capacity of a replica is then a different number.
func (w Work) Same(o Work) bool {
	for i := range w {
		if w[i] != 0 && o[i] != 0 && w[i] != o[i] {
			return false
		}
	}
	return true
}

// identity returns a hash (FNV-1a) of the fields that identify the measured quantity. These are the fields that Signal.measures compares.
func (s *Signal) identity() uint64 {
	h := uint64(14695981039346656037)
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	number := func(v uint64) {
		for range 8 {
			add(byte(v))
			v >>= 8
		}
	}
	number(s.Source)
	if s.Source == 0 {
		for _, text := range [...]string{s.Name, s.Type} {
			for i := range len(text) {
				add(text[i])
			}
			add(0)
		}
	}
	for _, v := range [...]uint8{uint8(s.Kind), uint8(s.Class), uint8(s.Unit), uint8(s.Measures)} {
		add(v)
	}
	number(math.Float64bits(s.PerSecond))
	return h
}
