package scaling

import "github.com/gpuscaler/gpuscaler/pkg/scaling/history"

// growingDemand prevents a decrease while a demand or latency signal grows, if the policy also has a utilization signal. If a model server
// does not respond, its utilization decreases although its queue grows, so a low utilization does not show that fewer replicas are
// sufficient. The rule has no effect for a policy without utilization signals.
func (t *tick) growingDemand() {
	if t.n >= t.lastTarget {
		return
	}
	utilization := false
	grows := int8(-1)
	var rising history.Trend
	for i := range t.signals {
		sig := &t.p.Signals[i]
		switch {
		case t.without(i), sig.isEvidence():
		case sig.Class == Utilization:
			utilization = true
		case grows < 0 && t.status[i] == SignalOK:
			if r := t.s.trends[i].Next(t.proposals[i].Value, t.elapsed); r.Grows(sig.Target) {
				grows, rising = i, r
			}
		}
	}
	if utilization && grows >= 0 {
		t.set(RuleGrowingDemand, grows, t.lastTarget, rising.Fast, rising.Slow)
	}
}

// keepLoading prevents a signal of kind Mean, which measures only ready replicas, from removing replicas that load.
//
// A Mean is measured over the ready replicas only. If 2 of 6 replicas are ready and the Mean is 1.5 times its target, ready*value/target is
// 3, although the ready replicas are overloaded. Therefore, if a Mean proposes more than the ready replicas, the target does not decrease
// at all.
//
// While replicas load, a policy with a usable Mean does not lower the target below ready + loading. A policy with only Totals may lower it,
// because a Total does not depend on the ready replicas. The rule never raises the target above the last target. If ready + loading exceeds
// the last target, a decrease is in progress.
func (t *tick) keepLoading() {
	mean := false
	for i := range t.signals {
		if t.p.Signals[i].Kind != Mean || t.p.Signals[i].isEvidence() || t.status[i] != SignalOK || t.without(i) {
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

// tolerance ignores a change that is smaller than a fraction of the last target (Direction.Tolerance). As in an HPA, it uses the
// recommendation before rounding up: a change from 10 to 10.4 replicas is a change of 4%, although 10.4 is rounded up to 11 replicas.
func (t *tick) tolerance() {
	if t.lastTarget == 0 || t.n == t.lastTarget {
		return
	}
	up, down := t.p.ScaleUp.Tolerance, t.p.ScaleDown.Tolerance
	lastTarget := float64(t.lastTarget)
	switch {
	case t.n > t.lastTarget && t.unrounded <= float64(lastTarget*(1+up)):
		t.set(RuleTolerance, -1, t.lastTarget, t.unrounded/lastTarget, up)
	case t.n < t.lastTarget && t.unrounded >= float64(lastTarget*(1-down)):
		t.set(RuleTolerance, -1, t.lastTarget, t.unrounded/lastTarget, down)
	}
}

// panicWindow starts a panic window when the signals need at least Threshold times the ready replicas. If no replica is ready, it uses 1 as
// the number of ready replicas. Until Window has passed since the last such tick, nothing lowers the target, and the stabilization windows
// and rates do not limit an increase. The stabilization windows store the recommendation before this rule changes it. Otherwise, the target
// of the burst would still be in the scale-down window after the panic window ends.
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

// stabilize applies the stabilization windows as an HPA does. The target increases at most to the smallest recommendation in the scale-up
// window, and decreases at most to the greatest recommendation in the scale-down window. The windows store a recommendation after the
// earlier rules have changed it. For example, while readings are missing, they store the target that RuleMissing keeps, because it is not
// known whether fewer replicas are sufficient.
func (t *tick) stabilize() {
	up, down := t.p.ScaleUp.StabilizationWindow, t.p.ScaleDown.StabilizationWindow
	switch {
	case t.n > t.lastTarget && !t.panic:
		least := -t.s.up.Greatest(t.at-up.Milliseconds(), -t.n)
		if to := max(t.lastTarget, least); to < t.n {
			newest, _ := t.s.up.Last(-to)
			t.set(RuleStabilize, -1, to, up.Seconds(), seconds(newest+up.Milliseconds()))
		}
	case t.n < t.lastTarget:
		greatest := t.s.down.Greatest(t.at-down.Milliseconds(), t.n)
		if to := min(t.lastTarget, greatest); to > t.n {
			newest, _ := t.s.down.Last(to)
			t.set(RuleStabilize, -1, to, down.Seconds(), seconds(newest+down.Milliseconds()))
		}
	}
}

// idle scales to and from zero, for policies with minReplicas 0.
//
//	last target   demand                        target
//	0             active                        at least 1
//	0             inactive                      0, although a value below its activation may propose 1
//	> 0           inactive for CooldownPeriod   0, at the rates of scaleDown
//	> 0           otherwise                     at least 1
//
// Three conditions prevent scale to zero: a panic window, missing signals, and a pod that did not report while no signal is active. Missing
// signals and a pod that did not report also stop the cooldown.
//
// Missing signals alone do not scale up from zero; only a fallback does. They also do not prevent an active signal from scaling up from
// zero. For example, a formula may fail at zero because the metrics of the pods do not exist, and the gateway's queue must still scale up
// the workload.
//
// With an objective, inactivity alone does not remove the last replica. After the cooldown, the objective determines the target. It may
// keep or start a replica for the next arrival.
//
// A stabilization window that is longer than the cooldown does not keep the last replicas, because the cooldown already shows inactivity.
func (t *tick) idle() {
	if t.p.MinReplicas > 0 {
		return
	}
	since := t.at - t.s.activeAt
	ends := t.s.activeAt + t.p.CooldownPeriod.Milliseconds()
	to := max(t.n, 1)
	switch {
	case t.inputs.degraded && t.lastTarget == 0 && !t.active:
		return
	case t.active:
		since = 1000 * IdleActive
	case t.panic:
		since = 1000 * IdlePanic
	case t.inputs.degraded:
		since = 1000 * IdleMissing
	case t.inputs.hidden && t.lastTarget > 0:
		since = 1000 * IdleHidden
	case t.hasObjective() && (t.lastTarget == 0 || t.at >= ends):
		to = t.n
	case t.lastTarget == 0 || t.at >= ends:
		to = 0
	}
	if to != t.n || to < t.lastTarget && to == 0 {
		t.set(RuleIdle, -1, to, seconds(since), seconds(ends))
	}
}
