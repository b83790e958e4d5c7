package scaling

// idle scales to and from zero, for policies with minReplicas 0.
//
//	last target   demand                        target
//	0             active                        at least 1
//	0             inactive                      0, although a value below its activation may propose 1
//	> 0           inactive for CooldownPeriod   0, at the rates of scaleDown
//	> 0           otherwise                     at least 1
//
// Three conditions prevent scale to zero: a panic window, missing signals, and a pod that did not report while no signal is active. The
// last two also stop the cooldown.
//
// Missing signals alone do not scale up from zero (only a fallback does), and they do not prevent an active signal from doing so. For
// example, a formula may fail at zero because the metrics of the pods do not exist, and the gateway's queue must still scale up the
// workload.
//
// With an objective, inactivity alone does not remove the last replica: after the cooldown, the target is that of the objective, which may
// keep a replica for the next arrival, also at zero.
//
// The cooldown already shows inactivity, so a longer stabilization window does not keep the last replicas.
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
	case t.hasObjective() && (t.lastTarget == 0 || t.at >= ends):
		to = t.n
	case t.lastTarget == 0 || t.at >= ends:
		to = 0
	}
	if to != t.n || to < t.lastTarget && to == 0 {
		t.set(RuleIdle, -1, to, seconds(since), seconds(ends))
	}
}
