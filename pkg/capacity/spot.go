package capacity

import "time"

const (
	// firstHold is how long spot is left alone after the first failure. AWS forgets a refusal after 3 minutes and so would
	// Karpenter: a hold near that would flap.
	firstHold = 15 * time.Minute
	maxHold   = 2 * time.Hour
	maxLevel  = 5 // firstHold doubled four times is beyond maxHold
	// settles is how long a spot node must live to prove the market: longer than a provider's memory and an interruption's notice.
	settles = 5 * time.Minute
	// probes is how long a probe waits for anybody to try spot at all.
	probes = 30 * time.Minute
	// forgives is how long spot must have held before the hold starts from firstHold again.
	forgives = 2 * time.Hour
	// baseWaits stands for a patience of 0 where an on-demand base keeps a limit: one batch of Karpenter's and its launch.
	baseWaits = 30 * time.Second
)

// turn is the state machine between spot and on-demand:
//
//	PreferSpot -- refusals, losses, patience over --> Fallback -- hold over --> Probing -- a node lives --> Returning -- none left --> PreferSpot
//	     |                                               ^ hold doubled             |  fails                 |  fails
//	     +-- replicas on demand anyway --> Returning     +-------------------------+------------------------+
func (t *tick) turn() {
	s := &t.s.spot
	if !t.paired() {
		if s.phase != PreferSpot {
			t.s.enter(PreferSpot, CauseNone)
		}
		t.reportMixed()
		return
	}
	switch s.phase {
	case PreferSpot:
		t.prefer()
	case Fallback:
		if t.at >= s.until && !t.peaks() && (t.known || t.at >= s.until+maxHold.Milliseconds()) {
			t.leaveFallback()
		}
	case Probing:
		t.judgeProbe()
	case Returning:
		if cause, e := t.failing(); cause != CauseNone {
			t.fallBack(cause, e)
		} else if !t.returns() && t.s.move.step == noMove {
			t.arrive()
		}
	}
}

// arrive ends a return. Only one that moved something proves that spot holds.
func (t *tick) arrive() {
	s := &t.s.spot
	if s.moved >= s.since {
		s.level = 0
	}
	t.s.enter(PreferSpot, CauseNone)
}

// prefer looks for reasons to leave spot, and for replicas that Karpenter put on demand by itself.
func (t *tick) prefer() {
	s := &t.s.spot
	if cause, e := t.failing(); cause != CauseNone {
		t.fallBack(cause, e)
		return
	}
	if s.level > 0 && t.at-s.since > forgives.Milliseconds() {
		s.level = 0
		t.s.touch()
	}
	if t.returns() && t.known && t.spotFirst() {
		t.s.enter(Returning, CauseNone)
	}
}

// failing says whether spot fails at present. Where pods have to be patient nothing else counts: on-demand may not grow before.
func (t *tick) failing() (Cause, evidence) {
	e := t.evidence(t.spot, t.s.spot.since)
	switch {
	case t.impatient():
		return CauseSpotWaitTimeout, e
	case t.lidded():
		return CauseNone, e
	}
	// While replicas return on-demand grows with each successor that spot has no room for: a full market, for which the return waits.
	e.replaced = e.replaced && t.s.spot.phase != Returning
	return e.fails(t.short), e
}

// fallBack leaves spot: for twice as long as the last time.
func (t *tick) fallBack(cause Cause, e evidence) {
	s := &t.s.spot
	s.level = min(s.level+1, maxLevel)
	t.s.pace.width = 1 // the way back begins with one again
	t.s.enter(Fallback, cause)
	length := min(firstHold<<(s.level-1), maxHold)
	s.until = t.at + jittered(length, t.g.Name, s.level).Milliseconds()
	s.count, s.of = int32(e.refused), int32(e.attempts)
	if cause == CauseLost {
		s.count, s.of = int32(e.lost), int32(e.nodes)
	}
}

// leaveFallback probes where there are replicas to probe with and a spot node may come, and forgets the failure otherwise.
func (t *tick) leaveFallback() {
	if t.left == 0 && t.d.Demand.Pending == 0 || !t.spotFirst() || t.full(t.spot) {
		t.s.enter(PreferSpot, CauseNone)
		return
	}
	t.s.enter(Probing, CauseNone)
	f := &t.facts[t.spot]
	t.s.spot.limit = f.runs + t.nodeSize()
	t.s.spot.until = t.at + probes.Milliseconds()
}

