package capacity

import (
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// stranded returns why pods that have waited for ShortageMinimum do not get an on-demand node either. It returns CauseNone if they may get
// one, or if no pods have waited that long. With any other cause, spot must not be limited.
func (t *tick) stranded() explain.Cause {
	if t.short < statemachine.ShortageMinimum {
		return explain.CauseNone
	}
	first := explain.CauseNone
	for _, i := range t.onDemand.all() {
		cause := t.closedBy(int(i))
		if cause == explain.CauseNone && t.refusedSince(int(i), 0) {
			cause = explain.CauseRefused // unlike in closedBy, refusals before the end of the last target cap are evidence, too
		}
		if cause == explain.CauseNone && t.pools[i].exhausted {
			cause = explain.CauseReservation
		}
		if cause == explain.CauseNone {
			return explain.CauseNone
		}
		if first == explain.CauseNone {
			first = cause
		}
	}
	return first
}

// fallback uses on-demand first, and limits each spot NodePool to its current size in a group with a hard fallback.
func (t *tick) fallback() {
	s := &t.s.Spot
	if !t.paired() || s.Phase != statemachine.Fallback {
		return
	}
	t.preferOnDemand(explain.RuleFallback)
	t.because(explain.Reason{Rule: explain.RuleFallback, Pool: t.onDemand.first(), Cause: s.Cause,
		A: float64(s.Count), B: float64(s.Of), Until: statemachine.Instant(s.Until)})
	if t.g.Fallback != Hard || t.leaving || !t.trusted() {
		return
	}
	if cause := t.stranded(); cause != explain.CauseNone {
		t.because(explain.Reason{Rule: explain.RuleFallback, Pool: t.spot.first(), Cause: cause})
		return
	}
	for _, i := range t.spot.all() {
		t.capLimit(int(i), t.pools[i].units, explain.RuleFallback)
	}
}

// probe limits spot to its size at the start of the probe and one more node while the phase is Probing. With several spot NodePools, each
// of them may launch this node, because it is not known which one has capacity. When one has launched it, the others may not grow any more.
func (t *tick) probe() {
	s := &t.s.Spot
	if !t.paired() || s.Phase != statemachine.Probing {
		return
	}
	if cause := t.stranded(); cause != explain.CauseNone {
		t.because(explain.Reason{Rule: explain.RuleProbe, Pool: t.spot.first(), Cause: cause})
		return
	}
	more := max(s.Limit-t.spot.units, 0)
	for _, i := range t.spot.all() {
		limit := t.pools[i].units + more
		if t.g.countsDevices() {
			limit = 0
		}
		if !t.leaving && t.trusted() {
			t.capLimit(int(i), limit, explain.RuleProbe)
		}
		t.because(explain.Reason{Rule: explain.RuleProbe, Pool: i, A: float64(limit), Until: statemachine.Instant(s.Until)})
	}
}
