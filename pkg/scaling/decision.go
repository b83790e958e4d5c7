package scaling

import "time"

// Rule names one step of Decide, in the order in which they stand there.
type Rule uint8

// Where two rules disagree the later one wins; the package documentation says why each stands where it does. A and B are the
// two numbers of the rule's Reason; instants are Unix seconds, 0 where nobody knows them.
const (
	RuleNone            Rule = iota
	RulePropose              // what each signal asks for; it leaves no Reason, see Decision.Proposals and Status
	RuleCombine              // the greatest ask, or the formula. A: wanted before rounding; B: the signal's value
	RuleMissing              // a required signal is missing: may rise, may not fall. A: how many are; B: the SignalStatus of the first
	RuleFallback             // a required signal failed too often. A: polls failed in a row; B: the policy's fallback replicas
	RuleGrowingDemand        // utilization alone may not lower while demand or latency grows. A: its recent level; B: its level before
	RuleLoading              // replicas on their way are not taken back by a Mean over the few that are ready. A: loading; B: ready
	RuleTolerance            // the change is too small to follow. A: wanted / number in force; B: the tolerance
	RulePanic                // a burst: nothing falls, rises are free. A: wanted / ready; B: until when
	RuleStabilize            // the extreme of the window counts. A: the window in seconds; B: when its holder leaves it
	RuleIdle                 // to zero after the cooldown; from zero on the first demand. A: seconds inactive, -1 where a silent pod may be serving; B: when the cooldown ends
	RuleRate                 // at most so many replicas per period. A: index in Direction.Rates, -1 when disabled; B: replicas at the period's start
	RuleForecast             // replicas kept ahead of need. A: how many, before rounding; B: the mean ask of the signal over its window
	RuleScheduleFloor        // the greatest floor of the open windows. A: the floor; B: until when; -B: from when, where Lead raises it early
	RuleScheduleCeiling      // the least ceiling of the open windows. A: the ceiling; B: until when
	RuleAtRisk               // replicas about to be lost are replaced ahead. A: how many are at risk
	RuleSurge                // extra replicas for a paced move between pools. A: how many
	RuleCapacity             // no node can come at present. A: the cap; B: what would be asked without it
	RuleOverride             // a person's bounds. A, B: min and max, -1 where unset
	RulePaused               // a person froze the number. A: the current replicas
	RuleBounds               // the policy's bounds, narrowed by the platform's. A, B: min and max
	RuleTeamLimit            // the limit of the workload's team, which wins over everything. Index: of Policy.Team.Limits. A: the limit; B: what others hold, -1 where the workload's own amount per replica is not known
	numRules
)

// SignalStatus says how a signal took part in a tick.
type SignalStatus uint8

const (
	SignalOK          SignalStatus = iota
	SignalMissing                  // no usable reading
	SignalStale                    // older than MaxAge: may raise, cannot lower
	SignalLowCoverage              // too few pods reported: may raise, cannot lower
	SignalUnmeasured               // no replica is ready: a Mean over none, or an empty answer about pods that cannot report yet
)

// Reason is one rule's effect: the number before and after it. Text is rendered when somebody reads it.
type Reason struct {
	Rule     Rule
	Index    int8 // the signal or schedule it speaks of, -1 for none
	From, To int32
	A, B     float64 // the rule's own two numbers; their meaning stands beside each rule
}

// MaxReasons bounds the reasons of one decision: each rule leaves one at most. Where more than these speak at once, the oldest
// that changed nothing is dropped.
const MaxReasons = 16

// Reasons is the ordered list of what changed or confirmed the number.
type Reasons struct {
	list [MaxReasons]Reason
	n    uint8
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

// Decision is the outcome of one tick for one workload: a number and why.
type Decision struct {
	// Replicas is the target that is served. When Degraded it is below the current replicas only where a schedule ceiling, a
	// person or the bounds say so: those were written down, not measured.
	Replicas int32
	Uncapped int32 // what would be asked of the nodes were they unboundedRule: before the capacity cap
	// Active says that something keeps replicas: demand above an activation, a schedule, an override, or inputs that nobody knows.
	// It is false throughout the cooldown, and whenever Replicas is 0.
	Active   bool
	Degraded bool // decided on missing inputs
	// Binding is the rule that made the number: the last one that changed it, or combine where none did. Tied is the rule that
	// would have made the same number without it, RuleNone where the number would differ. Combine with an index is that signal.
	Binding, Tied           Rule
	BindingIndex, TiedIndex int8
	Proposals               [MaxSignals]int32 // what each signal asks for; -1: nothing
	Status                  [MaxSignals]SignalStatus
	// EarliestScaleDown is the earliest instant at which the number could fall were all demand to end now, by the windows in force, and
	// ScaleDownRule the rule that it waits for. Zero with RuleNone: at any tick. Zero with a rule: when that rule ends, nobody knows when.
	EarliestScaleDown time.Time
	ScaleDownRule     Rule
	Reasons           Reasons
}

// ReasonsOf returns the Reasons that hold a list; entries beyond MaxReasons are dropped.
func ReasonsOf(list []Reason) (r Reasons) {
	r.n = uint8(copy(r.list[:], list))
	return r
}
