package scaling

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// MaxSignals and MaxSchedules bound a policy, so that State and Decision are plain values of fixed size.
const (
	MaxSignals   = 8
	MaxSchedules = 16
)

// Kind says how a signal's value becomes wanted replicas. Two kinds cover everything.
type Kind uint8

const (
	// Total is a reading over the whole workload (backlog, requests waiting): wanted = value / target.
	Total Kind = iota
	// Mean is a reading per ready replica (GPU busy fraction, cache use, concurrency): wanted = ready * value / target.
	Mean
)

// Class says what a signal measures, for the rule that utilization alone proves nothing while demand grows.
type Class uint8

const (
	// Demand is a queue, a backlog or a rate of work.
	Demand Class = iota
	// Latency is a time that users wait. It asks for a bounded step from the ready replicas: it is not proportional to load.
	Latency
	// Utilization is how busy the replicas look (GPU, cache).
	Utilization
)

// Unit says how people read a value; the brain never looks at it.
type Unit uint8

const (
	Count   Unit = iota // 87
	Percent             // 0.91 is read as 91%
	Seconds             // 0.25 is read as 250ms
)

// Signal is one input of a policy.
type Signal struct {
	Name       string
	Type       string // the word in the policy file (prometheus, vllm, dcgm, ...), for people
	Source     uint64 // tells what is measured where: two versions of a signal with the same one read the same; 0: not known
	Kind       Kind
	Class      Class
	Unit       Unit
	Target     float64 // per replica, > 0; percentages are fractions (80% is 0.8)
	Activation float64 // the workload is active while the value is strictly above
	Optional   bool    // a missing optional signal is left out; a missing required one forbids any fall
	Forecast   Forecast
	// MaxAge is the age from which a reading is stale; > 0.
	MaxAge time.Duration
	// MinCoverage is the share of ready pods that must have reported for the reading to lower a target, 0..1.
	MinCoverage float64
}

// measures reports whether s and o read the same number at the same place, so that what was learned of one holds for the other.
func (s *Signal) measures(o *Signal) bool {
	return s.Source == o.Source && (s.Source != 0 || s.Name == o.Name && s.Type == o.Type) && s.Kind == o.Kind && s.Class == o.Class && s.Unit == o.Unit
}

// Activation says when several signals make a workload active.
type Activation uint8

const (
	// ActiveByAny: one signal above its activation is enough.
	ActiveByAny Activation = iota
	// ActiveByAll: every known signal must be above its activation.
	ActiveByAll
)

// Formula combines what the signals say into wanted replicas; compiled from CEL by package policy. Each element is parallel to
// Policy.Signals. ok=false (an error, NaN, an infinity, a negative) counts as a missing signal.
type Formula func(asks []Proposal, replicas, ready int32) (wanted float64, ok bool)

// Proposal is what one signal asks for in a tick.
type Proposal struct {
	Value    float64 // the reading as taken, in the signal's unit
	Replicas float64 // wanted replicas before rounding; meaningless unless Known
	Known    bool    // false: missing, stale, invalid, or covering nothing
}

// RateType is the unit of a RatePolicy.
type RateType uint8

const (
	Pods        RateType = iota // at most Value replicas in Period
	PercentRate                 // at most Value percent of the replicas at the period's start in Period
)

// RatePolicy bounds the change of replicas over a period, as in an HPA's behavior.policies.
type RatePolicy struct {
	Type   RateType
	Value  int32
	Period time.Duration
}

// SelectPolicy chooses among several rate policies, as in an HPA's behavior.selectPolicy.
type SelectPolicy uint8

const (
	SelectMax SelectPolicy = iota // the policy that allows the greatest change
	SelectMin                     // the policy that allows the least change
	Disabled                      // no change in this direction
)

// Direction holds the rules of one direction of change, in the words of an HPA's behavior.
type Direction struct {
	StabilizationWindow time.Duration // up: the least proposal of the window counts; down: the greatest
	Tolerance           float64       // relative change that is ignored, e.g. 0.1; 0 follows every step
	Select              SelectPolicy
	Rates               []RatePolicy // empty: unlimited; at most 4
}

// Panic reacts to a burst as Knative's panic window does: when the proposal reaches Threshold times the ready replicas,
// up-stabilization and up-rates are lifted and nothing falls until Window has passed without another such proposal.
type Panic struct {
	Threshold float64 // e.g. 2 for 200%; 0 turns the rule off
	Window    time.Duration
}

// FallbackBehavior names what to do once a required signal has failed FailureThreshold times in a row; the names are KEDA's.
// A missing signal never lowers a target, so each behavior is raised to the current replicas where it asks for fewer.
type FallbackBehavior uint8

const (
	FallbackNone                    FallbackBehavior = iota // hold the current replicas
	FallbackStatic                                          // Replicas
	FallbackCurrentReplicas                                 // current
	FallbackCurrentReplicasIfHigher                         // max(current, Replicas)
	FallbackCurrentReplicasIfLower                          // min(current, Replicas)
)

// Fallback is applied while a required signal is missing.
type Fallback struct {
	FailureThreshold int32
	Behavior         FallbackBehavior
	Replicas         int32
}

// Schedule is a floor and a ceiling in a calendar window. -1 means that side is unset.
type Schedule struct {
	Window   calendar.Window
	Min, Max int32
	// Lead raises the floor this much before the window opens (prewarm); 0 is on time.
	Lead time.Duration
}

// Policy is everything that decides one workload's replicas. It is compiled and validated by package policy, shared by
// pointer and never written afterwards.
type Policy struct {
	Signals    []Signal // at most MaxSignals
	Formula    Formula  // nil: the greatest wins
	Activation Activation

	MinReplicas, MaxReplicas int32 // 0 <= MinReplicas <= MaxReplicas, already narrowed by the platform's bounds
	// CooldownPeriod is how long the workload must be inactive before 1 -> 0; counted once, never also in an HPA or KEDA.
	CooldownPeriod time.Duration

	ScaleUp, ScaleDown Direction
	Panic              Panic
	Fallback           Fallback
	Schedules          []Schedule // at most MaxSchedules

	// Team is the team whose limits the workload shares with others; nil: no limit applies to it.
	Team *Team
}

// Team is a team of the PlatformConfig that has limits. All policies of a team share one value.
type Team struct {
	Name       string
	Namespaces []string
	Limits     []ResourceLimit // sorted by resource
}

// ResourceLimit is the most of one resource that all workloads of a team may request together.
type ResourceLimit struct {
	Resource string
	Max      int64
}
