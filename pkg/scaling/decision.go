package scaling

import "time"

// Rule is one step of Decide. The constants are in the order in which the rules run; the package documentation says how conflicts between
// rules are resolved.
type Rule uint8

// The comment of each rule gives the meaning of Index, A and B in its Reason. Times are Unix seconds; 0 is a time that is not known.
// Index is -1 where the comment does not name it.
const (
	RuleNone Rule = iota
	// RulePropose computes the proposal of each signal. It has no Reason; Decision.Proposals and Decision.Status hold its result.
	RulePropose
	// RuleCombine takes the greatest proposal, or the result of the formula. Index: the signal. A: replicas before rounding. B: the
	// signal's value.
	RuleCombine
	// RuleMissing prevents a scale-down while a required signal cannot be used. Index: the first such signal. A: how many there are.
	// B: the SignalStatus of the first.
	RuleMissing
	// RuleFallback applies the policy's fallback. Index: the signal that failed. A: failed polls in a row. B: the fallback replicas.
	RuleFallback
	// RuleGrowingDemand prevents a scale-down by utilization while demand or latency grows. Index: the signal that grows. A: its mean of the
	// last half minute. B: its mean of the last three minutes.
	RuleGrowingDemand
	// RuleLoading keeps replicas that are loading from being removed by a mean of the ready ones. Index: a mean above its target. A:
	// loading replicas. B: ready replicas.
	RuleLoading
	// RuleTolerance ignores a small change. A: recommendation / last target. B: the tolerance.
	RuleTolerance
	// RulePanic prevents a scale-down after a burst. A: requested / ready replicas. B: the end of the panic window.
	RulePanic
	// RuleStabilize applies the stabilization windows. A: the window in seconds. B: when the recommendation that counts leaves it.
	RuleStabilize
	// RuleIdle scales to zero after the cooldown, and from zero on demand. A: seconds without activity, or one of the idle constants. B:
	// the end of the cooldown.
	RuleIdle
	// RuleRate limits the change per period. A: index in Direction.Rates, -1 for Disabled. B: replicas at the start of the period.
	RuleRate
	// RuleForecast keeps replicas for the forecast. Index: the signal, -1 for Observation.Forecast. A: replicas before rounding. B: the
	// signal's mean proposal over its window.
	RuleForecast
	// RuleScheduleFloor raises to the greatest minimum of the open schedules. Index: the schedule. A: its minimum. B: its end; the negative
	// of its start where Lead applies it early.
	RuleScheduleFloor
	// RuleScheduleCeiling lowers to the smallest maximum of the open schedules. Index: the schedule. A: its maximum. B: its end.
	RuleScheduleCeiling
	// RuleAtRisk adds replacements for replicas on nodes that are about to be interrupted. A: how many.
	RuleAtRisk
	// RuleSurge adds replicas for a move between NodePools. A: how many.
	RuleSurge
	// RuleCapacity stops a scale-up for which no node can be launched. A: the cap. B: the target without it.
	RuleCapacity
	// RuleOverride applies the bounds of the override annotation. A: minimum, B: maximum; -1 where unset.
	RuleOverride
	// RulePaused keeps the current replicas of a paused workload. A: the current replicas.
	RulePaused
	// RuleBounds applies minReplicas and maxReplicas. A: minimum. B: maximum, or the managed HPA's where that is less.
	RuleBounds
	// RuleTeamLimit applies the workload's share of a team limit. Index: of Policy.Team.Limits. A: the limit. B: the units that are not
	// available to the workload, -1 where the amount that a replica requests is not known.
	RuleTeamLimit
	numRules
)

// SignalStatus says how a signal took part in a tick.
type SignalStatus uint8

const (
	// SignalOK raises and lowers the target.
	SignalOK SignalStatus = iota
	// SignalMissing has no usable value.
	SignalMissing
	// SignalStale is older than MaxAge. It can raise the target and cannot lower it.
	SignalStale
	// SignalLowCoverage was reported by too few pods. It can raise the target and cannot lower it.
	SignalLowCoverage
	// SignalUnmeasured has no ready replica to measure: a mean of no replicas, or no data about pods that cannot report yet.
	SignalUnmeasured
)

// Reason is the effect of one rule: the target before and after it. A and B are for Text alone; code that needs a number reads a field
// of Decision.
type Reason struct {
	Rule     Rule
	Index    int8 // the signal, schedule or limit that the rule is about; -1: none
	From, To int32
	A, B     float64 // see the comment of the rule
}

// MaxReasons is the greatest number of reasons of a decision. Each rule has at most one. If more rules have one, the oldest reason
// without a change is dropped.
const MaxReasons = 16

// Reasons is the list of reasons of a decision, in the order of the rules.
type Reasons struct {
	list [MaxReasons]Reason
	n    uint8
}

// ReasonsOf returns the Reasons that hold a list; entries beyond MaxReasons are dropped.
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
	// Requested is the number of replicas that the signals need together; -1 if no signal can be used.
	Requested int32
	// Uncapped is the target without the capacity cap. Capacity groups count it as demand.
	Uncapped int32
	// Extra is the part of Uncapped that RuleAtRisk and RuleSurge added and the bounds and limits left.
	Extra int32
	// Room is the number of replicas that could be added to Uncapped before an override, a pause, the bounds or a team limit that cuts the
	// target stops them.
	Room int32
	// Active reports that something keeps replicas: demand above an activation value, a schedule, an override, or missing signals. It
	// is false during the cooldown, and when Replicas is 0.
	Active bool
	// Degraded reports that required signals could not be used.
	Degraded bool
	// ScaleDownRule is the rule that prevents a decrease before EarliestScaleDown.
	ScaleDownRule Rule
	// Binding is the rule that changed the target last, or RuleCombine if no rule changed it. Tied is the rule that would have made the
	// same target without Binding; RuleNone if the target would differ.
	Binding, Tied           Rule
	BindingIndex, TiedIndex int8
	Proposals               [MaxSignals]int32 // replicas that each signal needs; -1: it takes no part
	Status                  [MaxSignals]SignalStatus
	// EarliestScaleDown is when the target can decrease next if all demand ends now, because of ScaleDownRule.
	// The zero time with RuleNone is any tick; the zero time with a rule is a time that is not known.
	EarliestScaleDown time.Time
	Reasons           Reasons
}
