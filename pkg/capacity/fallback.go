package capacity

// stranded returns why pods that have waited for shortageMinimum do not get an on-demand node either. It returns CauseNone if they may get
// one. With any other cause, spot must not be limited.
func (t *tick) stranded() Cause {
	if t.short < shortageMinimum {
		return CauseNone
	}
	cause := t.closedBy(t.onDemand)
	if cause == CauseNone && t.refusedSince(t.onDemand, 0) {
		return CauseRefused // a refusal still counts after the target cap ends for a retry
	}
	return cause
}

// fallback uses on-demand first, and limits spot to its current size in a group with a hard fallback.
func (t *tick) fallback() {
	s := &t.s.Spot
	if !t.paired() || s.Phase != Fallback {
		return
	}
	t.preferOnDemand(RuleFallback)
	t.because(Reason{Rule: RuleFallback, Pool: int8(t.onDemand), Cause: s.Cause,
		A: float64(s.Count), B: float64(s.Of), Until: instant(s.Until)})
	if t.g.Fallback != Hard || t.leaving || !t.trusted() {
		return
	}
	if cause := t.stranded(); cause != CauseNone {
		t.because(Reason{Rule: RuleFallback, Pool: int8(t.spot), Cause: cause})
		return
	}
	t.capLimit(t.spot, t.pools[t.spot].units, RuleFallback)
}

// probe limits the spot NodePool to its current size and one more node while the phase is Probing.
func (t *tick) probe() {
	s := &t.s.Spot
	if !t.paired() || s.Phase != Probing {
		return
	}
	if cause := t.stranded(); cause != CauseNone {
		t.because(Reason{Rule: RuleProbe, Pool: int8(t.spot), Cause: cause})
		return
	}
	limit := max(s.Limit, t.pools[t.spot].units)
	if t.g.countsDevices() {
		limit = 0
	}
	if !t.leaving && t.trusted() {
		t.capLimit(t.spot, limit, RuleProbe)
	}
	t.because(Reason{Rule: RuleProbe, Pool: int8(t.spot), A: float64(limit), Until: instant(s.Until)})
}
