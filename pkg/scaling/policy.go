package scaling

import (
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// MaxSignals and MaxSchedules are the maximum numbers of signals and schedules of a policy. The maximums are constants, so that State and
// Decision have a fixed size.
const (
	MaxSignals   = 8
	MaxSchedules = 16
)

// Kind determines how a number of replicas is computed from the value of a signal.
type Kind uint8

const (
	// Total is a value of the whole workload (backlog, waiting requests): replicas = value / target.
	Total Kind = iota
	// Mean is a value per ready replica (GPU utilization, cache use, concurrency): replicas = ready * value / target.
	Mean
)

// Class is the kind of quantity that a signal measures.
type Class uint8

const (
	// Demand is a queue, a backlog or a rate of work.
	Demand Class = iota
	// Latency is a time that users wait. It is not proportional to the load, so a proposal from a latency changes the number of replicas only
	// by a limited step.
	Latency
	// Utilization is how busy the replicas are (GPU, cache). A utilization signal does not lower the target while a demand or latency
	// signal grows.
	Utilization
)

// Unit is the unit in which a value is printed. It has no effect on decisions.
type Unit uint8

// Possible values of Unit.
const (
	Count   Unit = iota // printed as 87
	Percent             // 0.91 is printed as 91%
	Seconds             // 0.25 is printed as 250ms
)

// Measure is the quantity that a signal measures for the model of an objective (SLO). The model learns from these values.
type Measure uint8

// Possible values of Measure.
const (
	MeasureNone     Measure = iota // the model does not use the signal
	MeasureArrivals                // work that arrives, per second
	MeasureServed                  // work that finishes, per second
	MeasureQueued                  // work that waits
	MeasureInFlight                // work that replicas process
	MeasureBusy                    // share of the time in which the GPUs of the ready replicas were busy, 0..1
	MeasureLatency                 // the time that the objective limits, in seconds, at the objective's percentile
)

// String returns the value of the field `measures` of a signal. It is empty for MeasureNone.
func (m Measure) String() string {
	return [...]string{"", "arrivals", "served", "queued", "inFlight", "busy", "latency"}[min(m, MeasureLatency)]
}

// Signal is one input of a policy.
type Signal struct {
	Name       string
	Type       string // the type in the policy file (prometheus, vllm, dcgm, ...), for explanations
	Source     uint64 // hash that identifies the measured quantity in all versions of the policy; 0: unknown
	Kind       Kind
	Class      Class
	Unit       Unit
	Target     float64 // target of one replica, > 0; 80% is 0.8; 0 if only the model of the objective uses the signal
	Activation float64 // the workload is active while the value is above Activation
	Optional   bool    // a missing optional signal is ignored; a missing signal that is not optional prevents a scale-down
	Forecast   Forecast
	Measures   Measure
	// for arrivals and served: the seconds before a reading of which its value is a mean, for example 60 for rate(x[1m]); 0 means the time
	// since the previous reading
	WindowSeconds uint16
	PerSecond     float64 // for arrivals and served: value for one unit of work per second, for example 60 for a rate per minute; 0 means 1
	// MaxAge is the age above which a reading is stale. It is greater than 0.
	MaxAge time.Duration
	// MinCoverage is the share of the ready pods (0..1) that must report. A reading from fewer pods cannot lower the target.
	MinCoverage float64
}

// measures reports whether s and o measure the same quantity, so that s can continue the trend and the forecast of o. Other fields, for
// example the target, may differ.
func (s *Signal) measures(o *Signal) bool {
	sameSource := s.Source == o.Source && (s.Source != 0 || s.Name == o.Name && s.Type == o.Type)
	return sameSource && s.Kind == o.Kind && s.Class == o.Class && s.Unit == o.Unit && s.Measures == o.Measures && s.PerSecond == o.PerSecond
}

// Activation determines when a workload with several signals is active.
type Activation uint8

const (
	// ActiveByAny means that the workload is active if at least one signal is above its activation value.
	ActiveByAny Activation = iota
	// ActiveByAll means that the workload is active if every signal that has a value is above its activation value.
	ActiveByAll
)

// Formula computes the number of replicas from the proposals of all signals, which have the same order as Policy.Signals. Package policy
// compiles it from CEL. If ok is false, or if the result is NaN, infinite or negative, the tick is treated like a tick with a missing
// signal.
type Formula func(proposals []Proposal, replicas, ready int32) (n float64, ok bool)

// Proposal is the value of one signal in a tick, and the number of replicas that the signal needs.
type Proposal struct {
	Value    float64 // value of the reading in the unit of the signal
	Replicas float64 // number of replicas before rounding; valid only if Known is true
	Known    bool    // false if the reading is missing, stale or invalid, or has too little coverage
}

// RateType is the unit of a RatePolicy.
type RateType uint8

// Possible values of RateType.
const (
	Pods        RateType = iota // at most Value replicas in Period
	PercentRate                 // at most Value percent of the replicas at the start of the period
)

// RatePolicy limits the change of replicas in a period, as in an HPA's behavior.policies.
type RatePolicy struct {
	Type   RateType
	Value  int32
	Period time.Duration
}

// SelectPolicy selects one of several rate policies, as in an HPA's behavior.selectPolicy.
type SelectPolicy uint8

// Possible values of SelectPolicy.
const (
	SelectMax SelectPolicy = iota // the rate policy that permits the greatest change
	SelectMin                     // the rate policy that permits the least change
	Disabled                      // no change in this direction
)

// Direction contains the limits for increases (ScaleUp) or for decreases (ScaleDown). It has the fields of an HPA's behavior.
type Direction struct {
	StabilizationWindow time.Duration // window whose smallest (ScaleUp) or greatest (ScaleDown) recommendation is used
	Tolerance           float64       // relative change that is ignored, for example 0.1; with 0, no change is ignored
	Select              SelectPolicy
	Rates               []RatePolicy // empty: no limit; at most 4
}

// Panic configures a panic window as in Knative. It starts in a tick in which the signals need at least Threshold times the ready replicas,
// and ends when Window has passed since the last such tick. During this time nothing lowers the target, and the scale-up window and the
// scale-up rates do not limit an increase.
type Panic struct {
	Threshold float64 // for example 2 for 200%; 0 disables the rule
	Window    time.Duration
}

// FallbackBehavior determines the target after a required signal has failed FailureThreshold times in a row. The names are KEDA's. Unlike
// in KEDA, a fallback never lowers the target: if KEDA would set fewer than the current replicas, the current replicas are kept.
type FallbackBehavior uint8

// Possible values of FallbackBehavior.
const (
	FallbackNone                    FallbackBehavior = iota // keep the current replicas
	FallbackStatic                                          // Fallback.Replicas, but not fewer than the current replicas
	FallbackCurrentReplicas                                 // keep the current replicas, like FallbackNone
	FallbackCurrentReplicasIfHigher                         // the greater of the current replicas and Fallback.Replicas
	FallbackCurrentReplicasIfLower                          // keep the current replicas; KEDA would use Fallback.Replicas if it is less
)

// Fallback configures the target for the time in which a required signal fails. See FallbackBehavior.
type Fallback struct {
	FailureThreshold int32
	Behavior         FallbackBehavior
	Replicas         int32
}

// Schedule sets a minimum and a maximum of replicas during a calendar window. -1 means that there is no minimum or no maximum.
type Schedule struct {
	Window   calendar.Window
	Min, Max int32
	// Lead is how long before the window opens Min already applies. If Lead is 0, the lead time that the model of the Objective has learned is
	// used. Without an Objective, Min applies from the time at which the window opens.
	Lead time.Duration
}

// Policy contains all settings for the replicas of one workload. Package policy compiles and validates it. A Policy is shared and
// immutable.
type Policy struct {
	Signals    []Signal // at most MaxSignals
	Formula    Formula  // nil: the greatest proposal is used
	Activation Activation
	// Objective is the SLO from which RuleObjective computes the replicas. If it is nil, every signal has a target.
	Objective *objective.Objective

	MinReplicas, MaxReplicas int32 // 0 <= MinReplicas <= MaxReplicas, within the platform's bounds
	// CooldownPeriod is how long the workload must be inactive before it is scaled to zero.
	CooldownPeriod time.Duration

	ScaleUp, ScaleDown Direction
	Panic              Panic
	Fallback           Fallback
	Schedules          []Schedule // at most MaxSchedules

	// Team is the team whose limits apply to the workload. If it is nil, no team limit applies.
	Team *Team
}

// Team is a team of the PlatformConfig that has limits. All policies of a team contain the same pointer.
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

// Format returns a value as text with its unit, such as 87, 91% or 250ms.
func (u Unit) Format(v float64) string {
	switch u {
	case Percent:
		return trim(v*100) + "%"
	case Seconds:
		if v < 1 {
			return trim(v*1000) + "ms"
		}
		return trim(v) + "s"
	}
	return trim(v)
}

// trim formats a value of at least 1 with at most one decimal, and a smaller value with two significant digits.
func trim(v float64) string {
	if v > 0 && v < 1 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	s := strconv.FormatFloat(v, 'f', 1, 64)
	if n := len(s); n > 2 && s[n-2:] == ".0" {
		return s[:n-2]
	}
	return s
}
