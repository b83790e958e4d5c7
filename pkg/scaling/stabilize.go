package scaling

// hold is the loading rule, two ways in which a mean over the few that are ready says too little.
//
// A Mean above its target is no reason to fall: with 2 of 6 replicas ready and both busy beyond it, ready*value/target is 3,
// whatever keeps the other four from being ready.
//
// While replicas load, no Mean takes the number below ready + loading. Totals are absolute and may: a policy without a known Mean
// is left alone. Neither way raises: ready + loading above the number in force is a fall under way.
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

// tolerance drops a change smaller than the direction's share of the number in force, compared before rounding as an HPA compares
// its ratio: 10.4 wanted at 10 is 4%, although it would be an eleventh replica.
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

// burst is Knative's panic window: what the signals want has come to Threshold times the ready replicas (one, where none is).
// Nothing falls until Window has passed without another such tick; stabilize and rate let rises through. The windows remember what
// was proposed before: a panic that counted as demand would end one down window late.
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

// stabilize is an HPA's: the number moves up only as far as the least proposal of the up window, down only as far as the greatest
// of the down window, and between the two it stays. A held proposal is remembered as held: a time without readings is no evidence
// that less would have done.
func (t *tick) stabilize() {
	up, down := t.p.ScaleUp.StabilizationWindow, t.p.ScaleDown.StabilizationWindow
	switch {
	case t.n > t.lastTarget && !t.panic:
		least := -t.s.up.greatest(t.at-up.Milliseconds(), -t.n)
		if to := max(t.lastTarget, least); to < t.n {
			held, _ := t.s.up.last(-to)
			t.set(RuleStabilize, -1, to, up.Seconds(), seconds(held+up.Milliseconds()))
		}
	case t.n < t.lastTarget:
		greatest := t.s.down.greatest(t.at-down.Milliseconds(), t.n)
		if to := min(t.lastTarget, greatest); to > t.n {
			held, _ := t.s.down.last(to)
			t.set(RuleStabilize, -1, to, down.Seconds(), seconds(held+down.Milliseconds()))
		}
	}
}
