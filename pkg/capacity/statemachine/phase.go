package statemachine

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
)

const (
	// FirstFallback is how long on-demand is used first after the first failure of spot. AWS and Karpenter reject more requests for about 3
	// minutes after a refusal. With a fallback of only 3 minutes, the group would switch between spot and on-demand again and again.
	FirstFallback = 15 * time.Minute
	maxFallback   = 2 * time.Hour
	// MaxLevel is the level from which on a fallback has the maximum length: FirstFallback doubled four times exceeds maxFallback.
	MaxLevel = 5
	// SettleTime is how long a new spot node must run before spot counts as available again. It is longer than the time for which a provider
	// repeats a refusal, and longer than the time from an interruption notice to the interruption.
	SettleTime = 5 * time.Minute
	// probeTimeout is the longest time that a probe waits until a pod uses spot.
	probeTimeout = 30 * time.Minute
	// LevelReset is how long spot must have been used before the next fallback starts from FirstFallback again.
	LevelReset = 2 * time.Hour
)

// Phase determines whether new nodes of a group are spot or on-demand nodes, and whether replicas move back to spot:
//
//	PreferSpot --SpotFails--> Fallback --FallbackOver--> Probing --ProbeSucceeds--> Returning --ReturnComplete--> PreferSpot
//
//	phase       event             next        why
//	PreferSpot  SpotFails         Fallback    launches are refused, nodes are lost, or the spot wait timeout expired
//	PreferSpot  ReplicasOnDemand  Returning   Karpenter itself launched on-demand nodes
//	Fallback    FallbackOver      Probing     each fallback lasts twice as long as the previous one
//	Fallback    ProbeUseless      PreferSpot  no replica is left that a probe could move: new pods will try spot
//	Probing     ProbeFails        Fallback
//	Probing     ProbeSucceeds     Returning
//	Probing     ProbeUseless      PreferSpot
//	Returning   SpotFails         Fallback
//	Returning   ReturnComplete    PreferSpot
//	any         PairLost          PreferSpot  the group no longer has both a spot and an on-demand NodePool
//
// In every other combination the phase does not change; spotTransitions is the complete table.
type Phase uint8

// Values of Phase.
const (
	PreferSpot Phase = iota // spot is used first, and weights and limits have their owners' values
	Fallback                // on-demand is used first until the next probe
	Probing                 // spot is used again, for at most one more node
	Returning               // replicas move back to spot at the configured pace
	numPhases
)

// SpotEvent is an event of the state machine Phase. Each tick has exactly one event.
type SpotEvent uint8

// Values of SpotEvent.
const (
	SpotUnchanged    SpotEvent = iota
	PairLost                   // the group no longer has both a spot and an on-demand NodePool
	SpotFails                  // launches are refused, nodes are lost, or pods waited for the spot wait timeout
	FallbackOver               // the fallback has lasted for its full time, and a probe is possible
	ProbeUseless               // no replica or pod can show whether spot has capacity, or spot may launch no node
	ProbeFails                 // the probe was refused, its node was lost, or it took too long
	ProbeSucceeds              // a node of the probe has run for SettleTime
	ReplicasOnDemand           // replicas on on-demand nodes could run on spot
	ReturnComplete             // no more replica can move
	numSpotEvents
)

// spotTransitions contains the next phase for each phase and event.
var spotTransitions = [numPhases][numSpotEvents]Phase{
	PreferSpot: {SpotFails: Fallback, ReplicasOnDemand: Returning}, // for every other event the phase stays PreferSpot
	Fallback: {SpotUnchanged: Fallback, PairLost: PreferSpot, SpotFails: Fallback, FallbackOver: Probing, ProbeUseless: PreferSpot,
		ProbeFails: Fallback, ProbeSucceeds: Fallback, ReplicasOnDemand: Fallback, ReturnComplete: Fallback},
	Probing: {SpotUnchanged: Probing, PairLost: PreferSpot, SpotFails: Probing, FallbackOver: Probing, ProbeUseless: PreferSpot,
		ProbeFails: Fallback, ProbeSucceeds: Returning, ReplicasOnDemand: Probing, ReturnComplete: Probing},
	Returning: {SpotUnchanged: Returning, PairLost: PreferSpot, SpotFails: Fallback, FallbackOver: Returning, ProbeUseless: Returning,
		ProbeFails: Returning, ProbeSucceeds: Returning, ReplicasOnDemand: Returning, ReturnComplete: PreferSpot},
}

// SpotState is the state of a group in the state machine Phase. The record annotation of each NodePool of the group contains it, so that
// it is not lost in a crash.
type SpotState struct {
	Phase Phase         `json:"phase"`
	Level uint8         `json:"level,omitempty"` // number of consecutive failures; each of them doubles the length of the fallback
	Cause explain.Cause `json:"cause,omitempty"`
	Since int64         `json:"since,omitempty"` // start of the phase
	Until int64         `json:"until,omitempty"` // end of a fallback, at which a probe begins, or end of a probe
	Limit int64         `json:"limit,omitempty"` // limit of the spot NodePool during a probe
	Moved int64         `json:"moved,omitempty"` // when a batch last began to empty a node, or when the last batch was given up
	// Count and Of are the evidence for a fallback: the number of refused launches and of all launches, or the number of lost nodes and of all
	// nodes.
	Count int32 `json:"count,omitempty"`
	Of    int32 `json:"of,omitempty"`
}

