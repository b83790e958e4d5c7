package scaling

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// oracle is a second implementation of the rules in doc.go, for policies without formula, objective, forecasts, latency and utilization. It
// is slow and simple: it keeps every recommendation and every target, and computes windows and periods from these lists.
type oracle struct {
	at          time.Time
	recommended []moment // the recommendations in the stabilization windows
	targets     []moment // all past targets, without the replicas that the rules about nodes added
	last, extra int32
	active      time.Time // start of the cooldown
	panicEnds   time.Time
}

type moment struct {
	at time.Time
	n  int32
}

func newOracle(replicas int32, now time.Time) *oracle {
	seed := []moment{{now, replicas}}
	return &oracle{at: now, recommended: seed, targets: seed, last: replicas, active: now}
}

// signalEvidence contains what the readings of the signals in a tick show.
type signalEvidence struct {
	degraded, active, hidden, anyMean, aboveReady bool
	want                                          float64 // the greatest proposal
	known                                         bool
	failed                                        int32 // failures of the first required signal that reached FailureThreshold; 0: none
}

// proposal returns the replicas that a reading needs. Ready replicas that were not measured count as idle for an increase and as exactly at
// the target for a decrease.
func proposal(s *Signal, r *Reading, ready int32) float64 {
	load, measured := r.Value/s.Target, float64(ready)
	if r.Measured > 0 {
		measured = float64(r.Measured)
	}
	if r.Coverage > 0 && r.Coverage < 1 {
		measured *= r.Coverage
	}
	unmeasured := max(float64(ready)-measured, 0)
	switch {
	case s.Kind == Total && load >= float64(ready):
		return load
	case s.Kind == Total:
		return min(load+unmeasured, float64(ready))
	case load > 1:
		return max(measured*load, float64(ready))
	}
	return measured*load + unmeasured
}

// examined returns the SignalStatus that the method examine of a tick must return for a reading.
func examined(s *Signal, r *Reading, ready int32, now time.Time) SignalStatus {
	age := now.Sub(r.At)
	valid := r.Known && r.Value >= 0 && r.Value <= math.MaxFloat64 && age <= 4*s.MaxAge && age >= -4*s.MaxAge
	switch {
	case !r.Known && ready == 0 && (r.Cause == CauseNever || r.Cause == CauseEmpty):
		return SignalUnmeasured
	case !valid:
		return SignalMissing
	case s.Kind == Mean && ready == 0:
		return SignalUnmeasured
	case age > s.MaxAge || age < -2*time.Second:
		return SignalStale
	case s.MinCoverage > 0 && !(r.Coverage >= s.MinCoverage):
		return SignalLowCoverage
	}
	return SignalOK
}

// read collects the evidence. A signal that is stale or has low coverage is used only above the last target. In a degraded tick, the last
// target is at least the observed number of replicas.
func (m *oracle) read(p *Policy, o *Observation, now time.Time) (e signalEvidence) {
	ready, current := max(o.Ready, 0), max(o.Replicas, 0)
	usable, broken := 0, 0
	var above, below, partly, fully bool
	status := make([]SignalStatus, len(p.Signals))
	for i := range p.Signals {
		s, r := &p.Signals[i], Reading{}
		if i < len(o.Readings) {
			r = o.Readings[i]
		}
		status[i] = examined(s, &r, ready, now)
		switch required := !s.Optional || i < len(o.Readings) && !r.Known && r.Cause == CauseNever; {
		case status[i] == SignalOK:
			usable++
		case required:
			broken++
		}
		if status[i] == SignalMissing || status[i] == SignalUnmeasured {
			continue
		}
		if r.Value > s.Activation {
			above = true
		} else {
			below = true
			missesPods := r.Coverage > 0 && r.Coverage < 1
			partly, fully = partly || missesPods, fully || !missesPods
		}
	}
	e.degraded = broken > 0 && (m.last > 0 || current > 0) || len(p.Signals) > 0 && usable == 0
	e.active, e.hidden = above, partly
	if p.Activation == ActiveByAll {
		e.active, e.hidden = above && !below, partly && !fully
	}
	last := m.last
	if e.degraded {
		last = max(last, current-m.extra)
	}
	for i := range p.Signals {
		if status[i] == SignalMissing || status[i] == SignalUnmeasured {
			if i < len(o.Readings) && status[i] == SignalMissing {
				e.fail(p, &p.Signals[i], o.Readings[i].Failures)
			}
			continue
		}
		want := proposal(&p.Signals[i], &o.Readings[i], ready)
		if status[i] != SignalOK {
			e.fail(p, &p.Signals[i], o.Readings[i].Failures)
			if whole(want) <= last {
				continue
			}
		} else if p.Signals[i].Kind == Mean {
			e.anyMean = true
			e.aboveReady = e.aboveReady || whole(want) > ready
		}
		e.want, e.known = max(e.want, want), true
	}
	return e
}

