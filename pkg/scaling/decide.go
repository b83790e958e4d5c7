package scaling

import "time"

// Decide is the brain: what is written (p), what is seen (o), what is remembered (s) and the time make a number with its reasons,
// and what to remember for the next tick. It is pure, never blocks and never fails: whatever it is handed, the number lies within
// the bounds of the policy. It does not keep o. It allocates only where the policy has a Formula.
func Decide(p *Policy, o Observation, s State, now time.Time) (Decision, State) {
	d := s.Decide(p, &o, now)
	return d, s
}

// Decide is the function Decide in place, for a loop over many workloads: the state moves on where it lies.
func (s *State) Decide(p *Policy, o *Observation, now time.Time) (d Decision) {
	elapsed := s.begin(p, o.Replicas, now)
	t := tick{p: p, o: o, s: s, d: &d, now: now, elapsed: elapsed}
	t.begin()
	t.run()
	t.finish()
	return d
}

// Without is the counterfactual: the number that the same tick would have made had one rule not been there. s is the state that
// Decide was handed, not the one it returned, which has the tick in its windows already.
//
// RulePropose or RuleCombine with an index is the signal of that index, as if it were not in the policy; RuleScheduleFloor or
// RuleScheduleCeiling with an index is one schedule. Index -1, and any index of another rule, is the whole rule.
func Without(p *Policy, o Observation, s State, now time.Time, rule Rule, index int8) int32 {
	elapsed := s.begin(p, o.Replicas, now)
	t := tick{p: p, o: &o, s: &s, now: now, elapsed: elapsed}
	t.begin()
	t.leaveOut(rule, index)
	t.run()
	return t.n
}

// tick is one pass over the rules. Rules read the state and change the number; only remember changes the state.
type tick struct {
	p       *Policy
	o       *Observation
	s       *State
	d       *Decision // nil in a counterfactual pass, whose reasons nobody reads
	now     time.Time
	at      int64
	elapsed int64 // milliseconds since the last tick

	// What is seen, the same for every pass of the tick.
	current, ready, loading int32 // never negative
	signals                 int8
	proposals               [MaxSignals]Proposal
	rounded                 [MaxSignals]int32 // asks, rounded up
	status                  [MaxSignals]SignalStatus
	forecasts               [MaxSignals]forecastState // with this tick; of signals with a forecast
	operator                bool                      // a person's bounds are in force

	skip      Rule // the rule left out; RuleNone in an ordinary pass
	skipIndex int8
	pass
}

// pass is what one run makes of it.
type pass struct {
	inputs       inputs
	active       bool    // demand stands above an activation
	lastTarget   int32   // the number in force, which changes are measured against
	n            int32   // the number so far
	unrounded    float64 // the same before rounding, as long as it is what the signals want
	requested    int32   // what the signals want; meaningless unless asked
	hasRequest   bool
	proposal     int32 // what the windows remember of this tick
	panic        bool
	panicUntil   int64
	floor        int32 // the schedule floor in force
	withoutNodes int32 // the number without what the nodes add or take
	uncapped     int32 // the number before the capacity cap
	binding      Rule
	index        int8
}

// run applies the rules in their order; the package documentation gives the reason for each place.
func (t *tick) run() {
	t.pass = pass{lastTarget: t.s.lastTarget, n: t.s.lastTarget, binding: RuleCombine, index: -1}
	if t.skips(RuleCombine, -1) {
		t.binding = RuleBounds
	}
	for rule := RulePropose; rule < numRules; rule++ {
		if t.skips(rule, -1) {
			continue
		}
		switch rule {
		case RulePropose:
			t.propose()
		case RuleCombine:
			t.combine()
		case RuleMissing:
			t.missing()
		case RuleFallback:
			t.fallback()
		case RuleGrowingDemand:
			t.growingDemand()
		case RuleLoading:
			t.keepLoading()
		case RuleTolerance:
			t.tolerance()
		case RulePanic:
			t.panicWindow()
		case RuleStabilize:
			t.stabilize()
		case RuleIdle:
			t.idle()
		case RuleRate:
			t.rate()
		case RuleForecast:
			t.forecast()
		case RuleScheduleFloor:
			t.scheduleFloor()
		case RuleScheduleCeiling:
			t.scheduleCeiling()
		case RuleAtRisk:
			t.atRisk()
		case RuleSurge:
			t.surge()
		case RuleCapacity:
			t.capacity()
		case RuleOverride:
			t.override()
		case RulePaused:
			t.paused()
		case RuleBounds:
			t.bounds()
		case RuleTeamLimit:
			t.teamLimit()
		}
	}
}

