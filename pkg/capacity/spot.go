package capacity

import (
	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/weights"
)

// updatePhase computes the event of this tick and changes the group's phase (of statemachine.SpotState) if necessary. No other rule
// changes the phase, so all rules of a tick use the same phase. If a probe or a fallback ends with PreferSpot and replicas on on-demand
// nodes can run on spot, the phase becomes Returning in the same tick: in PreferSpot, neither a weight nor a freeze protects these
// replicas.
func (t *tick) updatePhase() {
	in := t.spotInput()
	event := t.s.Spot.Event(&in)
	if event != statemachine.SpotFails && in.Paired && t.s.Spot.ResetLevel(t.at) {
		t.s.MarkRecordsStale()
	}
	if t.changePhase(event, &in) && t.s.Spot.Phase == statemachine.PreferSpot {
		in = t.spotInput()
		t.changePhase(t.s.Spot.Event(&in), &in)
	}
	t.freezeForSpot = !t.g.Advisory && t.s.Spot.NeedsFreeze(&in)
	if !in.Paired {
		t.reportMixed()
	}
}

// changePhase applies an event to the phase, and reports whether the phase changed. When a fallback begins, the size of the batches that
// move to spot is reset, so that the next return begins with one replica.
func (t *tick) changePhase(event statemachine.SpotEvent, in *statemachine.SpotInput) bool {
	if !t.s.Spot.Apply(event, in) {
		return false
	}
	if t.s.Spot.Phase == statemachine.Fallback {
		t.s.Pace.Width = 1
	}
	t.s.MarkRecordsStale()
	return true
}

func (t *tick) spotInput() statemachine.SpotInput {
	s := &t.s.Spot
	in := statemachine.SpotInput{At: t.at, Group: t.g.Name, Paired: t.paired(), Known: t.known}
	if !in.Paired {
		return in
	}
	in.Peak, in.WaitOver = t.peak(), t.spotWaitOver()
	if s.Phase != statemachine.Fallback {
		in.Evidence = t.spotEvidence(s.Since, s.Phase == statemachine.Probing)
	}
	in.Failure = t.spotFailure(in.WaitOver, in.Evidence)
	in.ProbeUnits = t.spot.units + t.nodeSize()
	in.Candidates = t.returnable > 0 || t.demand.Pending > 0
	in.SpotFirst, in.Full = t.spotFirst(), t.spot.room == 0
	in.Launched, in.Settled = statemachine.Stamp(t.spot.newest) > s.Since, t.settled(s.Since)
	in.Returnable, in.Moving, in.Replaced = t.canReturn(), t.s.Move.Step != statemachine.NoMove, t.successorOnDemand()
	return in
}

// spotFailure returns the reason why spot fails now, or CauseNone if spot does not fail. While on-demand has a limit cap, spot fails only
// if pods have waited for the spot wait timeout.
func (t *tick) spotFailure(waitOver bool, e statemachine.Evidence) explain.Cause {
	switch {
	case waitOver:
		return explain.CauseSpotWaitTimeout
	case t.capsOnDemand():
		return explain.CauseNone
	}
	// During a return, the on-demand NodePool grows by each successor for which spot has no capacity. This is not a failure of spot: only
	// the start of the next batch is delayed.
	e.Replaced = e.Replaced && t.s.Spot.Phase != statemachine.Returning
	return e.Failure(t.short)
}

// settled reports whether a spot node has run for SettleTime, in a NodePool without a lost node. It considers only nodes and losses after
// the parameter since (in Unix milliseconds).
func (a *analysis) settled(since int64) bool {
	for _, i := range a.spot.all() {
		if a.settledIn(&a.o.Pools[i], since) && a.evidence(int(i), since).Lost == 0 {
			return true
		}
	}
	return false
}

func (a *analysis) settledIn(v *PoolView, since int64) bool {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		created := statemachine.Stamp(n.Created)
		if n.Stage == Usable && n.Ready && !n.Deleting && !n.Notice && created > since && a.at-created >= statemachine.SettleTime.Milliseconds() {
			return true
		}
	}
	return false
}

// spotFirst reports whether, without overridden weights, Karpenter uses every spot NodePool before every on-demand NodePool. In a group
// with a spot wait timeout or an on-demand base it is true, because the limit cap on on-demand has this effect.
func (t *tick) spotFirst() bool {
	spot, _ := t.misplacedSpot()
	return spot < 0 || t.spotWait() > 0
}

// misplacedSpot returns a spot NodePool that Karpenter uses after an on-demand NodePool, and this on-demand NodePool. If there is no such
// pair, it returns -1 for both.
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

// stranded returns why pods that have waited for ShortageMinimum do not get an on-demand node either. It returns CauseNone if they may
// get an on-demand node, or if no pods have waited that long. If it returns another cause, spot must not be limited, because otherwise
// these pods would get no node.
func (t *tick) stranded() explain.Cause {
	if t.short < statemachine.ShortageMinimum {
		return explain.CauseNone
	}
	first := explain.CauseNone
	for _, i := range t.onDemand.all() {
		cause := t.closedBy(int(i))
		if cause == explain.CauseNone && t.refusedSince(int(i), 0) {
			cause = explain.CauseRefused // unlike in closedBy, refusals before the end of the last target cap count too
		}
		if cause == explain.CauseNone && t.pools[i].exhausted {
			cause = explain.CauseReservation
		}
		if cause == explain.CauseNone {
			return explain.CauseNone
		}
		if first == explain.CauseNone {
			first = cause
		}
	}
	return first
}

