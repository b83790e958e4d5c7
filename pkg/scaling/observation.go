package scaling

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// Reading is the newest sample of one signal. Observation.Readings has the same order as Policy.Signals.
type Reading struct {
	Value    float64
	At       time.Time // time of the sample, according to gpuscaler's clock
	Coverage float64   // share of the ready pods that reported, 0..1; 1 for a signal that is not read from pods
	Reported int32     // number of pods that reported; -1 for a signal that is not read from pods
	// Measured is the number of replicas that were ready when the sample was taken. It is 0 if this number is not known or if the signal is
	// not read from pods. The load is the value of a Mean multiplied by Measured, and not by the replicas that are ready in this tick. For
	// example, 4 replicas with a mean of 10 have a load of 40. The load is still 40 if a replica has failed or a fifth replica has become
	// ready since then.
	Measured int32
	Failures int32 // number of consecutive polls without a usable value
	Shared   bool  // other pods use the measured GPUs too, so the reading can keep the target but cannot raise it
	Known    bool  // false if the signal was never read, or if the last response was empty, truncated or invalid
	Cause    Cause // why the value is unknown
}

// MaxAhead is how far the time of a sample may be ahead of gpuscaler's clock. Clocks that NTP synchronizes differ by less than that. If the
// time of a sample is further ahead, its age is unknown. For example, if a source sends a time that is an hour ahead and then fails, its
// last sample would count as fresh for an hour.
const MaxAhead = 2 * time.Second

// Advice contains the results of a capacity group for one workload. Decide uses the Advice of the previous tick.
type Advice struct {
	Cap      int32           // greatest number of replicas for which nodes can be launched; -1: no cap
	CapCause *capcause.Cause // why Cap was set; nil if the reason is not a NodePool, for example if Rejected is true
	Rejected bool            // Cap was set because the API server rejects more pods
	AtRisk   int32           // replicas to add for ready replicas on nodes that are about to be interrupted, and for expected losses
	Reserve  int32           // how many of AtRisk are for expected losses
	Surge    int32           // replicas to add for a move to other nodes
}

// Operator is a pause or an override that an operator set with an annotation. An override ends at Until.
type Operator struct {
	Paused   bool      // the target remains at the current replicas
	Min, Max int32     // bounds of the override, -1 if unset; see the package documentation for their precedence
	Until    time.Time // Min and Max do not apply from this time on
}

// NoOperator is an Operator that has no effect.
var NoOperator = Operator{Min: -1, Max: -1}

// TeamLimit is the workload's share of the limits of its team in this tick. The zero value means no limit.
type TeamLimit struct {
	Limited bool  // the share is less than the target, so it limits the target
	Max     int32 // greatest target that is permitted if Limited is true
	Index   int8  // index in Policy.Team.Limits of the limit that determines Max
	Others  int64 // amount of this limit's resource that the workload cannot use; -1 if the request of its replicas is unknown
}

// NoAdvice is an Advice that has no effect.
var NoAdvice = Advice{Cap: -1}

// Observation is the observed state of one workload in a tick.
type Observation struct {
	Replicas int32 // spec.replicas of the scale target
	Ready    int32 // ready replicas
	Loading  int32 // replicas that have a node but are not ready (image pull, model load), except replicas in a crash loop
	Pending  int32 // replicas without a node
	// Started contains the newest completed starts of replicas, from which the phases of cold starts are learned. nil means that it is
	// unknown.
	Started  *planner.ReplicaStarts
	Readings []Reading
	Advice   Advice
	Operator Operator
	Limit    TeamLimit
	Forecast int32 // minimum from a forecast outside this package; 0: none
	// Version identifies the image of the model server and the GPU type, because they determine the capacity of a replica. 0 means that it is
	// not known.
	Version        uint64
	HPAMaxReplicas int32 // maxReplicas of the managed HPA or ScaledObject; 0: there is none
}
