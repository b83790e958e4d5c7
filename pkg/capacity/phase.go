package capacity

import "time"

const (
	// firstFallback is how long on-demand is used first after the first failure of spot. AWS and Karpenter reject further requests for
	// about 3 minutes after a refusal. With a fallback of that length, the group would switch between spot and on-demand all the time.
	firstFallback = 15 * time.Minute
	maxFallback   = 2 * time.Hour
	maxLevel      = 5 // level at which a fallback has the maximum length: firstFallback doubled four times is more than maxFallback
	// settleTime is how long a new spot node must run before spot counts as available again. It is longer than the time for which a
	// provider repeats a refusal and than the time of an interruption notice.
	settleTime = 5 * time.Minute
	// probeTimeout is the longest time that a probe waits until a pod uses spot.
	probeTimeout = 30 * time.Minute
	// levelReset is how long spot must have been used before the next fallback starts from firstFallback again.
	levelReset = 2 * time.Hour
	// baseWait is the spot wait timeout of a group that has an on-demand base and sets no timeout. It is long enough for Karpenter to
	// collect one batch of pods and to launch a node.
	baseWait = 30 * time.Second
)

// Phase determines whether new nodes of a group are spot or on-demand nodes, and whether replicas move back to spot:
//
//	PreferSpot --spotFails--> Fallback --fallbackOver--> Probing --probeSucceeds--> Returning --returnComplete--> PreferSpot
//
//	phase       event             next        why
//	PreferSpot  spotFails         Fallback    launches are refused, nodes are lost, or the spot wait timeout expired
//	PreferSpot  replicasOnDemand  Returning   Karpenter itself launched on-demand nodes
//	Fallback    fallbackOver      Probing     each fallback lasts twice as long as the previous one
//	Fallback    probeUseless      PreferSpot  no replica is left to probe with: new pods will try spot
//	Probing     probeFails        Fallback
//	Probing     probeSucceeds     Returning
//	Probing     probeUseless      PreferSpot
//	Returning   spotFails         Fallback
//	Returning   returnComplete    PreferSpot
//	any         pairLost          PreferSpot  the group has no pair of NodePools any more
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

// spotEvent is the event of the state machine Phase. Each tick has exactly one.
type spotEvent uint8

const (
	spotUnchanged    spotEvent = iota
	pairLost                   // the group has no pair of NodePools any more
	spotFails                  // launches are refused, nodes are lost, or pods waited for the spot wait timeout
	fallbackOver               // the fallback has lasted long enough, and a probe is possible
	probeUseless               // no replica is left to probe with, or no node may be launched
	probeFails                 // the probe was refused, its node was lost, or it took too long
	probeSucceeds              // a node of the probe has run for settleTime
	replicasOnDemand           // replicas on demand could run on spot
	returnComplete             // no replica is left that could move
	numSpotEvents
)

// spotTransitions is the next phase for each phase and event.
var spotTransitions = [numPhases][numSpotEvents]Phase{
	PreferSpot: {spotFails: Fallback, replicasOnDemand: Returning}, // every other event: PreferSpot
	Fallback: {spotUnchanged: Fallback, pairLost: PreferSpot, spotFails: Fallback, fallbackOver: Probing, probeUseless: PreferSpot,
		probeFails: Fallback, probeSucceeds: Fallback, replicasOnDemand: Fallback, returnComplete: Fallback},
	Probing: {spotUnchanged: Probing, pairLost: PreferSpot, spotFails: Probing, fallbackOver: Probing, probeUseless: PreferSpot,
		probeFails: Fallback, probeSucceeds: Returning, replicasOnDemand: Probing, returnComplete: Probing},
	Returning: {spotUnchanged: Returning, pairLost: PreferSpot, spotFails: Fallback, fallbackOver: Returning, probeUseless: Returning,
		probeFails: Returning, probeSucceeds: Returning, replicasOnDemand: Returning, returnComplete: PreferSpot},
}

// spotState is the state of the state machine Phase. It is stored in the record, so it is not lost in a crash.
type spotState struct {
	Phase Phase `json:"phase"`
	Level uint8 `json:"level,omitempty"` // failures in a row: each doubles the length of the fallback
	Cause Cause `json:"cause,omitempty"`
	Since int64 `json:"since,omitempty"` // start of the phase
	Until int64 `json:"until,omitempty"` // end of a fallback (a probe then begins), or end of a probe
	Limit int64 `json:"limit,omitempty"` // limit of the spot NodePool during a probe
	Moved int64 `json:"moved,omitempty"` // when the move of the last node began
	// Count and Of are the evidence for a fallback: Count refused launches of Of launches, or Count lost nodes of Of nodes.
	Count int32 `json:"count,omitempty"`
	Of    int32 `json:"of,omitempty"`
}