// fallback makes Karpenter use on-demand first. In a group with a hard fallback, it also limits each spot NodePool to its current size.
func (t *tick) fallback() {
	s := &t.s.Spot
	if !t.paired() || s.Phase != statemachine.Fallback {
		return
	}
	t.preferOnDemand(explain.RuleFallback)
	t.because(explain.Reason{Rule: explain.RuleFallback, Pool: t.onDemand.first(), Cause: s.Cause,
		A: float64(s.Count), B: float64(s.Of), Until: statemachine.Instant(s.Until)})
	if t.g.Fallback != Hard || t.leaving || !t.trusted() {
		return
	}
	if cause := t.stranded(); cause != explain.CauseNone {
		t.because(explain.Reason{Rule: explain.RuleFallback, Pool: t.spot.first(), Cause: cause})
		return
	}
	for _, i := range t.spot.all() {
		t.capLimit(int(i), t.pools[i].units, explain.RuleFallback)
	}
}

// probe limits spot to its size at the start of the probe and one more node, while the phase is Probing. Each of several spot NodePools
// may launch this node, because it is not known which NodePool has capacity. When one NodePool has launched a node, the others may not
// grow any more.
func (t *tick) probe() {
	s := &t.s.Spot
	if !t.paired() || s.Phase != statemachine.Probing {
		return
	}
	if cause := t.stranded(); cause != explain.CauseNone {
		t.because(explain.Reason{Rule: explain.RuleProbe, Pool: t.spot.first(), Cause: cause})
		return
	}
	more := max(s.Limit-t.spot.units, 0)
	for _, i := range t.spot.all() {
		limit := t.pools[i].units + more
		if t.g.countsDevices() {
			limit = 0
		}
		if !t.leaving && t.trusted() {
			t.capLimit(int(i), limit, explain.RuleProbe)
		}
		t.because(explain.Reason{Rule: explain.RuleProbe, Pool: i, A: float64(limit), Until: statemachine.Instant(s.Until)})
	}
}

// preferOnDemand requests weights so that every on-demand NodePool has a higher weight than every spot NodePool. A NodePool of reserved
// capacity with a higher weight than the on-demand NodePools keeps a higher weight. In a group without on-demand NodePools, reserved
// capacity replaces spot and is treated like on-demand.
func (t *tick) preferOnDemand(rule explain.Rule) {
	var spot, onDemand, reserved [nodepool.MaxPools]weights.Pool
	var changed [nodepool.MaxPools]weights.Pool
	var beside side
	if t.alternative() != Reserved {
		beside = t.sideOf(Reserved)
	}
	requested := weights.PreferOnDemand(changed[:0], t.weights(&t.spot, spot[:0]), t.weights(&t.onDemand, onDemand[:0]),
		t.weights(&beside, reserved[:0]))
	for _, p := range requested {
		t.fields.RequestNumber(int(p.Index), nodepool.FieldWeight, p.Weight, rule)
	}
}

// weights appends the NodePools of a side (of one capacity type), with their weights, to the parameter into. Fixed is true for a NodePool
// whose weight gpuscaler is not allowed to override. In an advisory group Fixed is always false, so that the plan shows what gpuscaler
// would write in mode auto.
func (t *tick) weights(s *side, into []weights.Pool) []weights.Pool {
	for _, i := range s.all() {
		weight, _ := t.fields.Effective(int(i), nodepool.FieldWeight).Number()
		fixed := !t.g.Advisory && !t.fields.MayOverride(int(i), nodepool.FieldWeight)
		into = append(into, weights.Pool{Index: i, Weight: weight, Fixed: fixed})
	}
	return into
}

// evidence counts the refused launches and lost nodes of a NodePool after the parameter since (in Unix milliseconds).
func (a *analysis) evidence(pool int, since int64) (e statemachine.Evidence) {
	v := &a.o.Pools[pool]
	from := max(since, a.at-statemachine.RefusalWindow.Milliseconds())
	e.Refused = evidence.Refused(v.Failures, from, a.at)
	e.Attempts = e.Refused
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Stage != Requested && a.within(n.Created, from) {
			e.Attempts++
		}
	}
	e.Replaced = a.paired() && statemachine.Stamp(a.onDemand.newest) > from
	e.Lost = evidence.Lost(v.Losses, max(since, a.at-statemachine.LossWindow.Milliseconds()), a.at)
	e.Nodes = a.pools[pool].nodes + e.Lost
	return e
}

// spotEvidence adds up the refused launches and lost nodes of all spot NodePools after the parameter since (in Unix milliseconds). Spot
// as a whole counts as available until every spot NodePool has failed or cannot launch a node. In a probe, a NodePool fails with the
// first lost node, or with the first refused launch if it launched no node.
func (a *analysis) spotEvidence(since int64, probing bool) (sum statemachine.Evidence) {
	for _, i := range a.spot.all() {
		e := a.evidence(int(i), since)
		sum.Refused, sum.Attempts = sum.Refused+e.Refused, sum.Attempts+e.Attempts
		sum.Lost, sum.Nodes = sum.Lost+e.Lost, sum.Nodes+e.Nodes
		sum.Replaced = e.Replaced
		failed := e.Refused > 0 && 2*e.Refused >= e.Attempts || e.ManyLost()
		if probing {
			failed = e.Lost > 0 || e.Refused > 0 && statemachine.Stamp(a.pools[i].newest) <= since
		}
		sum.Open = sum.Open || !failed && a.mayLaunch(int(i))
	}
	return sum
}
