package scaling

import (
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Rule is one step of Decide. The constants are in the order in which the rules run. The package documentation describes which rule applies
// if two rules disagree.
type Rule uint8

// Values of Rule. The comment of each rule describes Index, A and B in its Reason. Times are in Unix seconds, and 0 means that the time is
// not known. If a comment does not mention Index, it is -1.
const (
	RuleNone Rule = iota
	// RulePropose computes the proposal of each signal. It has no Reason. Its result is in Decision.Proposals and Decision.Status.
	RulePropose
	// RuleCombine takes the greatest proposal, or the result of the formula. Index: the signal. A: replicas before rounding. B: the
	// signal's value.
	RuleCombine
	// RuleObjective uses the replicas of Decision.Plan if they exceed the replicas that the signals with a target need. A: the replicas that
	// the objective needs. B: the objective.SafeReason.
	RuleObjective
	// RuleMissing prevents a scale-down while a required signal cannot be used. Index: the first signal that cannot be used. A: the number of
	// required signals that cannot be used. B: the SignalStatus of the first signal that cannot be used.
	RuleMissing
	// RuleFallback applies the policy's fallback. Index: the signal that failed. A: failed polls in a row. B: the fallback replicas.
	RuleFallback
	// RuleGrowingDemand prevents a scale-down because of low utilization while demand or latency grows. Index: the signal that grows. A: the
	// mean of this signal over the last half minute. B: its mean over the last three minutes.
	RuleGrowingDemand
	// RuleLoading keeps replicas that are loading. A signal of kind Mean measures only the ready replicas, so its proposal can be too small
	// while replicas are loading. Index: the signal of kind Mean that is above its target, or -1. A: the number of loading replicas. B: the
	// number of ready replicas.
	RuleLoading
	// RuleTolerance ignores a small change. A: the recommendation divided by the last target. B: the tolerance.
	RuleTolerance
	// RulePanic prevents a scale-down after a burst. A: the requested replicas divided by the ready replicas. B: the end of the panic window.
	RulePanic
	// RuleStabilize applies the stabilization windows. A: the length of the window in seconds. B: the time at which the window no longer
	// contains the recommendation that determines the target.
	RuleStabilize
	// RuleIdle scales to zero after the cooldown, and scales up from zero if there is demand. A: the seconds without activity, or one of
	// the constants IdleActive, IdleHidden, IdleMissing and IdlePanic. B: the end of the cooldown.
	RuleIdle
	// RuleRate limits the change in a period. A: the index in Direction.Rates of the rate that limits the change; -1 if the direction is
	// Disabled. B: the replicas at the start of the period.
	RuleRate
	// RuleForecast raises the target to the forecast. Index: the signal, or -1 for Observation.Forecast. A: the replicas before rounding. B:
	// the mean of the signal's proposals over the window of the forecast.
	RuleForecast
	// RuleScheduleFloor raises the target to the greatest minimum of the open schedules. Index: the schedule. A: its minimum. B: the time at
	// which the schedule ends. If the minimum applies before the schedule opens, because of Lead, B is the start of the schedule as a negative
	// number.
	RuleScheduleFloor
	// RuleScheduleCeiling lowers the target to the smallest maximum of the open schedules. Index: the schedule. A: its maximum. B: the time at
	// which the schedule ends.
	RuleScheduleCeiling
	// RuleAtRisk adds replacements for replicas on nodes that are about to be interrupted, and a reserve for expected losses of nodes. A: the
	// number of added replicas. B: how many of them are the reserve.
	RuleAtRisk
	// RuleSurge adds replicas for a move to other nodes. A: the number of these replicas. If A is negative, it is the number of replicas
	// that RuleAtRisk and RuleSurge added to the last target and that are no longer needed.
	RuleSurge
	// RuleCapacity prevents a scale-up for which no node can be launched or no pod can be created. A: the cap. B: 1 if the API server rejects
	// further pods, otherwise 0.
	RuleCapacity
	// RuleOverride applies the bounds of the override annotation. A: the minimum. B: the maximum. A bound that is not set is -1.
	RuleOverride
	// RulePaused keeps the current replicas of a paused workload. A: the current replicas.
	RulePaused
	// RuleBounds applies minReplicas and maxReplicas. A: minReplicas. B: maxReplicas of the policy, or of the managed HPA if it is less.
	RuleBounds
	// RuleTeamLimit applies the workload's share of a team limit. Index: the limit in Policy.Team.Limits. A: the limit. B: the amount of the
	// resource that is not available to this workload; -1 if it is unknown how much of the resource one of its replicas requests.
	RuleTeamLimit
	numRules
)

var ruleNames = [numRules]string{
	RuleNone: "none", RulePropose: "signal", RuleCombine: "combine", RuleObjective: "objective",
	RuleMissing: "missing signal", RuleFallback: "fallback",
	RuleGrowingDemand: "growing demand", RuleLoading: "loading", RuleTolerance: "tolerance", RulePanic: "panic window",
	RuleStabilize: "stabilization window", RuleIdle: "cooldown period", RuleRate: "rate limit", RuleForecast: "forecast",
	RuleScheduleFloor: "schedule floor", RuleScheduleCeiling: "schedule ceiling", RuleAtRisk: "nodes at risk", RuleSurge: "surge",
	RuleCapacity: "capacity", RuleOverride: "override", RulePaused: "paused", RuleBounds: "bounds", RuleTeamLimit: "team limit",
}

// String returns the name of the rule for tables, metrics and JSON. A rule that an HPA also has is named as in the documentation of the
// HPA.
func (r Rule) String() string {
	if r < numRules {
		return ruleNames[r]
	}
	return "rule " + strconv.Itoa(int(r))
}

// SignalStatus describes whether the reading of a signal can be used in a tick, and why not.
type SignalStatus uint8

const (
	// SignalOK means that the signal can raise and lower the target.
	SignalOK SignalStatus = iota
	// SignalMissing means that the signal has no usable value.
	SignalMissing
	// SignalStale means that the reading is older than MaxAge. It can raise the target but cannot lower it.
	SignalStale
	// SignalLowCoverage means that too few of the ready pods reported a value. The reading can raise the target but cannot lower it.
	SignalLowCoverage
	// SignalUnmeasured means that the signal has no usable value because no replica is ready. Either no pod reports to the source so far, or
	// the signal is of kind Mean, which is a value per ready replica.
	SignalUnmeasured
)

// String returns the status in a few words, such as "stale".
func (s SignalStatus) String() string {
	return [...]string{"ok", "missing", "stale", "low coverage", "no ready replica"}[min(s, SignalUnmeasured)]
}

// Unusable reports whether the reading is missing, stale or covers too few pods, so that it cannot lower the target.
func (s SignalStatus) Unusable() bool { return s != SignalOK && s != SignalUnmeasured }

// Reason is the effect of one rule: the target before the rule and after it. A and B are numbers for the texts of package explain, and
// differ for each rule. Code that needs a number must read a field of Decision.
type Reason struct {
	Rule     Rule
	Index    int8 // index of the signal, schedule or limit; -1 if there is none
	From, To int32
	A, B     float64 // see the comment of the rule
}

// Values of the field A in a Reason whose Rule is RuleIdle. Every other value of A is a number of seconds without activity.
const (
	IdleActive  = 0  // demand is above an activation value
	IdleHidden  = -1 // a pod that did not report may be serving requests
	IdleMissing = -2 // signals are missing
	IdlePanic   = -3 // the panic window is open
)

// MaxReasons is the maximum number of reasons of a decision. Each rule has at most one reason. If a further reason is added, the first
// reason that did not change the target is dropped.
const MaxReasons = 16

// Reasons contains the reasons of a decision, in the order of the rules.
type Reasons struct {
	list [MaxReasons]Reason
	n    uint8
}

// ReasonsOf returns Reasons that contain the first MaxReasons entries of list.
func ReasonsOf(list []Reason) (r Reasons) {
	r.n = uint8(copy(r.list[:], list))
	return r
}

// All returns the reasons in the order of the rules. The slice shares memory with r.
func (r *Reasons) All() []Reason { return r.list[:r.n] }

// add appends a reason. If there are already MaxReasons reasons, it first drops one of them (see MaxReasons).
func (r *Reasons) add(reason Reason) {
	if r.n == MaxReasons {
		i := 0
		for i < MaxReasons-1 && r.list[i].From != r.list[i].To {
			i++
		}
		copy(r.list[i:], r.list[i+1:])
		r.n--
	}
	r.list[r.n] = reason
	r.n++
}

// Decision is the result of one tick for one workload.
type Decision struct {
	// Replicas is the target. If Degraded is true, the target can be below the current replicas only because of a schedule ceiling, an
	// override, the bounds or a team limit.
	Replicas int32
	// Requested is the number of replicas that RuleCombine computes from the signals. It is -1 if no signal can be used.
	Requested int32
	// Uncapped is the target without the capacity cap. Capacity groups use it as the demand of the workload.
	Uncapped int32
	// Extra is the number of replicas in Uncapped that RuleAtRisk and RuleSurge added. It does not include replicas that a later rule removed
	// because of a bound or a limit.
	Extra int32
	// Room is the number of replicas by which Uncapped could still increase before an override, a pause, the bounds or a team limit prevents a
	// further increase.
	Room int32
	// Active is true if the workload needs replicas because of demand above an activation value, a schedule floor, an override, or missing
	// signals. It is false during the cooldown, and if Replicas is 0.
	Active bool
	// Degraded is true if required signals could not be used.
	Degraded bool
	// ScaleDownRule is the rule that prevents a decrease before EarliestScaleDown.
	ScaleDownRule Rule
	// Binding is the last rule that changed the target, or RuleCombine if no rule changed it. If the target would be the same without the rule
	// Binding, Tied is the rule that would then determine it. Otherwise Tied is RuleNone.
	Binding, Tied           Rule
	BindingIndex, TiedIndex int8
	Proposals               [MaxSignals]int32 // number of replicas that each signal needs; -1 if RuleCombine does not use the signal
	Status                  [MaxSignals]SignalStatus
	// EarliestScaleDown is the earliest time at which the target can decrease if all demand ends now. Until then, ScaleDownRule prevents a
	// decrease. If EarliestScaleDown is zero and ScaleDownRule is RuleNone, the target can decrease in the next tick. If it is zero and
	// ScaleDownRule is another rule, the time is not known.
	EarliestScaleDown time.Time
	// Plan contains the number of replicas that the objective needs, and why. It is nil for a policy without an objective. It must not be
	// changed.
	Plan *objective.Plan
	// CapCause is the reason why the capacity group caps the target. It is nil if the group does not lower the target, or if the API
	// server rejects further pods. It must not be changed.
	CapCause *capcause.Cause `json:",omitempty"`
	Reasons  Reasons
}
