package capacity

// stranded returns why pods that have waited for shortageMinimum do not get an on-demand node either. It returns CauseNone if they may get
// one, or if no pods have waited that long. With any other cause, spot must not be limited.
func (t *tick) stranded() Cause {
	if t.short < shortageMinimum {
		return CauseNone
	}
	first := CauseNone
	for _, i := range t.onDemand.all() {
		cause := t.closedBy(int(i))
		if cause == CauseNone && t.refusedSince(int(i), 0) {
			cause = CauseRefused // refusals before the end of the last target cap count, too, unlike in closedBy
		}
		if cause == CauseNone {
			return CauseNone
		}
		if first == CauseNone {
			first = cause
		}
	}
	return first
}

// fallback uses on-demand first, and limits each spot NodePool to its current size in a group with a hard fallback.
func (t *tick) fallback() {
	s := &t.s.Spot
	if !t.paired() || s.Phase != Fallback {
		return
	}
	t.preferOnDemand(RuleFallback)
	t.because(Reason{Rule: RuleFallback, Pool: t.onDemand.first(), Cause: s.Cause,
		A: float64(s.Count), B: float64(s.Of), Until: instant(s.Until)})
	if t.g.Fallback != Hard || t.leaving || !t.trusted() {
		return
	}
	if cause := t.stranded(); cause != CauseNone {
		t.because(Reason{Rule: RuleFallback, Pool: t.spot.first(), Cause: cause})
		return
	}
	for _, i := range t.spot.all() {
		t.capLimit(int(i), t.pools[i].units, RuleFallback)
	}
}

// probe limits spot to its size at the start of the probe and one more node while the phase is Probing. With several spot NodePools, each
// of them may launch this node, because it is not known which one has capacity. When one has launched it, the others may not grow any more.
func (t *tick) probe() {
	s := &t.s.Spot
	if !t.paired() || s.Phase != Probing {
		return
	}
	if cause := t.stranded(); cause != CauseNone {
		t.because(Reason{Rule: RuleProbe, Pool: t.spot.first(), Cause: cause})
		return
	}
	more := max(s.Limit-t.spot.units, 0)
	for _, i := range t.spot.all() {
		limit := t.pools[i].units + more
		if t.g.countsDevices() {
			limit = 0
		}
		if !t.leaving && t.trusted() {
			t.capLimit(int(i), limit, RuleProbe)
		}
		t.because(Reason{Rule: RuleProbe, Pool: i, A: float64(limit), Until: instant(s.Until)})
	}
}
