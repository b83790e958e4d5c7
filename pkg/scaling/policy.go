package scaling

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// MaxSignals and MaxSchedules are the maximum numbers of signals and schedules of a policy. They give State and Decision a fixed size.
const (
	MaxSignals   = 8
	MaxSchedules = 16
)

// Kind says how a signal's value becomes a number of replicas.
type Kind uint8

const (
	// Total is a value of the whole workload (backlog, waiting requests): replicas = value / target.
	Total Kind = iota
	// Mean is a value per ready replica (GPU utilization, cache use, concurrency): replicas = ready * value / target.
	Mean
)

// Class says what a signal measures.
type Class uint8

const (
	// Demand is a queue, a backlog or a rate of work.
	Demand Class = iota
	// Latency is a time that users wait. It is not proportional to load, so it changes the number of ready replicas by a limited step.
	Latency
	// Utilization is how busy the replicas are (GPU, cache). It does not lower the target while a signal of demand or latency grows.
	Utilization
)

// Unit is the format in which a value is printed. It does not influence decisions.
type Unit uint8

// Values of Unit.
const (
	Count   Unit = iota // printed as 87
	Percent             // 0.91 is printed as 91%
	Seconds             // 0.25 is printed as 250ms
)

// Measure is what the value of a signal is evidence of, for a policy with an objective.
type Measure uint8

// Values of Measure.
const (
	MeasureNone     Measure = iota // the signal is not evidence
	MeasureArrivals                // work that arrives, per second
	MeasureServed                  // work that finishes, per second
	MeasureQueued                  // work that waits
	MeasureInFlight                // work that replicas process
	MeasureBusy                    // share of time in which the GPUs of the ready replicas were busy, 0..1
	MeasureLatency                 // the time that the objective limits, at its percentile, in seconds
)

// String returns the value of the field `measures` of a signal; it is empty for MeasureNone.
func (m Measure) String() string {
	return [...]string{"", "arrivals", "served", "queued", "inFlight", "busy", "latency"}[min(m, MeasureLatency)]
}

// Signal is one input of a policy.
type Signal struct {
	Name       string
	Type       string // the type in the policy file (prometheus, vllm, dcgm, ...), for explanations
	Source     uint64 // identifies the measurement: two versions of a signal with the same Source read the same; 0: not known
	Kind       Kind
	Class      Class
	Unit       Unit
	Target     float64 // per replica, > 0; percentages are fractions (80% is 0.8). 0 only with an objective: the signal is only evidence
	Activation float64 // the workload is active while a signal's value is above its Activation
	Optional   bool    // a missing optional signal is ignored; a missing required one prevents a scale-down
	Forecast   Forecast
	Measures   Measure
	PerSecond  float64 // for arrivals and served: the value that means one unit of work per second; 60 for a rate per minute; 0 means 1
	// MaxAge is the age from which a reading is stale; > 0.
	MaxAge time.Duration
	// MinCoverage is the share of ready pods that must have reported for the reading to lower the target, 0..1.
	MinCoverage float64
}

// measures reports whether s and o measure the same quantity, so that the trend and the forecast of o are valid for s. The target and
// other settings may differ.
func (s *Signal) measures(o *Signal) bool {
	sameSource := s.Source == o.Source && (s.Source != 0 || s.Name == o.Name && s.Type == o.Type)
	return sameSource && s.Kind == o.Kind && s.Class == o.Class && s.Unit == o.Unit && s.Measures == o.Measures && s.PerSecond == o.PerSecond
}

// Activation is the condition for a workload with several signals to be active.
type Activation uint8

const (
	// ActiveByAny means that one signal above its activation is enough.
	ActiveByAny Activation = iota
	// ActiveByAll means that every signal that has a value must be above its activation.
	ActiveByAll
)

// Formula returns the number of replicas for the proposals of all signals, which have the same order as Policy.Signals. Package policy
// compiles it from CEL. If ok is false, or the result is NaN, infinite or negative, the tick is handled like one with a missing signal.
type Formula func(proposals []Proposal, replicas, ready int32) (n float64, ok bool)

