package scaling

// idle is scale to zero, for policies with MinReplicas 0.
//
//	number in force   demand                        the rule makes it
//	0                 active                        at least 1: what is asked
//	0                 inactive                      0, although a value under its activation may ask for 1
//	> 0               inactive for CooldownPeriod   0, which the rates step down to
//	> 0               otherwise                     at least 1
//
// A panic forbids idling. Missing inputs do too, and stop the cooldown's clock; they wake nobody, a fallback apart, and keep nobody
// asleep: a formula may fail at zero because the pods' metrics are gone, and the gateway's queue wakes the workload all the same. So
// does a pod that did not report, while nothing else is active: it may be serving. The cooldown is the evidence of inactivity, so a
// longer stabilization window does not hold the last replicas beyond it.
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
		since = 1000 * idleActive
	case t.panic:
		since = 1000 * idlePanic
	case t.inputs.degraded:
		since = 1000 * idleMissing
	case t.inputs.hidden && t.lastTarget > 0:
		since = 1000 * idleHidden
	case t.lastTarget == 0 || t.at >= ends:
		to = 0
	}
	if to != t.n || to < t.lastTarget && to == 0 {
		t.set(RuleIdle, -1, to, seconds(since), seconds(ends))
	}
}