// SpotInput contains everything that the state machine reads in a tick.
type SpotInput struct {
	At         int64
	Group      string
	Paired     bool
	Known      bool          // demand is known
	Peak       bool          // whether known demand arrives soon, so that no probe and no move may start
	WaitOver   bool          // whether pods have waited for the spot wait timeout
	Failure    explain.Cause // why spot fails; CauseNone: spot does not fail
	Evidence   Evidence      // evidence since the start of the phase
	ProbeUnits int64         // the limit of a probe that starts now
	Candidates bool          // whether there are replicas or pending pods that could use spot
	SpotFirst  bool          // whether Karpenter uses spot before on-demand when no weight is overridden
	Full       bool          // the owners' limits allow no spot node
	Launched   bool          // whether spot has launched a node in this phase
	Settled    bool          // whether a spot node of this phase has run for SettleTime
	Returnable bool          // whether a replica on an on-demand node can move, and spot has space for it
	Replaced   bool          // whether the successor of the probe's batch runs on a new on-demand node, because spot had no capacity
	Moving     bool          // a batch of replicas is moving
}

// Event returns the event that the input causes in the current phase.
func (s *SpotState) Event(in *SpotInput) SpotEvent {
	if !in.Paired {
		return PairLost
	}
	switch s.Phase {
	case PreferSpot:
		switch {
		case in.Failure != explain.CauseNone:
			return SpotFails
		case in.Returnable && in.Known && in.SpotFirst:
			return ReplicasOnDemand
		}
	case Fallback:
		switch {
		case in.At < s.Until || in.Peak || !in.Known && in.At < s.Until+maxFallback.Milliseconds():
		case !in.probePossible():
			return ProbeUseless
		default:
			return FallbackOver
		}
	case Probing:
		return s.probeEvent(in)
	case Returning:
		switch {
		case in.Failure != explain.CauseNone:
			return SpotFails
		case !in.Returnable && !in.Moving:
			return ReturnComplete
		}
	}
	return SpotUnchanged
}

// probePossible reports whether a replica or a pod exists that can show whether spot has capacity.
func (in *SpotInput) probePossible() bool { return in.Candidates && in.SpotFirst && !in.Full }

// NeedsFreeze reports whether the phase requires a consolidation freeze of the on-demand NodePool. While spot is preferred by weight,
// Karpenter would replace every on-demand node by a spot node at once. During a fallback, the weights prevent this. The freeze begins
// FreezeHandover before the fallback ends, and thus before the weights are restored.
func (s *SpotState) NeedsFreeze(in *SpotInput) bool {
	switch s.Phase {
	case Probing, Returning:
		return in.Paired
	case Fallback:
		return in.Paired && in.At >= s.Until-FreezeHandover.Milliseconds() && in.probePossible()
	}
	return false
}

func (s *SpotState) probeEvent(in *SpotInput) SpotEvent {
	e := &in.Evidence
	switch {
	case !e.Open && (e.Lost > 0 || e.Refused > 0 && !in.Launched), in.WaitOver, in.Replaced:
		return ProbeFails
	case in.Settled:
		return ProbeSucceeds
	case !in.Candidates, in.Full && !in.Launched, in.At >= s.Until && e.Attempts == 0:
		return ProbeUseless // no probe is needed, because new pods will show whether spot has capacity
	case in.At >= s.Until:
		return ProbeFails
	}
	return SpotUnchanged
}

// Apply changes the phase, and reports whether it changed.
func (s *SpotState) Apply(event SpotEvent, in *SpotInput) bool {
	was, next := s.Phase, spotTransitions[s.Phase][event]
	if next == was {
		return false
	}
	if event == ReturnComplete && s.Moved >= s.Since {
		s.Level = 0 // only a return that moved a replica proves that spot is available
	}
	s.Phase, s.Cause, s.Since, s.Until, s.Limit, s.Count, s.Of = next, explain.CauseNone, in.At, 0, 0, 0, 0
	switch {
	case next == Fallback:
		s.fallBack(event, in)
	case next == Probing:
		s.Limit, s.Until = in.ProbeUnits, in.At+probeTimeout.Milliseconds()
	case was == Probing && next == Returning:
		s.Cause = explain.CauseProbe
	}
	return true
}

// fallBack starts a fallback that is twice as long as the previous one.
func (s *SpotState) fallBack(event SpotEvent, in *SpotInput) {
	if s.Cause = in.Failure; event == ProbeFails {
		s.Cause = explain.CauseProbe
	}
	s.Level = min(s.Level+1, MaxLevel)
	s.Until = in.At + jittered(min(FirstFallback<<(s.Level-1), maxFallback), in.Group, s.Level).Milliseconds()
	s.Count, s.Of = int32(in.Evidence.Refused), int32(in.Evidence.Attempts)
	if s.Cause == explain.CauseLost {
		s.Count, s.Of = int32(in.Evidence.Lost), int32(in.Evidence.Nodes)
	}
}

// ResetLevel sets the number of consecutive failures to 0 if spot has been used for longer than LevelReset. It reports whether it changed
// the number.
func (s *SpotState) ResetLevel(at int64) bool {
	if s.Phase != PreferSpot || s.Level == 0 || at-s.Since <= LevelReset.Milliseconds() {
		return false
	}
	s.Level = 0
	return true
}

// String returns the name of the phase for messages and metric labels.
func (p Phase) String() string {
	return [...]string{"prefer spot", "fallback", "probing", "returning"}[min(p, Returning)]
}
