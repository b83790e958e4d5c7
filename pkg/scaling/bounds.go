package scaling

// atRisk asks for the successors of replicas that are about to lose their node, before it happens. The number counts those that
// stay, so each one at risk stands on top of it for as long as it is there: a successor that is Ready by now is one of the number and
// no spare, and to count it as one would end it, or another, before its predecessor went, and ask for it anew in the next tick. This
// and the surge come after the ceiling and may pass it: they overlap, they serve no demand.
func (t *tick) atRisk() {
	t.withoutNodes = t.n
	if risk, stays := clamp(t.o.Advice.AtRisk, 0, t.ready), t.atLeast(t.n); risk > 0 && stays > 0 {
		t.set(RuleAtRisk, -1, stays+risk, float64(risk), 0)
	}
}

// atLeast is the number with the policy's minimum, which the bounds see to last: what the nodes add stands on top of it. With nothing
// asked for and MinReplicas 3, a surge of one is a fourth replica and not the first.
func (t *tick) atLeast(n int32) int32 {
	if t.isPaused() || t.skips(RuleBounds, -1) {
		return n
	}
	return max(n, min(t.p.MinReplicas, t.maxReplicas()))
}

// surge adds the replicas of a paced move; a workload at zero has nothing to move. While inputs are missing, what the nodes had
// added before stays as well, or the end of a surge would be a fall.
func (t *tick) surge() {
	extra := clamp(t.o.Advice.Surge, 0, maxReplicas)
	if t.inputs.degraded {
		extra = max(extra, t.s.extra-(t.n-t.withoutNodes))
	}
	if stays := t.atLeast(t.n); extra > 0 && stays > 0 {
		t.set(RuleSurge, -1, stays+extra, float64(extra), 0)
	}
}

// capacity stops a rise at what nodes can come for. It takes nothing back: a pod that waits is what makes a node come, and one
// that runs is no business of the nodes.
func (t *tick) capacity() {
	t.uncapped = t.n
	if limit := t.o.Advice.Cap; limit >= 0 {
		to := min(t.n, max(limit, t.current))
		t.set(RuleCapacity, -1, to, float64(limit), float64(t.n))
	}
}

// overrides reports whether a person's bounds are in force.
func (t *tick) overrides() bool { return t.operator && !t.skips(RuleOverride, -1) }

// overridden applies a person's bounds. They win over every rule before them, both ways and at once. Where Min lies above Max,
// Min wins: too many replicas are the smaller harm at 3 a.m.
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

// freezes reports whether a person has paused the workload.
func (t *tick) isPaused() bool { return t.o.Operator.Paused && !t.skips(RulePaused, -1) }

// frozen keeps the current replicas; a pause wins over an override.
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

// ceiling is the most replicas that can come: a number beyond the follower's maxReplicas would be served and never followed, and
// nodes would be bought for replicas that nobody makes.
func (t *tick) maxReplicas() int32 {
	if c := t.o.HPAMaxReplicas; c > 0 {
		return min(c, t.p.MaxReplicas)
	}
	return t.p.MaxReplicas
}

// bounded keeps the policy's bounds, narrowed by the platform's and by the follower's maximum. They always win, with one exception: a paused workload is not
// lifted to MinReplicas, because who scales a broken model to 0 by hand and pauses it wants it at 0. Where MinReplicas lies above
// MaxReplicas, MaxReplicas wins: it protects the others.
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

// withinTeam applies the limit of the workload's team. Package teams has divided it among the team's workloads. It wins over the
// bounds, a pause and an override, because what one workload takes beyond it another one of the team has to give.
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

// limited is what the rules after the capacity cap make of another number.
func (t *tick) withinFinalLimits(n int32) int32 {
	return t.withinTeam(t.withinBounds(t.withinPause(t.withinOverride(n))))
}