func (e *signalEvidence) fail(p *Policy, s *Signal, failures int32) {
	if e.failed == 0 && !s.Optional && failures >= max(p.Fallback.FailureThreshold, 1) {
		e.failed = failures
	}
}

// whole rounds up, but ignores the error of floating-point arithmetic.
func whole(n float64) int32 { return int32(min(math.Ceil(n*(1-1e-9)), maxReplicas)) }

// before returns the target that applied at a past time.
func (m *oracle) before(at time.Time) int32 {
	n := m.targets[0].n
	for _, s := range m.targets {
		if !s.at.After(at) {
			n = s.n
		}
	}
	return n
}

// permitted returns the greatest target (sign 1) or the smallest target (sign -1) that the rates of a direction permit.
func (m *oracle) permitted(d *Direction, last, sign int32, now time.Time) int32 {
	if d.Select == Disabled {
		return last
	}
	if len(d.Rates) == 0 {
		return max(sign*maxReplicas, 0)
	}
	var changes []int32
	for _, r := range d.Rates {
		from := m.before(now.Add(-r.Period))
		by := r.Value
		if r.Type == PercentRate {
			by = int32(math.Ceil(float64(from) * float64(r.Value) / 100))
		}
		changes = append(changes, sign*max(from+sign*by, 0))
	}
	best := slices.Max(changes)
	if d.Select == SelectMin {
		best = slices.Min(changes)
	}
	return sign * max(best, sign*last)
}

// signals returns the target after all rules about signals, and the recommendation that the stabilization windows get.
func (m *oracle) signals(p *Policy, o *Observation, e *signalEvidence, last int32, now time.Time) (n, recommendation int32) {
	exact := 0.0 // before rounding
	switch n = last; {
	case e.known:
		n, exact = whole(e.want), e.want
	case !e.degraded:
		n = 0
	}
	raise := func(to int32) {
		if to > n {
			n = to
		}
		exact = max(exact, float64(to))
	}
	if e.degraded {
		if exact = max(exact, float64(last)); n < last {
			n, exact = last, float64(last)
		}
	}
	static := p.Fallback.Behavior == FallbackStatic || p.Fallback.Behavior == FallbackCurrentReplicasIfHigher
	if e.degraded && static && e.failed > 0 {
		raise(p.Fallback.Replicas)
	}
	if loading := max(o.Loading, 0); e.anyMean && e.aboveReady && n < last {
		n, exact = last, float64(last)
	} else if e.anyMean && loading > 0 {
		raise(min(max(o.Ready, 0)+loading, last))
	}
	ignored := n > last && exact <= float64(last)*(1+p.ScaleUp.Tolerance) || n < last && exact >= float64(last)*(1-p.ScaleDown.Tolerance)
	if last > 0 && ignored {
		n = last
	}
	recommendation = n
	isPanic := false
	if p.Panic.Threshold > 0 {
		if e.known && float64(whole(e.want))/float64(max(o.Ready, 1)) >= p.Panic.Threshold {
			isPanic = true
			if ends := now.Add(p.Panic.Window); ends.After(m.panicEnds) {
				m.panicEnds = ends
			}
		}
		if isPanic = isPanic || now.Before(m.panicEnds); isPanic {
			n = max(n, last)
		}
	} else {
		m.panicEnds = time.Time{}
	}
	least, greatest := n, n
	for _, r := range m.recommended {
		if now.Sub(r.at) < p.ScaleUp.StabilizationWindow {
			least = min(least, r.n)
		}
		if now.Sub(r.at) < p.ScaleDown.StabilizationWindow {
			greatest = max(greatest, r.n)
		}
	}
	switch {
	case n > last && !isPanic:
		n = max(last, least)
	case n < last:
		n = min(last, greatest)
	}
	if stays := e.active || isPanic || e.degraded || e.hidden && last > 0; p.MinReplicas <= 0 && (!e.degraded || last > 0 || e.active) {
		switch {
		case stays || last > 0 && now.Sub(m.active) < p.CooldownPeriod:
			n = max(n, 1)
		default:
			n = 0
		}
	}
	switch {
	case n > last && !isPanic && last == 0:
		n = min(n, max(m.permitted(&p.ScaleUp, last, 1, now), 1))
	case n > last && !isPanic:
		n = min(n, m.permitted(&p.ScaleUp, last, 1, now))
	case n < last:
		n = max(n, m.permitted(&p.ScaleDown, last, -1, now))
	}
	return max(n, o.Forecast), recommendation
}

