package scaling

import "time"

// Rule names one step of Decide, in the order in which they stand there.
type Rule uint8

const (
	RuleNone Rule = iota
	RulePropose
	RuleCombine
	RuleMissing // a required signal is missing: may rise, may not fall
	RuleFallback
	RuleVeto    // utilization alone may not lower while demand or latency grows
	RuleLoading // replicas on their way buy no more and are not taken back by a Mean over the few that are ready
	RuleTolerance
	RulePanic
	RuleStabilize
	RuleIdle // to zero after the cooldown; from zero on the first demand
	RuleRate
	RuleForecast
	RuleScheduleFloor
	RuleScheduleCeiling
	RuleAtRisk
	RuleSurge
	RuleCapacity
	RuleOverride
	RulePaused
	RuleBounds
	numRules
)

// SignalStatus says how a signal took part in a tick.
type SignalStatus uint8

const (
	SignalOK          SignalStatus = iota
	SignalMissing                  // no usable reading
	SignalStale                    // older than MaxAge: may raise, cannot lower
	SignalLowCoverage              // too few pods reported: may raise, cannot lower
	SignalUnmeasured               // a Mean with no ready replica
)

// Reason is one rule's effect: the number before and after it. Text is rendered when somebody reads it.
type Reason struct {
	Rule     Rule
	Index    int8 // the signal or schedule it speaks of, -1 for none
	From, To int32
	A, B     float64 // the rule's own two numbers; their meaning stands beside each rule
}

// MaxReasons bounds the reasons of one decision: one per rule and per signal and schedule at most.
const MaxReasons = 16

// Reasons is the ordered list of what changed or confirmed the number.
type Reasons struct {
	list [MaxReasons]Reason
	n    uint8
}

// All returns the reasons in the order of the rules. The slice aliases r.
func (r *Reasons) All() []Reason { return r.list[:r.n] }

// Decision is the outcome of one tick for one workload: a number and why.
type Decision struct {
	Replicas int32 // the target that is served; never below the current replicas when Degraded
	Uncapped int32 // what would be asked of the nodes were they endless: before the capacity cap
	Active   bool  // demand stands above an activation, or a schedule or override keeps replicas
	Degraded bool  // decided on missing inputs
	// Binding is the rule that made the number; Tied is another that would have made the same one.
	Binding, Tied           Rule
	BindingIndex, TiedIndex int8
	Asks                    [MaxSignals]int32 // what each signal asks for; -1: nothing
	Status                  [MaxSignals]SignalStatus
	// MayFall is the earliest instant at which the number could fall, by the windows in force; zero: at any tick.
	MayFall  time.Time
	FallRule Rule // the rule that MayFall waits for
	Reasons  Reasons
}