// judgeProbe waits for one node to come and live, or not to.
func (t *tick) judgeProbe() {
	s := &t.s.spot
	e := t.evidence(t.spot, s.since)
	switch {
	case e.lost > 0, e.refused > 0 && !t.landed(s.since), t.impatient():
		t.fallBack(CauseProbe, e)
	case t.lived(s.since):
		t.s.enter(Returning, CauseProbe)
	case t.left == 0 && t.d.Demand.Pending == 0, t.full(t.spot) && !t.landed(s.since), t.at >= s.until && e.attempts == 0:
		// No replica is left to probe with, or no node may come: new pods will probe.
		t.s.enter(PreferSpot, CauseNone)
	case t.at >= s.until:
		t.fallBack(CauseProbe, e)
	}
}

// landed tells whether the spot pool has launched a node since an instant, lived whether one has come up and settled.
func (t *tick) landed(since int64) bool {
	return stamp(t.facts[t.spot].newest) > since
}

func (t *tick) lived(since int64) bool {
	for i := range t.o.Pools[t.spot].Nodes {
		n := &t.o.Pools[t.spot].Nodes[i]
		if at := stamp(n.Created); n.Stage == Usable && n.Ready && !n.Deleting && !n.Notice && at > since && t.at-at >= settles.Milliseconds() {
			return true
		}
	}
	return false
}

// spotFirst tells whether Karpenter tries spot before on-demand without us: of equal weights it takes the name later in the alphabet.
// A limit of ours on on-demand has the same effect.
func (t *tick) spotFirst() bool {
	a, _ := t.original(t.spot, FieldWeight).number()
	b, _ := t.original(t.onDemand, FieldWeight).number()
	return a > b || a == b && t.g.Pools[t.spot].Name > t.g.Pools[t.onDemand].Name || t.waits() > 0
}

// nodeSize is what one node more may be: the greatest that is known. Karpenter drops an instance type whose whole capacity does not
// fit below the limit.
func (t *tick) nodeSize() (size int64) {
	for i := range t.views() {
		size = max(size, t.facts[i].node)
	}
	for i := range t.o.Workloads {
		size = max(size, t.o.Workloads[i].podGPUs())
	}
	return max(size, 1)
}

// stranded tells whether pods wait that on-demand does not take either, and why. No limit of ours on spot may stand then.
func (t *tick) stranded() Cause {
	if t.short < shortEnough {
		return CauseNone
	}
	cause := t.shut(t.onDemand)
	if cause == CauseNone && t.refusedSince(t.onDemand, 0) {
		return CauseRefused // a cap that lets go for a try takes no refusal back
	}
	return cause
}

// fallback turns the weights, and closes spot where the group says so.
func (t *tick) fallback() {
	s := &t.s.spot
	if !t.paired() || s.phase != Fallback {
		return
	}
	t.onDemandFirst(RuleFallback)
	t.because(Reason{Rule: RuleFallback, Pool: int8(t.onDemand), Cause: s.cause, A: float64(s.count), B: float64(s.of), Until: instant(s.until)})
	if t.g.Fallback != Hard || t.leaving || !t.trusted() {
		return
	}
	if cause := t.stranded(); cause != CauseNone {
		t.because(Reason{Rule: RuleFallback, Pool: int8(t.spot), Cause: cause})
		return
	}
	t.lid(t.spot, t.facts[t.spot].runs, RuleFallback)
}

// probe lets one spot node more come.
func (t *tick) probe() {
	s := &t.s.spot
	if !t.paired() || s.phase != Probing {
		return
	}
	if cause := t.stranded(); cause != CauseNone {
		t.because(Reason{Rule: RuleProbe, Pool: int8(t.spot), Cause: cause})
		return
	}
	limit := max(s.limit, t.facts[t.spot].runs)
	if !t.leaving && t.trusted() {
		t.lid(t.spot, limit, RuleProbe)
	}
	t.because(Reason{Rule: RuleProbe, Pool: int8(t.spot), A: float64(limit), Until: instant(s.until)})
}

// reportMixed says that one pool for several capacity types is only observed.
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
