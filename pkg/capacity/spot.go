package capacity

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
		in.evidence = t.spotEvidence(s.Since, s.Phase == Probing)
	}
	in.failure = t.spotFailure(in.waitOver, in.evidence)
	in.probeUnits = t.spot.units + t.nodeSize()
	in.candidates = t.returnable > 0 || t.demand.Pending > 0
	in.spotFirst, in.full = t.spotFirst(), t.spot.room == 0
	in.launched, in.settled = stamp(t.spot.newest) > s.Since, t.settled(s.Since)
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

// settled reports whether a spot node that was created after an instant has run for settleTime, in a NodePool that lost no node since then.
func (a *analysis) settled(since int64) bool {
	for _, i := range a.spot.all() {
		if a.settledIn(&a.o.Pools[i], since) && a.evidence(int(i), since).lost == 0 {
			return true
		}
	}
	return false
}

func (a *analysis) settledIn(v *PoolView, since int64) bool {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		created := stamp(n.Created)
		if n.Stage == Usable && n.Ready && !n.Deleting && !n.Notice && created > since && a.at-created >= settleTime.Milliseconds() {
			return true
		}
	}
	return false
}

// spotFirst reports whether Karpenter uses every spot NodePool before every on-demand NodePool without an override of their weights. In a
// group with a spot wait timeout or a base, spot is used first in any case, because of the limit cap on on-demand.
func (t *tick) spotFirst() bool {
	spot, _ := t.misplacedSpot()
	return spot < 0 || t.spotWait() > 0
}

// misplacedSpot returns a spot NodePool that Karpenter uses after an on-demand NodePool, and that on-demand NodePool. It returns -1 if
// there is none.
func (t *tick) misplacedSpot() (spot, onDemand int) {
	for _, d := range t.onDemand.all() {
		for _, s := range t.spot.all() {
			if !t.precedes(int(s), int(d)) {
				return int(s), int(d)
			}
		}
	}
	return -1, -1
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
