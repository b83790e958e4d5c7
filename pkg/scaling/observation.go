package scaling

import "time"

// Reading is the newest sample of one signal; a slice of them stands parallel to Policy.Signals.
type Reading struct {
	Value    float64
	At       time.Time // when the sample was taken, by the clock of whoever took it
	Coverage float64   // pods that reported / pods ready, 0..1; 1 where pods play no part
	Reported int32     // pods that reported; -1 where pods play no part
	// Measured is how many replicas were ready when the reading was taken; 0: not known, or pods play no part. A mean of 2 replicas says
	// nothing of the two that became ready since, and one of 6 still speaks for the load of 6 when 3 of them are gone.
	Measured int32
	Failures int32 // polls in a row that brought nothing usable
	Shared   bool  // the GPUs measured serve other pods too: the reading may hold the target, and does not raise it
	Known    bool  // false: never read, or the last answer was empty, truncated or invalid
	Cause    Cause // why it is not known, for people
}

// Cause says why a reading is not usable.
type Cause uint8

const (
	CauseNone        Cause = iota
	CauseNever             // no poll has answered yet
	CauseEmpty             // the source answered without a value for this workload
	CauseUnreachable       // the source did not answer, or not in time
	CauseInvalid           // NaN, an infinity, negative, absurd or a vendor's blank value
	CauseTruncated         // the answer passed a cap on bytes or series and was cut
	CauseForbidden         // the source refused (401, 403), or the platform does not allow it here
	CauseSentinel          // the value contradicts the hardware (an activity counter stuck at 0)
	CauseUndeclared        // the values come from a pod that is not a declared exporter, or from an exporter on another node
	CauseQuota             // the namespace has more selectors at the data source than its quota, so this one is not queried
	CauseUntimed           // the samples have no usable time: more than MaxAhead ahead of our clock, or not a time at all
)

// MaxAhead is how far ahead of our clock a sample's time may be. Clocks that NTP keeps differ by less. The age of a sample that is further
// ahead is not known: a source that stamps one sample an hour ahead and then fails looks alive for an hour.
const MaxAhead = 2 * time.Second

// Advice is what the nodes say to the replicas; it is read one tick after capacity decided it.
type Advice struct {
	Cap    int32 // replicas beyond which no node can come at present; -1: no cap
	AtRisk int32 // ready replicas on nodes about to be lost, to be replaced ahead
	Surge  int32 // extra replicas for a paced move between pools
}

// TeamLimit is what the limits of the workload's team leave to it in this tick. The zero value is no limit.
type TeamLimit struct {
	Limited bool  // the team's limit is too small for the target
	Max     int32 // the most replicas, where Limited
	Index   int8  // of the limit in Policy.Team.Limits
	Others  int64 // units of that resource that are not available to the workload; -1: its own amount per replica is not known
}

// NoAdvice is an Advice that says nothing.
var NoAdvice = Advice{Cap: -1}

// Observation is what is seen of one workload in a tick.
type Observation struct {
	Replicas       int32 // spec.replicas of the target: what the cluster is steering towards now
	Ready          int32 // pods Ready
	Loading        int32 // pods scheduled on a node, not Ready yet (image pull, model load); pods that crash in a loop do not count
	Pending        int32 // pods without a node
	Readings       []Reading
	Advice         Advice
	Operator       Operator
	Limit          TeamLimit
	Forecast       int32 // replicas that a forecast asks for ahead of need, a floor; 0: none
	HPAMaxReplicas int32 // maxReplicas of the managed HPA or ScaledObject; 0: there is none
}