// schedules returns the target within the open schedules, and the greatest minimum of these schedules (floor).
func (m *oracle) schedules(p *Policy, n, last int32, now time.Time) (target, floor int32) {
	ceiling := int32(-1)
	for _, s := range p.Schedules {
		open := !now.Before(s.Window.From) && now.Before(s.Window.To)
		ahead := now.Before(s.Window.From) && !now.Before(s.Window.From.Add(-s.Lead))
		if open || ahead {
			floor = max(floor, s.Min)
		}
		if open && s.Max >= 0 && (ceiling < 0 || s.Max < ceiling) {
			ceiling = s.Max
		}
	}
	n = max(n, floor)
	if ceiling >= 0 {
		n = min(n, max(ceiling, m.permitted(&p.ScaleDown, last, -1, now)))
	}
	return n, floor
}

// bounded applies the override, the pause, the bounds and the team limit.
func bounded(p *Policy, o *Observation, n int32, now time.Time) int32 {
	if op := &o.Operator; now.Before(op.Until) {
		if op.Max >= 0 {
			n = min(n, op.Max)
		}
		n = max(n, op.Min)
	}
	if o.Operator.Paused {
		n = max(o.Replicas, 0)
	} else {
		n = max(n, p.MinReplicas)
	}
	n = min(n, highest(p, *o))
	if o.Limit.Limited {
		n = min(n, max(o.Limit.Max, 0))
	}
	return n
}

// decide returns what Decide must return.
func (m *oracle) decide(p *Policy, o *Observation, now time.Time) (out Decision) {
	elapsed := now.Sub(m.at)
	m.at = now
	e := m.read(p, o, now)
	last := m.last
	if e.degraded {
		last = max(last, max(o.Replicas, 0)-m.extra)
	}
	n, recommendation := m.signals(p, o, &e, last, now)
	n, floor := m.schedules(p, n, last, now)
	without, atLeast := n, func() int32 {
		if o.Operator.Paused {
			return n
		}
		return max(n, min(p.MinReplicas, highest(p, *o)))
	}
	if risk, kept := o.Advice.AtRisk, atLeast(); risk > 0 && kept > 0 {
		n = kept + risk
	}
	surge := max(o.Advice.Surge, 0)
	if e.degraded {
		surge = max(surge, m.extra-(n-without))
	}
	if kept := atLeast(); surge > 0 && kept > 0 {
		n = kept + surge
	}
	out.Uncapped = bounded(p, o, n, now)
	if o.Advice.Cap >= 0 {
		n = min(n, max(o.Advice.Cap, o.Replicas))
	}
	out.Replicas, out.Degraded = bounded(p, o, n, now), e.degraded
	without = bounded(p, o, without, now)
	keeps := e.active || floor > 0 || now.Before(o.Operator.Until) && o.Operator.Min > 0
	out.Active = out.Replicas > 0 && (keeps || e.degraded || e.hidden)
	switch {
	case keeps:
		m.active = now
	case e.degraded || e.hidden:
		m.active = m.active.Add(elapsed)
	}
	m.last, m.extra = without, max(out.Replicas-without, 0)
	m.recommended = append(m.recommended, moment{now, recommendation})
	m.targets = append(m.targets, moment{now, without})
	return out
}

