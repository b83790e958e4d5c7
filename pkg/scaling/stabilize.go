package scaling

// keepLoading keeps replicas that a mean of the few ready ones would remove.
//
// A Mean above its target does not lower the target: with 2 of 6 replicas ready and both overloaded, ready*value/target is 3, for any
// cause that keeps the other four from being ready.
//
// While replicas load, a Mean does not lower the target below ready + loading. A Total can, because it is absolute; a policy without a
// usable Mean is not affected. The rule never raises the last target: if ready + loading exceeds it, a decrease is in progress.
func (t *tick) keepLoading() {
	mean := false
	for i := range t.signals {
		if t.p.Signals[i].Kind != Mean || t.status[i] != SignalOK || t.without(i) {
			continue
		}
		mean = true
		if t.rounded[i] > t.ready && t.n < t.lastTarget {
			t.set(RuleLoading, i, t.lastTarget, float64(t.loading), float64(t.ready))
			return
		}
	}
	if mean && t.loading > 0 {
		t.keepAtLeast(RuleLoading, -1, min(t.ready+t.loading, t.lastTarget), float64(t.loading), float64(t.ready))
	}
}

// tolerance ignores a change that is smaller than the direction's share of the last target. As an HPA does, it compares before rounding:
// 10.4 instead of 10 is 4%, although rounding gives an eleventh replica.
func (t *tick) tolerance() {
	if t.lastTarget == 0 || t.n == t.lastTarget {
		return
	}
	up, down := t.p.ScaleUp.Tolerance, t.p.ScaleDown.Tolerance
	base := float64(t.lastTarget)
	switch {
	case t.n > t.lastTarget && t.unrounded <= float64(base*(1+up)):
		t.set(RuleTolerance, -1, t.lastTarget, t.unrounded/base, up)
	case t.n < t.lastTarget && t.unrounded >= float64(base*(1-down)):
		t.set(RuleTolerance, -1, t.lastTarget, t.unrounded/base, down)
	}
}

// panicWindow starts when the signals need Threshold times the ready replicas (at least one). Until Window has passed since the last
// such tick, nothing lowers the target, and the rules stabilize and rate do not limit an increase. The stabilization windows remember
// the recommendation before this rule, because otherwise a burst would count for a scale-down window longer.
func (t *tick) panicWindow() {
	t.proposal = t.n
	if !(t.p.Panic.Threshold > 0) {
		return
	}
	t.panicUntil = t.s.panicUntil
	ratio := float64(t.requested) / float64(max(t.ready, 1))
	if t.hasRequest && ratio >= t.p.Panic.Threshold {
		t.panicUntil = max(t.panicUntil, t.at+t.p.Panic.Window.Milliseconds())
		t.panic = true
	}
	if t.panic = t.panic || t.at < t.panicUntil; t.panic {
		t.set(RulePanic, -1, max(t.n, t.lastTarget), ratio, seconds(t.panicUntil))
	}
}

// stabilize does what an HPA does: the target rises only to the smallest recommendation in the scale-up window, falls only to the
// greatest in the scale-down window, and otherwise stays. A recommendation that another rule raised is remembered as raised, because a
// time without readings does not show that fewer replicas are enough.
func (t *tick) stabilize() {
	up, down := t.p.ScaleUp.StabilizationWindow, t.p.ScaleDown.StabilizationWindow
	switch {
	case t.n > t.lastTarget && !t.panic:
		least := -t.s.up.greatest(t.at-up.Milliseconds(), -t.n)
		if to := max(t.lastTarget, least); to < t.n {
			newest, _ := t.s.up.last(-to)
			t.set(RuleStabilize, -1, to, up.Seconds(), seconds(newest+up.Milliseconds()))
		}
	case t.n < t.lastTarget:
		greatest := t.s.down.greatest(t.at-down.Milliseconds(), t.n)
		if to := min(t.lastTarget, greatest); to > t.n {
			newest, _ := t.s.down.last(to)
			t.set(RuleStabilize, -1, to, down.Seconds(), seconds(newest+down.Milliseconds()))
		}
	}
}
