package capacity

import "time"

const (
	// firstFallback is how long on-demand is used first after the first failure of spot. AWS and Karpenter reject further requests for
	// about 3 minutes after a refusal. With a fallback of that length, the group would switch between spot and on-demand all the time.
	firstFallback = 15 * time.Minute
	maxFallback   = 2 * time.Hour
	maxLevel      = 5 // firstFallback doubled four times is more than maxFallback
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
	PreferSpot Phase = iota // the NodePools are as their owners wrote them
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
	Since int64 `json:"since,omitempty"` // of the phase
	Until int64 `json:"until,omitempty"` // when a fallback probes, or a probe ends
	Limit int64 `json:"limit,omitempty"` // of a probe
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
	peak       bool     // known demand is arriving: nothing is tried meanwhile
	waitOver   bool     // pods have waited for the spot wait timeout
	failure    Cause    // why spot fails; CauseNone: it does not
	evidence   evidence // since the start of the phase
	probeUnits int64    // the limit of a probe that starts now
	candidates bool     // replicas or pending pods exist that could use spot
	spotFirst  bool     // Karpenter uses spot before on-demand without an override
	full       bool     // an owner's limit allows no spot node
	launched   bool     // spot has launched a node in this phase
	settled    bool     // a spot node of this phase has run for settleTime
	returnable bool     // a replica on demand fits on spot
	replaced   bool     // the successor of the probe's batch runs on a new on-demand node: spot was tried and refused
	moving     bool     // a batch is on its way
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
	case e.lost > 0, e.refused > 0 && !in.launched, in.waitOver, in.replaced:
		return probeFails
	case in.settled:
		return probeSucceeds
	case !in.candidates, in.full && !in.launched, in.at >= s.Until && e.attempts == 0:
		return probeUseless // new pods will try spot
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

// updatePhase computes the event of this tick and changes the group's phase if necessary. No other rule changes the phase, so that all
// rules of a tick use the same one. If a probe or a fallback ends with PreferSpot and replicas on demand can run on spot, the phase becomes
// Returning in the same tick: in PreferSpot, neither a weight nor a freeze protects them.
func (t *tick) updatePhase() {
	in := t.spotInput()
	event := t.s.Spot.event(&in)
	if event != spotFails && in.paired && t.s.Spot.resetLevel(t.at) {
		t.s.encodeRecords()
	}
	if t.changePhase(event, &in) && t.s.Spot.Phase == PreferSpot {
		in = t.spotInput()
		t.changePhase(t.s.Spot.event(&in), &in)
	}
	t.freezeForSpot = !t.g.Advisory && t.s.Spot.needsFreeze(&in)
	if !in.paired {
		t.reportMixed()
	}
}

// changePhase applies an event to the phase, and reports whether the phase changed. When a fallback begins, the size of batches is reset,
// so that the next return begins with one replica.
func (t *tick) changePhase(event spotEvent, in *spotInput) bool {
	if !t.s.Spot.apply(event, in) {
		return false
	}
	if t.s.Spot.Phase == Fallback {
		t.s.Pace.Width = 1
	}
	t.s.encodeRecords()
	return true
}

func (t *tick) spotInput() spotInput {
	s := &t.s.Spot
	in := spotInput{at: t.at, group: t.g.Name, paired: t.paired(), known: t.known}
	if !in.paired {
		return in
	}
	in.peak, in.waitOver = t.peak(), t.spotWaitOver()
	if s.Phase != Fallback {
		in.evidence = t.evidence(t.spot, s.Since)
	}
	in.failure = t.spotFailure(in.waitOver, in.evidence)
	in.probeUnits = t.pools[t.spot].units + t.nodeSize()
	in.candidates = t.returnable > 0 || t.demand.Pending > 0
	in.spotFirst, in.full = t.spotFirst(), t.full(t.spot)
	in.launched, in.settled = stamp(t.pools[t.spot].newest) > s.Since, t.settled(s.Since)
	in.returnable, in.moving, in.replaced = t.canReturn(), t.s.Move.Step != noMove, t.successorOnDemand()
	return in
}

// spotFailure returns why spot fails at present, and CauseNone if it does not. While the on-demand NodePool has a limit cap, spot fails
// only if pods have waited for the spot wait timeout.
func (t *tick) spotFailure(waitOver bool, e evidence) Cause {
	switch {
	case waitOver:
		return CauseSpotWaitTimeout
	case t.capsOnDemand():
		return CauseNone
	}
	// During a return, the on-demand NodePool grows by each successor that spot has no capacity for. This is not a failure of spot: the
	// next batch only waits longer.
	e.replaced = e.replaced && t.s.Spot.Phase != Returning
	return e.failure(t.short)
}

// settled reports whether a spot node that was created after an instant has run for settleTime.
func (a *analysis) settled(since int64) bool {
	for i := range a.o.Pools[a.spot].Nodes {
		n := &a.o.Pools[a.spot].Nodes[i]
		created := stamp(n.Created)
		if n.Stage == Usable && n.Ready && !n.Deleting && !n.Notice && created > since && a.at-created >= settleTime.Milliseconds() {
			return true
		}
	}
	return false
}

// spotFirst reports whether Karpenter uses the spot NodePool before the on-demand NodePool without an override of their weights. If the
// weights are equal, Karpenter uses the NodePool whose name is later in the alphabet. In a group with a spot wait timeout or a base, spot
// is used first in any case, because of the limit cap on on-demand.
func (t *tick) spotFirst() bool {
	spot, _ := t.original(t.spot, FieldWeight).number()
	onDemand, _ := t.original(t.onDemand, FieldWeight).number()
	return spot > onDemand || spot == onDemand && t.g.Pools[t.spot].Name > t.g.Pools[t.onDemand].Name || t.spotWait() > 0
}

// stranded returns why pods that have waited for shortageMinimum do not get an on-demand node either. It returns CauseNone if they may get
// one. With any other cause, spot must not be limited.
func (t *tick) stranded() Cause {
	if t.short < shortageMinimum {
		return CauseNone
	}
	cause := t.closedBy(t.onDemand)
	if cause == CauseNone && t.refusedSince(t.onDemand, 0) {
		return CauseRefused // a target cap that ends for a retry does not change a refusal
	}
	return cause
}

// fallback uses on-demand first, and limits spot to its current size in a group with a hard fallback.
func (t *tick) fallback() {
	s := &t.s.Spot
	if !t.paired() || s.Phase != Fallback {
		return
	}
	t.preferOnDemand(RuleFallback)
	t.because(Reason{Rule: RuleFallback, Pool: int8(t.onDemand), Cause: s.Cause,
		A: float64(s.Count), B: float64(s.Of), Until: instant(s.Until)})
	if t.g.Fallback != Hard || t.leaving || !t.trusted() {
		return
	}
	if cause := t.stranded(); cause != CauseNone {
		t.because(Reason{Rule: RuleFallback, Pool: int8(t.spot), Cause: cause})
		return
	}
	t.capLimit(t.spot, t.pools[t.spot].units, RuleFallback)
}

// probe limits the spot NodePool to its current size and one more node while the phase is Probing.
func (t *tick) probe() {
	s := &t.s.Spot
	if !t.paired() || s.Phase != Probing {
		return
	}
	if cause := t.stranded(); cause != CauseNone {
		t.because(Reason{Rule: RuleProbe, Pool: int8(t.spot), Cause: cause})
		return
	}
	limit := max(s.Limit, t.pools[t.spot].units)
	if t.g.countsDevices() {
		limit = 0
	}
	if !t.leaving && t.trusted() {
		t.capLimit(t.spot, limit, RuleProbe)
	}
	t.because(Reason{Rule: RuleProbe, Pool: int8(t.spot), A: float64(limit), Until: instant(s.Until)})
}

// reportMixed adds a finding for each NodePool that can launch several capacity types. gpuscaler only observes such NodePools.
func (t *tick) reportMixed() {
	for i := range t.views() {
		v := &t.o.Pools[i]
		if !v.Exists || !v.Mixed && t.g.Pools[i].Type != Mixed {
			continue
		}
		f := Finding{Kind: FindMixed, Pool: int8(i)}
		for j := range v.Nodes {
			if n := &v.Nodes[j]; n.Type == OnDemand && !n.Deleting {
				f.Count++
				f.Hourly += n.Hourly
			}
		}
		t.find(f)
	}
}
