package statemachine

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
)

const (
	// MaxSurges is the maximum number of surges that a group stores, including those in the step SurgeResting.
	MaxSurges = 32
	// MaxRunningSurges is the maximum number of surges of a group that run at the same time.
	MaxRunningSurges = 4
	// SurgeSettle is how long enough replicas must be ready on other nodes before the target decreases again. A replica that is ready for
	// only some seconds does not replace the old replica.
	SurgeSettle = 30 * time.Second
	// SurgeRest is how long no other surge begins for a workload after a surge that did not replace the replica.
	SurgeRest = 6 * time.Hour
)

// Surge is the state machine of one additional replica, the successor. It replaces a ready replica whose node Karpenter is about to
// disrupt, before Karpenter evicts this replica. In the table, the old replica is the replica that is replaced:
//
//	step            event            next            action
//	NoSurge         -                SurgeAsked      the target increases by one; Until: end of the time limit
//	SurgeAsked      SurgeReady       SurgeReplacing  the target decreases; the ReplicaSet deletes the old replica
//	SurgeAsked      SurgePodGone     SurgeResting    the target decreases; rests until the time limit
//	SurgeAsked      SurgeNodeStays   SurgeResting    the target decreases; rests until the time limit
//	SurgeAsked      SurgeNoCapacity  SurgeResting    the target decreases
//	SurgeAsked      SurgeTimeout     SurgeResting    the target decreases
//	SurgeReplacing  SurgePodGone     NoSurge
//	SurgeReplacing  SurgeNodeStays   SurgeResting    rests until the time limit
//	SurgeReplacing  SurgeTimeout     SurgeResting
//	SurgeResting    SurgeTimeout     NoSurge
//	any             SurgeNotNeeded   NoSurge         the target decreases
//
// Every other combination does not change the step. A surge is not stored on the NodePools: a new leader recognizes it by the deletion
// cost of the old replica and by the creation time of the new replica.
type Surge struct {
	Step     SurgeStep     `json:"step,omitempty"`
	Workload string        `json:"workload,omitempty"`
	Pod      string        `json:"pod,omitempty"` // UID of the replica that is replaced
	Node     string        `json:"node,omitempty"`
	Cause    explain.Cause `json:"cause,omitempty"`   // why Karpenter disrupts the node
	Size     int32         `json:"size,omitempty"`    // the greatest target that the surge may cause
	Others   int32         `json:"others,omitempty"`  // number of ready replicas on other nodes when the surge began
	Since    int64         `json:"since,omitempty"`   // creation time of the newest pod when the surge began; only a newer pod is a successor
	Ready    int64         `json:"ready,omitempty"`   // time since which enough replicas are ready on other nodes; 0: too few are ready
	Until    int64         `json:"until,omitempty"`   // end of the time limit of the step
	Expired  bool          `json:"expired,omitempty"` // the step SurgeResting followed SurgeAsked without a ready successor
}

// SurgeStep is a step of Surge.
type SurgeStep uint8

// Values of SurgeStep.
const (
	NoSurge        SurgeStep = iota
	SurgeAsked               // the target includes the additional replica
	SurgeReplacing           // the additional replica is ready, and the target excludes it again, so that the old replica is deleted
	SurgeResting             // the workload gets no other surge before Until
	numSurgeSteps
)

// SurgeEvent is an event of Surge. Each tick has exactly one event.
type SurgeEvent uint8

// Values of SurgeEvent.
const (
	SurgeUnchanged  SurgeEvent = iota
	SurgeNotNeeded             // the workload does not exist, is paused, or needs no replica
	SurgePodGone               // the old replica no longer exists
	SurgeNodeStays             // Karpenter no longer disrupts the node, or must not disrupt it now
	SurgeNoCapacity            // no additional replica can get a node
	SurgeReady                 // enough replicas have been ready on other nodes for SurgeSettle
	SurgeTimeout               // the time limit of the step is over
	numSurgeEvents
)

