package scaling

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
)

// Decide computes the target of one workload, the reasons for it, and the state for the next tick. It is a pure function and never fails:
// for any observation the target is within the bounds of the policy. It does not keep a reference to o. It allocates memory only if the
// policy has a Formula or an Objective.
func Decide(p *Policy, o Observation, s State, now time.Time) (Decision, State) {
	s.planner = s.planner.Clone()
	d := s.Decide(p, &o, now)
	return d, s
}

// Decide is like the function Decide, but updates the state in place.
func (s *State) Decide(p *Policy, o *Observation, now time.Time) (d Decision) {
	elapsed := s.begin(p, o.Replicas, now)
	t := tick{p: p, o: o, s: s, d: &d, now: now, elapsed: elapsed}
	t.begin()
	t.run()
	t.finish()
	return d
}

// Without returns the target that the same tick would have had without one rule. s is the state before the tick, and not the state that
// Decide returned for it.
//
// rule and index have the meaning that they have in a Reason. For RulePropose and RuleCombine, index selects the signal that is left out;
// for RuleScheduleFloor and RuleScheduleCeiling, the schedule. If index is -1, and for all other rules, the whole rule is left out.
func Without(p *Policy, o Observation, s State, now time.Time, rule Rule, index int8) int32 {
	// This tick is hypothetical. s shares the planner with the caller, so the planner is cloned before it learns from this tick.
	if !s.planner.Observed(history.Stamp(now)) {
		s.planner = s.planner.Clone()
	}
	elapsed := s.begin(p, o.Replicas, now)
	t := tick{p: p, o: &o, s: &s, now: now, elapsed: elapsed}
	t.begin()
	t.leaveOut(rule, index)
	t.run()
	return t.n
}

// tick is the evaluation of one tick. The rules read the state but change only the target. At the end of the tick, the method remember
// updates the state.
type tick struct {
	p       *Policy
	o       *Observation
	s       *State
	d       *Decision // nil for a run that leaves out a rule, because such a run records no reasons
	now     time.Time
	at      int64
	elapsed int64 // milliseconds since the previous tick

	// The fields from current to operator do not change during a tick, even if Decide runs the rules a second time without one of them (see
	// tie).
	current, ready, loading int32 // never negative
	signals                 int8
	proposals               [MaxSignals]Proposal
	rounded                 [MaxSignals]int32 // number of replicas of each proposal, rounded up
	status                  [MaxSignals]SignalStatus
	// state of each signal's forecast after this tick
	forecasts [MaxSignals]history.Forecast
	operator  bool // an override applies at this time

	skip      Rule // the rule that this run leaves out; RuleNone if none
	skipIndex int8
	pass
}

// pass contains the results of one run of all rules. A tick has up to two runs (see tie).
type pass struct {
	inputs       inputs
	active       bool    // demand is above an activation value
	lastTarget   int32   // the target of the previous tick; the rules compare the new target with it
	n            int32   // the target after the rules that ran so far
	unrounded    float64 // the target before it is rounded up; equal to n after a rule has changed the target
	requested    int32   // number of replicas that the signals need; valid if hasRequest is true
	hasRequest   bool
	proposal     int32 // the recommendation of this tick, which the stabilization windows store
	panic        bool
	panicUntil   int64
	floor        int32 // the greatest schedule floor that applies
	withoutNodes int32 // the target without the changes by RuleAtRisk, RuleSurge and RuleCapacity
	uncapped     int32 // the target before the capacity cap
	binding      Rule
	index        int8
}

// run applies all rules, in the order of their constants.
func (t *tick) run() {
	t.pass = pass{lastTarget: t.s.lastTarget, n: t.s.lastTarget, binding: RuleCombine, index: -1}
	if t.skips(RuleCombine, -1) {
		t.binding = RuleBounds
	}
	for rule := RulePropose; rule < numRules; rule++ {
		if !t.skips(rule, -1) {
			t.apply(rule)
		}
	}
}

// apply runs one rule. A rule that computes what the signals need is run directly, and every other rule by the method limit. A list of
// functions cannot replace the switch, because a call of a function value would move the tick to the heap.
func (t *tick) apply(rule Rule) {
	switch rule {
	case RulePropose:
		t.propose()
	case RuleCombine:
		t.combine()
	case RuleObjective:
		t.objective()
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
	default:
		t.limit(rule)
	}
}