// leaveOut makes the next run a counterfactual. Only signals and schedules can be left out one by one; elsewhere an index says of
// which signal the rule spoke.
func (t *tick) leaveOut(rule Rule, index int8) {
	switch rule {
	case RulePropose, RuleCombine, RuleScheduleFloor, RuleScheduleCeiling:
	default:
		index = -1
	}
	t.skip, t.skipIndex = rule, index
}

// skips reports whether this pass leaves a rule out, or one signal or schedule of it.
func (t *tick) skips(rule Rule, index int8) bool { return t.skip == rule && t.skipIndex == index }

// without reports whether this pass leaves out a signal.
func (t *tick) without(i int8) bool { return t.skips(RuleCombine, i) || t.skips(RulePropose, i) }

// set is how a rule changes the number; it leaves the rule's Reason whether or not the number changed.
func (t *tick) set(rule Rule, index int8, to int32, a, b float64) {
	if t.d != nil {
		t.d.Reasons.add(Reason{Rule: rule, Index: index, From: t.n, To: to, A: a, B: b})
	}
	if to != t.n {
		t.n, t.unrounded, t.binding, t.index = to, float64(to), rule, index
	}
}

// keepAtLeast is set for a rule that raises the number to at least floor. The tolerance rule compares the recommendation before
// rounding, so that is raised too: otherwise a greater load, rounded up to floor already, would be dropped where a smaller one is not.
func (t *tick) keepAtLeast(rule Rule, index int8, floor int32, a, b float64) {
	unrounded := max(t.unrounded, float64(floor))
	t.set(rule, index, max(t.n, floor), a, b)
	t.unrounded = unrounded
}

// begin reads the observation with suspicion: a negative count is none.
func (t *tick) begin() {
	t.at = stamp(t.now)
	t.current = clamp(t.o.Replicas, 0, maxReplicas)
	t.ready = clamp(t.o.Ready, 0, maxReplicas)
	t.loading = clamp(t.o.Loading, 0, maxReplicas)
	t.signals = int8(min(len(t.p.Signals), MaxSignals))
	for i := range t.signals {
		t.read(i)
	}
	op := &t.o.Operator
	t.operator = (op.Min >= 0 || op.Max >= 0) && t.now.Before(op.Until)
}

// finish remembers the tick and fills in the decision.
func (t *tick) finish() {
	d := t.d
	t.withoutNodes = t.withinFinalLimits(t.withoutNodes)
	d.Uncapped = t.withinFinalLimits(t.uncapped)
	d.Replicas, d.Degraded = t.n, t.inputs.degraded
	d.Active = t.n > 0 && (t.isKeptActive() || t.inputs.degraded || t.inputs.hidden)
	d.Binding, d.BindingIndex = t.binding, t.index
	t.report()
	t.tie()
	t.remember()
	d.EarliestScaleDown, d.ScaleDownRule = t.earliestScaleDown()
}

// keeps reports whether something known keeps replicas: demand, a schedule or a person. The cooldown counts from its end.
func (t *tick) isKeptActive() bool {
	return t.active || t.floor > 0 || t.overrides() && t.o.Operator.Min > 0
}

func (t *tick) remember() {
	s := t.s
	switch {
	case t.isKeptActive():
		s.activeAt = t.at
	case t.inputs.degraded, t.inputs.hidden:
		// What nobody saw was not idle: the cooldown stands still meanwhile.
		s.activeAt += t.elapsed
	}
	s.at, s.panicUntil = t.at, t.panicUntil
	s.lastTarget, s.extra = t.withoutNodes, max(t.n-t.withoutNodes, 0)
	s.learn(t)
	s.down.expire(t.at - t.p.ScaleDown.StabilizationWindow.Milliseconds())
	s.up.expire(t.at - t.p.ScaleUp.StabilizationWindow.Milliseconds())
	s.down.push(t.at, t.proposal, s.lastTarget)
	s.up.push(t.at, -t.proposal, -s.lastTarget)
	if s.steps.last() != t.withoutNodes {
		s.steps.push(t.at, t.withoutNodes, longest(t.p))
	}
}

// tie finds the rule that would have made the same number had the binding one not been there.
func (t *tick) tie() {
	c := *t
	c.d = nil
	c.leaveOut(t.binding, t.index)
	c.run()
	t.d.Tied, t.d.TiedIndex = RuleNone, -1
	if c.n == t.n {
		t.d.Tied, t.d.TiedIndex = c.binding, c.index
	}
}
