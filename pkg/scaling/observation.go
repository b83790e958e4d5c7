package scaling

import "time"

// Reading is the newest sample of one signal. Observation.Readings has the same order as Policy.Signals.
type Reading struct {
	Value    float64
	At       time.Time // when the sample was taken, by the clock of its source
	Coverage float64   // pods that reported / ready pods, 0..1; 1 for a signal that is not read from pods
	Reported int32     // pods that reported; -1 for a signal that is not read from pods
	// Measured is the number of replicas that were ready when the sample was taken; 0 if it is not known or the signal is not read from
	// pods. A Mean is multiplied by it and not by the replicas that are ready now: the load of replicas that became ready later is not in
	// the mean, and the load of replicas that have failed since still has to be served.
	Measured int32
	Failures int32 // polls in a row without a usable value
	Shared   bool  // the measured GPUs serve other pods, too: the reading can keep the target and cannot raise it
	Known    bool  // false: never read, or the last answer was empty, truncated or invalid
	Cause    Cause // why the value is not known
}

// Cause is the reason why a reading cannot be used.
type Cause uint8

// Values of Cause.
const (
	CauseNone        Cause = iota
	CauseNever             // no poll has answered yet
	CauseEmpty             // the source answered without a value for this workload
	CauseUnreachable       // the source did not answer, or not in time
	CauseInvalid           // NaN, infinite, negative, absurd, or a value with which the vendor marks missing data
	CauseTruncated         // the answer exceeded a limit on bytes or series
	CauseForbidden         // the source refused (401, 403), or the platform does not allow it here
	CauseSentinel          // the value contradicts the hardware (an activity counter stuck at 0)
	CauseUndeclared        // the values come from a pod that is not a declared exporter, or from an exporter on another node
	CauseQuota             // the namespace has more selectors at the data source than its quota, so this one is not queried
	CauseUntimed           // no sample has a usable time: it is more than MaxAhead ahead of this clock, or not a time
)

// MaxAhead is how far a sample's time may be ahead of the clock of gpuscaler. Clocks that NTP synchronizes differ by less. A sample that is
// further ahead has no known age: if a source writes a time an hour ahead and then fails, its last sample would count as fresh for an hour.
const MaxAhead = 2 * time.Second

// Advice is what a capacity group computed for one workload. Decide uses the Advice of the previous tick.
type Advice struct {
	Cap      int32 // replicas beyond which no node can be launched; -1: no cap
	Rejected bool  // the API server rejects further pods, and this is the reason for Cap
	AtRisk   int32 // ready replicas on nodes that are about to be interrupted
	Surge    int32 // replicas to add for a move between NodePools
}

// Operator is a pause or an override that an operator set by annotation. An override ends at Until.
type Operator struct {
	Paused   bool      // the target stays at the current replicas
	Min, Max int32     // bounds of the override, -1 if unset; see the package documentation for their precedence
	Until    time.Time // Min and Max do not apply from this time on
}

// NoOperator is the Operator without effect.
var NoOperator = Operator{Min: -1, Max: -1}

// TeamLimit is the workload's share of its team's limits in this tick. The zero value is no limit.
type TeamLimit struct {
	Limited bool  // the share is less than the target
	Max     int32 // the greatest allowed target, if Limited
	Index   int8  // index of the limit in Policy.Team.Limits
	Others  int64 // units of that resource that the workload cannot use; -1: the request of one of its replicas is not known
}

// NoAdvice is an Advice that changes nothing.
var NoAdvice = Advice{Cap: -1}

// Observation is the observed state of one workload in a tick.
type Observation struct {
	Replicas int32 // spec.replicas of the scale target
	Ready    int32 // ready replicas
	Loading  int32 // replicas that have a node and are not ready yet (image pull, model load), except those that crash in a loop
	Pending  int32 // replicas without a node
	Readings []Reading
	Advice   Advice
	Operator Operator
	Limit    TeamLimit
	Forecast int32 // a minimum from a forecast outside of this package; 0: none
	// Version identifies what determines the capacity of a replica: the image of the server and the GPU type. 0: not known.
	Version        uint64
	HPAMaxReplicas int32 // maxReplicas of the managed HPA or ScaledObject; 0: there is none
}