// limit runs one of the rules that follow the rules about signals: the rules about schedules and nodes, the rules for an override and a
// pause, the bounds, and the team limit.
func (t *tick) limit(rule Rule) {
	switch rule {
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

// leaveOut makes the next run skip a rule or a part of it. For a rule about signals or schedules, index selects the signal or schedule that
// is skipped. Every other rule is skipped completely: its Reason has the Index of a signal only to name the cause of the effect.
func (t *tick) leaveOut(rule Rule, index int8) {
	switch rule {
	case RulePropose, RuleCombine, RuleScheduleFloor, RuleScheduleCeiling:
	default:
		index = -1
	}
	t.skip, t.skipIndex = rule, index
}

// skips reports whether this run leaves out a rule (index -1), or one signal or schedule of the rule.
func (t *tick) skips(rule Rule, index int8) bool { return t.skip == rule && t.skipIndex == index }

// without reports whether this run leaves out signal i, in RulePropose or in RuleCombine.
func (t *tick) without(i int8) bool { return t.skips(RuleCombine, i) || t.skips(RulePropose, i) }

// set sets the target to the result of a rule. It records a Reason even if the target does not change.
func (t *tick) set(rule Rule, index int8, to int32, a, b float64) {
	if t.d != nil {
		t.d.Reasons.add(Reason{Rule: rule, Index: index, From: t.n, To: to, A: a, B: b})
	}
	if to != t.n {
		t.n, t.unrounded, t.binding, t.index = to, float64(to), rule, index
	}
}

// keepAtLeast raises the target to at least floor and records a Reason. It also raises t.unrounded, the target before rounding, to at least
// floor, because RuleTolerance reads t.unrounded. Otherwise a smaller recommendation could result in a greater target. For example, with
// floor 11 and last target 10, a recommendation of 9 is raised to 11, but a recommendation of 10.9, which is rounded up to 11, could be
// ignored as too small a change.
func (t *tick) keepAtLeast(rule Rule, index int8, floor int32, a, b float64) {
	unrounded := max(t.unrounded, float64(floor))
	t.set(rule, index, max(t.n, floor), a, b)
	t.unrounded = unrounded
}

// begin copies the numbers of the observation, evaluates each signal, and checks whether an override applies. It treats a negative number
// of replicas as 0.
func (t *tick) begin() {
	t.at = history.Stamp(t.now)
	t.current = clamp(t.o.Replicas, 0, maxReplicas)
	t.ready = clamp(t.o.Ready, 0, maxReplicas)
	t.loading = clamp(t.o.Loading, 0, maxReplicas)
	t.signals = int8(min(len(t.p.Signals), MaxSignals))
	for i := range t.signals {
		t.read(i)
	}
	t.observe()
	op := &t.o.Operator
	t.operator = (op.Min >= 0 || op.Max >= 0) && t.now.Before(op.Until)
}

// finish sets the fields of the decision and updates the state.
func (t *tick) finish() {
	d := t.d
	t.withoutNodes = t.withinFinalLimits(t.withoutNodes)
	d.Replicas, d.Degraded, d.Requested = t.n, t.inputs.degraded, -1
	if t.hasRequest {
		d.Requested = t.requested
	}
	d.Uncapped = t.withinFinalLimits(t.uncapped)
	d.Extra = max(d.Uncapped-t.withoutNodes, 0)
	d.Room = max(t.withinFinalLimits(maxReplicas)-d.Uncapped, 0)
	d.Active = t.n > 0 && (t.isKeptActive() || t.inputs.degraded || t.inputs.hidden)
	d.Binding, d.BindingIndex = t.binding, t.index
	d.Plan = t.s.planner.Plan()
	t.report()
	t.tie()
	t.remember()
	d.EarliestScaleDown, d.ScaleDownRule = t.earliestScaleDown()
}

// isKeptActive reports whether demand, a schedule floor or an override with a minimum requires replicas. The cooldown starts after the last
// tick in which this is true.
func (t *tick) isKeptActive() bool {
	return t.active || t.floor > 0 || t.overrides() && t.o.Operator.Min > 0
}

// remember updates the state with the result of the tick.
func (t *tick) remember() {
	s := t.s
	switch {
	case t.isKeptActive():
		s.activeAt = t.at
	case t.inputs.degraded, t.inputs.hidden:
		// It is not known whether the workload was active in this tick, so the duration of the tick is not counted in the cooldown.
		s.activeAt += t.elapsed
	}
	s.at, s.panicUntil = t.at, t.panicUntil
	s.lastTarget, s.extra = t.withoutNodes, max(t.n-t.withoutNodes, 0)
	s.learn(t)
	s.down.Expire(t.at - t.p.ScaleDown.StabilizationWindow.Milliseconds())
	s.up.Expire(t.at - t.p.ScaleUp.StabilizationWindow.Milliseconds())
	s.down.Push(t.at, t.proposal, s.lastTarget)
	s.up.Push(t.at, -t.proposal, -s.lastTarget)
	if s.steps.Last() != t.withoutNodes {
		s.steps.Push(t.at, t.withoutNodes, longest(t.p))
	}
}

// tie checks whether the target would be the same without the binding rule. If so, it sets Decision.Tied to the rule that then determines
// the target. Otherwise it sets Decision.Tied to RuleNone.
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