// usual changes a random observation so that it can occur in a cluster: the replicas follow the last target, and almost every reading is
// usable. The values are chosen so that proposals are often whole numbers and at the limit of a tolerance.
func usual(t *rapid.T, p *Policy, o *Observation, last int32, now time.Time) {
	if rapid.IntRange(0, 4).Draw(t, "late") > 0 {
		o.Replicas = last
	}
	o.Loading = rapid.Int32Range(0, max(o.Replicas, 0)/2).Draw(t, "loads")
	o.Ready = max(o.Replicas, 0) - o.Loading
	o.Readings = make([]Reading, len(p.Signals))
	for i := range o.Readings {
		value := rapid.SampledFrom([]float64{0, 0, 0.5, 0.9, 1, 1.1, 2, 3, 4, 6, 9, 10, 11}).Draw(t, "load") * p.Signals[i].Target
		if o.Readings[i] = (Reading{Value: value, At: now, Coverage: 1, Known: true}); rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
			o.Readings[i] = Reading{Failures: rapid.Int32Range(0, 4).Draw(t, "failures")}
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "nodes") > 0 {
		o.Advice, o.Operator, o.HPAMaxReplicas = NoAdvice, NoOperator, 0
	}
	o.Forecast = 0
}

// Decide and the oracle must return the same targets for random policies and observations.
func TestDecisionsAreThoseOfTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			compareWithOracle(t)
		}
	})
}

func compareWithOracle(t *rapid.T) {
	p, isUsual := anyPolicy(t, false), rapid.Bool().Draw(t, "usual")
	for i := range p.Signals {
		p.Signals[i].Class, p.Signals[i].Forecast = Demand, Forecast{}
	}
	if isUsual {
		p.Signals = p.Signals[:min(len(p.Signals), 2)]
		p.Schedules = p.Schedules[:min(len(p.Schedules), 1)]
	}
	now, seed := nine, rapid.Int32Range(0, 12).Draw(t, "seed")
	s, m := Seed(p, seed, now), newOracle(seed, now)
	for range rapid.IntRange(1, 14).Draw(t, "ticks") {
		now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 1, 1, 5, 15, 29, 30, 61, 0}).Draw(t, "step")) * time.Second)
		o := anyObservation(t, p, now, false)
		if isUsual {
			usual(t, p, &o, m.last, now)
		}
		for i := range o.Readings {
			r := &o.Readings[i]
			if r.Measured = rapid.Int32Range(-3, 14).Draw(t, "measured"); !r.Known {
				r.Cause = rapid.SampledFrom([]Cause{CauseNone, CauseNever, CauseEmpty, CauseUnreachable}).Draw(t, "cause")
			}
		}
		if rapid.IntRange(0, 4).Draw(t, "team") == 0 {
			o.Limit = TeamLimit{Limited: true, Max: rapid.Int32Range(-1, 12).Draw(t, "share"), Index: -1}
		}
		d, want := s.Decide(p, &o, now), m.decide(p, &o, now)
		if d.Replicas != want.Replicas || d.Uncapped != want.Uncapped || d.Degraded != want.Degraded || d.Active != want.Active {
			t.Fatalf("%d (%d without cap, degraded %v, active %v), want %d (%d, %v, %v)\n%s\n%+v", d.Replicas, d.Uncapped, d.Degraded,
				d.Active, want.Replicas, want.Uncapped, want.Degraded, want.Active, table(p, &d), o)
		}
	}
}
