package scaling

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Rule is one step of Decide. The constants are in the order in which the rules run; the package documentation says how conflicts between
// rules are resolved.
type Rule uint8

// The values of Rule. The comment of each rule has the meaning of Index, A and B in its Reason. Times are Unix seconds; 0 means that the
// time is not known. Index is -1 if the comment does not mention it.
const (
	RuleNone Rule = iota
	// RulePropose computes the proposal of each signal. It has no Reason; Decision.Proposals and Decision.Status hold its result.
	RulePropose
	// RuleCombine takes the greatest proposal, or the result of the formula. Index: the signal. A: replicas before rounding. B: the
	// signal's value.
	RuleCombine
	// RuleObjective takes the replicas of Decision.Plan, if they exceed the recommendation of the signals with a target. A: the replicas
	// that the objective needs. B: the objective.SafeReason.
	RuleObjective
	// RuleMissing prevents a scale-down while a required signal cannot be used. Index: the first such signal. A: the number of such
	// signals. B: the SignalStatus of the first.
	RuleMissing
	// RuleFallback applies the policy's fallback. Index: the signal that failed. A: failed polls in a row. B: the fallback replicas.
	RuleFallback
	// RuleGrowingDemand prevents a scale-down by utilization while demand or latency grows. Index: the signal that grows. A: its mean of the
	// last half minute. B: its mean of the last three minutes.
	RuleGrowingDemand
	// RuleLoading keeps replicas that are loading. A Mean measures only the ready replicas, so it could remove the others. Index: a Mean
	// above its target, or -1. A: loading replicas. B: ready replicas.
	RuleLoading
	// RuleTolerance ignores a small change. A: recommendation / last target. B: the tolerance.
	RuleTolerance
	// RulePanic prevents a scale-down after a burst. A: requested / ready replicas. B: the end of the panic window.
	RulePanic
	// RuleStabilize applies the stabilization windows. A: the length of the window in seconds. B: when the recommendation that sets the
	// target leaves the window.
	RuleStabilize
	// RuleIdle scales to zero after the cooldown, and from zero on demand. A: seconds without activity, or idleActive, idleHidden,
	// idleMissing or idlePanic. B: the end of the cooldown.
	RuleIdle
	// RuleRate limits the change per period. A: the index of the limiting rate in Direction.Rates; -1 if the direction is Disabled. B:
	// replicas at the start of the period.
	RuleRate
	// RuleForecast raises the target to the forecast. Index: the signal, or -1 for Observation.Forecast. A: replicas before rounding. B:
	// the mean of the signal's proposals over the window of the forecast.
	RuleForecast
	// RuleScheduleFloor raises the target to the greatest minimum of the open schedules. Index: the schedule. A: its minimum. B: when the
	// schedule ends. If Lead applies the minimum before the schedule opens, B is the negative of its start.
	RuleScheduleFloor
	// RuleScheduleCeiling lowers the target to the smallest maximum of the open schedules. Index: the schedule. A: its maximum. B: when the
	// schedule ends.
	RuleScheduleCeiling
	// RuleAtRisk adds replacements for replicas on nodes that are about to be interrupted. A: how many.
	RuleAtRisk
	// RuleSurge adds replicas for a move between NodePools. A: how many. A negative A is the number of replicas that RuleAtRisk and
	// RuleSurge added to the last target and that are no longer needed.
	RuleSurge
	// RuleCapacity stops a scale-up for which no node can be launched or no pod can be created. A: the cap. B: 1 if the API server rejects
	// further pods, else 0.
	RuleCapacity
	// RuleOverride applies the bounds of the override annotation. A: minimum, B: maximum; -1 where unset.
	RuleOverride
	// RulePaused keeps the current replicas of a paused workload. A: the current replicas.
	RulePaused
	// RuleBounds applies minReplicas and maxReplicas. A: minReplicas. B: maxReplicas of the policy, or of the managed HPA if that is less.
	RuleBounds
	// RuleTeamLimit applies the workload's share of a team limit. Index: the limit in Policy.Team.Limits. A: the limit. B: the amount of
	// the resource that is not available to this workload; -1 if the amount that one of its replicas requests is not known.
	RuleTeamLimit
	numRules
)