// surgeTransitions contains the next step for each step and event.
var surgeTransitions = [numSurgeSteps][numSurgeEvents]SurgeStep{
	NoSurge: {}, // for every event the next step is NoSurge
	SurgeAsked: {SurgeUnchanged: SurgeAsked, SurgePodGone: SurgeResting, SurgeNodeStays: SurgeResting, SurgeNoCapacity: SurgeResting,
		SurgeReady: SurgeReplacing, SurgeTimeout: SurgeResting},
	SurgeReplacing: {SurgeUnchanged: SurgeReplacing, SurgeNodeStays: SurgeResting, SurgeNoCapacity: SurgeReplacing,
		SurgeReady: SurgeReplacing, SurgeTimeout: SurgeResting},
	SurgeResting: {SurgeUnchanged: SurgeResting, SurgePodGone: SurgeResting, SurgeNodeStays: SurgeResting, SurgeNoCapacity: SurgeResting,
		SurgeReady: SurgeResting},
}

// SurgeInput contains everything that the state machine reads in a tick.
type SurgeInput struct {
	At         int64
	Needed     bool // the workload exists, is not paused, and needs replicas
	Exists     bool // the old replica exists, ready or not
	Threatened bool // whether Karpenter is about to disrupt the node of the old replica
	Replaced   bool // whether enough replicas are ready on nodes that Karpenter is not about to disrupt
	Marked     bool // whether the old replica has its deletion cost, so that the ReplicaSet deletes it first
	Blocked    bool // no additional replica can get a node
}

// Event returns the event that the input causes in the current step.
func (s *Surge) Event(in *SurgeInput) SurgeEvent {
	switch {
	case s.Step == NoSurge:
		return SurgeUnchanged
	case s.Step == SurgeResting && in.At >= s.Until:
		return SurgeTimeout
	case s.Step == SurgeResting:
		return SurgeUnchanged
	case !in.Needed:
		return SurgeNotNeeded
	case !in.Exists:
		return SurgePodGone
	case !in.Threatened:
		return SurgeNodeStays
	case s.Step == SurgeAsked && in.Marked && s.Ready != 0 && in.At-s.Ready >= SurgeSettle.Milliseconds():
		return SurgeReady
	case s.Step == SurgeAsked && in.Blocked:
		return SurgeNoCapacity
	case in.At >= s.Until:
		return SurgeTimeout
	}
	return SurgeUnchanged
}

// Advance performs one tick: it computes the event of the input and applies it.
func (s *Surge) Advance(in *SurgeInput) {
	switch {
	case !in.Replaced:
		s.Ready = 0
	case s.Ready == 0:
		s.Ready = in.At
	}
	s.Apply(s.Event(in), in.At)
}

// Apply changes the state as the table of Surge defines.
func (s *Surge) Apply(event SurgeEvent, at int64) {
	was, next := s.Step, surgeTransitions[s.Step][event]
	switch {
	case next == was:
		return
	case next == NoSurge:
		*s = Surge{}
		return
	case next == SurgeReplacing:
		s.Until = at + ShrinkTimeout.Milliseconds()
	case event != SurgePodGone && event != SurgeNodeStays:
		s.Until, s.Expired = at+SurgeRest.Milliseconds(), was == SurgeAsked
	}
	s.Step = next
}

// Runs reports whether the surge adds a replica to the target, or the replica that it replaces is being deleted.
func (s *Surge) Runs() bool { return s.Step == SurgeAsked || s.Step == SurgeReplacing }

// Extra returns how many replicas, at most 1, the surge adds to the target of a workload that needs the given number of replicas. The
// surge adds none if the workload already needs Size replicas, because demand has grown: a new replica can then be the successor.
func (s *Surge) Extra(needs int32) int32 {
	if s.Step != SurgeAsked || needs <= 0 {
		return 0
	}
	return max(0, min(s.Size-needs, 1))
}
