package scaling

// atRisk adds a replacement for each replica on a node that is about to be interrupted, and the reserve for expected losses.
//
// The replacement remains in the target until the replica at risk is gone, even if the replacement is already ready. Otherwise the target
// would decrease while both replicas exist, and increase again in the next tick.
//
// The advice of the capacity group is from the previous tick. If its numbers were compared with the ready replicas of this tick, a replica
// that is no longer ready would lower the target before a tick has observed that the replica was deleted.
//
// The target may exceed a schedule ceiling, because the old and the new replicas exist together only for a short time.
func (t *tick) atRisk() {
	t.withoutNodes = t.n
	if risk, kept := clamp(t.o.Advice.AtRisk, 0, maxReplicas), t.atLeast(t.n); risk > 0 && kept > 0 {
		t.set(RuleAtRisk, -1, kept+risk, float64(risk), float64(clamp(t.o.Advice.Reserve, 0, risk)))
	}
}

// atLeast returns n, or minReplicas if it is greater. The methods atRisk and surge add their replicas to this number, because RuleBounds,
// which applies minReplicas, runs after them. For example, with minReplicas 3 and no demand, a surge of one must result in 4 replicas and
// not in 3.
func (t *tick) atLeast(n int32) int32 {
	if t.isPaused() || t.skips(RuleBounds, -1) {
		return n
	}
	return max(n, min(t.p.MinReplicas, t.maxReplicas()))
}

// surge adds replicas for a move to other nodes. It adds none to a workload with 0 replicas. While required signals are missing, surge
// keeps the replicas that atRisk and surge added in earlier ticks, because the target must not decrease during this time.
func (t *tick) surge() {
	extra := clamp(t.o.Advice.Surge, 0, maxReplicas)
	if t.inputs.degraded {
		extra = max(extra, t.s.extra-(t.n-t.withoutNodes))
	}
	if kept := t.atLeast(t.n); extra > 0 && kept > 0 {
		t.set(RuleSurge, -1, kept+extra, float64(extra), 0)
	} else if ended := t.s.extra - (t.n - t.withoutNodes); ended > 0 {
		// Replicas that atRisk or surge added in earlier ticks are no longer needed, so the target decreases. This Reason explains the decrease,
		// because no other rule records it.
		t.set(RuleSurge, -1, t.n, -float64(ended), 0)
	}
}

// capacity limits an increase to the number of replicas for which nodes can be launched and pods can be created. It never lowers the target
// below the current replicas: if some of them are still pending, Karpenter already launches nodes for their pods.
func (t *tick) capacity() {
	t.uncapped = t.n
	if limit := t.o.Advice.Cap; limit >= 0 {
		to := min(t.n, max(limit, t.current))
		rejected := 0.0
		switch {
		case t.o.Advice.Rejected:
			rejected = 1
		case t.d != nil && to < t.n:
			t.d.CapCause = t.o.Advice.CapCause
		}
		t.set(RuleCapacity, -1, to, float64(limit), rejected)
	}
}

// overrides reports whether an override of an operator applies in this run of the rules.
func (t *tick) overrides() bool { return t.operator && !t.skips(RuleOverride, -1) }

// withinOverride limits n to the bounds of the override. An override takes precedence over every rule before it, and takes effect
// immediately, for increases and for decreases. If Min exceeds Max, Min applies, because too many replicas do less harm than too few.
func (t *tick) withinOverride(n int32) int32 {
	o := &t.o.Operator
	if !t.overrides() {
		return n
	}
	if o.Max >= 0 {
		n = min(n, o.Max)
	}
	return max(n, min(o.Min, maxReplicas))
}

func (t *tick) override() {
	if t.overrides() {
		o := &t.o.Operator
		t.set(RuleOverride, -1, t.withinOverride(t.n), float64(o.Min), float64(o.Max))
	}
}

// isPaused reports whether an operator has paused the workload.
func (t *tick) isPaused() bool { return t.o.Operator.Paused && !t.skips(RulePaused, -1) }

// withinPause returns the current replicas if the workload is paused, and n otherwise. It runs after withinOverride, so a pause takes
// precedence over an override.
func (t *tick) withinPause(n int32) int32 {
	if t.isPaused() {
		return t.current
	}
	return n
}

func (t *tick) paused() {
	if t.isPaused() {
		t.set(RulePaused, -1, t.current, float64(t.current), 0)
	}
}

// maxReplicas returns the maximum of the policy, or the maximum of the managed HPA if it is less. The HPA would not apply a greater target,
// but gpuscaler would launch nodes for it.
func (t *tick) maxReplicas() int32 {
	if c := t.o.HPAMaxReplicas; c > 0 {
		return min(c, t.p.MaxReplicas)
	}
	return t.p.MaxReplicas
}

// withinBounds limits n to minReplicas and maxReplicas of the policy, and to the maximum of the managed HPA. There is one exception: a
// paused workload is not raised to minReplicas, because an operator who scales a broken model to 0 and pauses it needs 0 replicas. If
// minReplicas exceeds maxReplicas, maxReplicas applies, because it protects other workloads.
func (t *tick) withinBounds(n int32) int32 {
	if t.skips(RuleBounds, -1) {
		return n
	}
	if !t.isPaused() {
		n = max(n, t.p.MinReplicas)
	}
	return max(min(n, t.maxReplicas()), 0)
}

func (t *tick) bounds() {
	t.set(RuleBounds, -1, t.withinBounds(t.n), float64(t.p.MinReplicas), float64(t.maxReplicas()))
}

// withinTeam limits n to the workload's share of the limit of its team. This limit takes precedence over the bounds, a pause and an
// override, because replicas above the share would take resources from other workloads of the team.
func (t *tick) withinTeam(n int32) int32 {
	if l := &t.o.Limit; l.Limited && !t.skips(RuleTeamLimit, -1) {
		return max(min(n, l.Max), 0)
	}
	return n
}

func (t *tick) teamLimit() {
	l, limit := &t.o.Limit, 0.0
	if !l.Limited {
		return
	}
	if team := t.p.Team; team != nil && l.Index >= 0 && int(l.Index) < len(team.Limits) {
		limit = float64(team.Limits[l.Index].Max)
	}
	t.set(RuleTeamLimit, l.Index, t.withinTeam(t.n), limit, float64(l.Others))
}

// withinFinalLimits returns n after it was limited by RuleOverride, RulePaused, RuleBounds and RuleTeamLimit, in this order.
func (t *tick) withinFinalLimits(n int32) int32 {
	return t.withinTeam(t.withinBounds(t.withinPause(t.withinOverride(n))))
}