// SignalStatus is whether the reading of a signal can be used in a tick.
type SignalStatus uint8

const (
	// SignalOK means that the signal can raise and lower the target.
	SignalOK SignalStatus = iota
	// SignalMissing means that the signal has no usable value.
	SignalMissing
	// SignalStale means that the reading is older than MaxAge. It can raise the target and cannot lower it.
	SignalStale
	// SignalLowCoverage means that too few of the ready pods reported a value. The reading can raise the target and cannot lower it.
	SignalLowCoverage
	// SignalUnmeasured means that no replica is ready, so there is nothing to measure: a Mean has no replicas, or the source has no data
	// because no pod can report yet.
	SignalUnmeasured
)

// Reason is the effect of one rule: the target before and after it. A and B are only for Reason.Text. Code that needs a number should read
// a field of Decision.
type Reason struct {
	Rule     Rule
	Index    int8 // the signal, schedule or limit that the rule is about; -1: none
	From, To int32
	A, B     float64 // see the comment of the rule
}

// MaxReasons is the maximum number of reasons of a decision. Each rule has at most one. If there are more, the oldest reason that did not
// change the target is dropped.
const MaxReasons = 16

// Reasons is the list of reasons of a decision, in the order of the rules.
type Reasons struct {
	list [MaxReasons]Reason
	n    uint8
}

// ReasonsOf returns Reasons with the first MaxReasons entries of list.
func ReasonsOf(list []Reason) (r Reasons) {
	r.n = uint8(copy(r.list[:], list))
	return r
}

// All returns the reasons in the order of the rules. The slice aliases r.
func (r *Reasons) All() []Reason { return r.list[:r.n] }

// add appends a reason.
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
	// Replicas is the target. When Degraded it is below the current replicas only because of a schedule ceiling, an override, the bounds
	// or a team limit.
	Replicas int32
	// Requested is the number of replicas that the rule combine computes from the signals; -1 if no signal can be used.
	Requested int32
	// Uncapped is the target without the capacity cap. Capacity groups use it as the demand of the workload.
	Uncapped int32
	// Extra is the number of replicas in Uncapped that RuleAtRisk and RuleSurge added, without those that the later bounds and limits
	// removed.
	Extra int32
	// Room is the number of replicas by which Uncapped could increase until an override, a pause, the bounds or a team limit prevents a
	// further increase.
	Room int32
	// Active reports that the workload needs replicas: because of demand above an activation value, a schedule floor, an override, or
	// missing signals. It is false during the cooldown, and when Replicas is 0.
	Active bool
	// Degraded reports that required signals could not be used.
	Degraded bool
	// ScaleDownRule is the rule that prevents a decrease before EarliestScaleDown.
	ScaleDownRule Rule
	// Binding is the last rule that changed the target, or RuleCombine if no rule changed it. Tied is the rule that would give the same
	// target without Binding, or RuleNone if the target would differ.
	Binding, Tied           Rule
	BindingIndex, TiedIndex int8
	Proposals               [MaxSignals]int32 // replicas that each signal needs; -1: it takes no part
	Status                  [MaxSignals]SignalStatus
	// EarliestScaleDown is the earliest time at which the target can decrease if all demand ends now. ScaleDownRule prevents a decrease
	// until then. The zero time means the next tick if ScaleDownRule is RuleNone, and a time that is not known otherwise.
	EarliestScaleDown time.Time
	// Plan is how many replicas the objective needs, and why; nil for a policy without an objective. It must not be changed.
	Plan    *objective.Plan
	Reasons Reasons
}