// Proposal is the value of one signal in a tick, and the number of replicas that it needs.
type Proposal struct {
	Value    float64 // the reading in the signal's unit
	Replicas float64 // replicas before rounding; not valid unless Known
	Known    bool    // false: missing, stale, invalid or without coverage
}

// RateType is the unit of a RatePolicy.
type RateType uint8

// Values of RateType.
const (
	Pods        RateType = iota // at most Value replicas in Period
	PercentRate                 // at most Value percent of the replicas at the period's start in Period
)

// RatePolicy limits the change of replicas in a period, as in an HPA's behavior.policies.
type RatePolicy struct {
	Type   RateType
	Value  int32
	Period time.Duration
}

// SelectPolicy selects one of several rate policies, as in an HPA's behavior.selectPolicy.
type SelectPolicy uint8

// Values of SelectPolicy.
const (
	SelectMax SelectPolicy = iota // the policy that allows the greatest change
	SelectMin                     // the policy that allows the least change
	Disabled                      // no change in this direction
)

// Direction contains the limits for increases (ScaleUp) or for decreases (ScaleDown). Its fields are those of an HPA's behavior.
type Direction struct {
	StabilizationWindow time.Duration // up: the smallest recommendation in the window applies; down: the greatest
	Tolerance           float64       // relative change that is ignored, for example 0.1; 0 ignores none
	Select              SelectPolicy
	Rates               []RatePolicy // empty: no limit; at most 4
}

// Panic configures a panic window as in Knative. It starts when the signals need at least Threshold times the ready replicas. Until Window
// has passed since the last such tick, nothing lowers the target, and the scale-up window and the scale-up rates do not limit an increase.
type Panic struct {
	Threshold float64 // for example 2 for 200%; 0 turns the rule off
	Window    time.Duration
}

// FallbackBehavior selects the target after a required signal has failed FailureThreshold times in a row. The names are KEDA's. A missing
// signal never lowers the target, so a behavior that sets less than the current replicas in KEDA keeps the current replicas.
type FallbackBehavior uint8

// Values of FallbackBehavior.
const (
	FallbackNone                    FallbackBehavior = iota // keep the current replicas
	FallbackStatic                                          // Replicas
	FallbackCurrentReplicas                                 // current
	FallbackCurrentReplicasIfHigher                         // max(current, Replicas)
	FallbackCurrentReplicasIfLower                          // min(current, Replicas)
)

// Fallback configures the target while a required signal fails: see FallbackBehavior.
type Fallback struct {
	FailureThreshold int32
	Behavior         FallbackBehavior
	Replicas         int32
}

// Schedule is a minimum and a maximum of replicas during a calendar window; -1 means no minimum or no maximum.
type Schedule struct {
	Window   calendar.Window
	Min, Max int32
	// Lead applies Min this long before the window opens.
	Lead time.Duration
}

// Policy holds all settings for one workload's replicas. Package policy compiles and validates it. It is shared and immutable.
type Policy struct {
	Signals    []Signal // at most MaxSignals
	Formula    Formula  // nil: the greatest proposal
	Activation Activation
	// Objective is the SLO from which the rule "objective" computes the replicas. If it is nil, every signal has a target.
	Objective *objective.Objective

	MinReplicas, MaxReplicas int32 // 0 <= MinReplicas <= MaxReplicas, within the platform's bounds
	// CooldownPeriod is how long the workload must be inactive before it is scaled to zero.
	CooldownPeriod time.Duration

	ScaleUp, ScaleDown Direction
	Panic              Panic
	Fallback           Fallback
	Schedules          []Schedule // at most MaxSchedules

	// Team is the team whose limits the workload shares; nil: no limit applies.
	Team *Team
}

// Team is a team of the PlatformConfig that has limits. All policies of a team have the same pointer.
type Team struct {
	Name       string
	Namespaces []string
	Limits     []ResourceLimit // sorted by resource
}

// ResourceLimit is the maximum amount of one resource, for example GPUs, that all workloads of a team may request in total.
type ResourceLimit struct {
	Resource string
	Max      int64
}