// spotInput is everything that the state machine reads.
type spotInput struct {
	at         int64
	group      string
	paired     bool
	known      bool     // demand is known
	peak       bool     // known demand arrives soon: no probe and no move starts in this time
	waitOver   bool     // pods have waited for the spot wait timeout
	failure    Cause    // why spot fails; CauseNone: spot does not fail
	evidence   evidence // evidence since the start of the phase
	probeUnits int64    // the limit of a probe that starts now
	candidates bool     // replicas or pending pods exist that could use spot
	spotFirst  bool     // Karpenter uses spot before on-demand without an override
	full       bool     // the owners' limits allow no spot node
	launched   bool     // spot has launched a node in this phase
	settled    bool     // a spot node of this phase has run for settleTime
	returnable bool     // a replica on demand fits on spot
	replaced   bool     // the successor of the probe's batch runs on a new on-demand node, because spot had no capacity
	moving     bool     // a batch of replicas is moving
}

// event returns the event that the input causes in the current phase.
func (s *spotState) event(in *spotInput) spotEvent {
	if !in.paired {
		return pairLost
	}
	switch s.Phase {
	case PreferSpot:
		switch {
		case in.failure != CauseNone:
			return spotFails
		case in.returnable && in.known && in.spotFirst:
			return replicasOnDemand
		}
	case Fallback:
		switch {
		case in.at < s.Until || in.peak || !in.known && in.at < s.Until+maxFallback.Milliseconds():
		case !in.probePossible():
			return probeUseless
		default:
			return fallbackOver
		}
	case Probing:
		return s.probeEvent(in)
	case Returning:
		switch {
		case in.failure != CauseNone:
			return spotFails
		case !in.returnable && !in.moving:
			return returnComplete
		}
	}
	return spotUnchanged
}

// probePossible reports whether a replica or a pod exists that can show whether spot has capacity.
func (in *spotInput) probePossible() bool { return in.candidates && in.spotFirst && !in.full }

// needsFreeze reports whether consolidation of the on-demand NodePool must be frozen because of the phase. While spot is preferred by
// weight, Karpenter would otherwise replace every on-demand node by a spot node at once. During a fallback, the weights prevent this. The
// freeze begins freezeHandover before the fallback ends, so that it is in force before the weights are restored.
func (s *spotState) needsFreeze(in *spotInput) bool {
	switch s.Phase {
	case Probing, Returning:
		return in.paired
	case Fallback:
		return in.paired && in.at >= s.Until-freezeHandover.Milliseconds() && in.probePossible()
	}
	return false
}

func (s *spotState) probeEvent(in *spotInput) spotEvent {
	e := &in.evidence
	switch {
	case !e.open && (e.lost > 0 || e.refused > 0 && !in.launched), in.waitOver, in.replaced:
		return probeFails
	case in.settled:
		return probeSucceeds
	case !in.candidates, in.full && !in.launched, in.at >= s.Until && e.attempts == 0:
		return probeUseless // new pods will show whether spot has capacity
	case in.at >= s.Until:
		return probeFails
	}
	return spotUnchanged
}

// apply changes the phase, and reports whether it changed.
func (s *spotState) apply(event spotEvent, in *spotInput) bool {
	was, next := s.Phase, spotTransitions[s.Phase][event]
	if next == was {
		return false
	}
	if event == returnComplete && s.Moved >= s.Since {
		s.Level = 0 // only a return that moved a replica proves that spot is available
	}
	s.Phase, s.Cause, s.Since, s.Until, s.Limit, s.Count, s.Of = next, CauseNone, in.at, 0, 0, 0, 0
	switch {
	case next == Fallback:
		s.fallBack(event, in)
	case next == Probing:
		s.Limit, s.Until = in.probeUnits, in.at+probeTimeout.Milliseconds()
	case was == Probing && next == Returning:
		s.Cause = CauseProbe
	}
	return true
}

// fallBack starts a fallback of twice the length of the previous one.
func (s *spotState) fallBack(event spotEvent, in *spotInput) {
	if s.Cause = in.failure; event == probeFails {
		s.Cause = CauseProbe
	}
	s.Level = min(s.Level+1, maxLevel)
	s.Until = in.at + jittered(min(firstFallback<<(s.Level-1), maxFallback), in.group, s.Level).Milliseconds()
	s.Count, s.Of = int32(in.evidence.refused), int32(in.evidence.attempts)
	if s.Cause == CauseLost {
		s.Count, s.Of = int32(in.evidence.lost), int32(in.evidence.nodes)
	}
}

// resetLevel sets the number of consecutive failures to 0 if spot has been used for longer than levelReset. It reports whether it did.
func (s *spotState) resetLevel(at int64) bool {
	if s.Phase != PreferSpot || s.Level == 0 || at-s.Since <= levelReset.Milliseconds() {
		return false
	}
	s.Level = 0
	return true
}
