package capacity

import "time"

const (
	// fenceAfter is how long nobody must want anything before a fence comes: a queue that drains and fills again within minutes
	// would write the NodePools each time.
	fenceAfter = 5 * time.Minute
	// unsurePending is how long a pod may pend that nobody can place before the fence fails open for it.
	unsurePending = time.Minute
	// liftAhead is how long before demand that is known a fence goes, on top of the group's lead time: a lid that went takes
	// Karpenter up to 15 seconds to notice.
	liftAhead = time.Minute
)

// fence sets the limits to 0 while nobody wants anything, and fails open: whatever is in doubt lifts it.
func (t *tick) fence() {
	lift := t.lifts()
	if lift == NotLifted && t.s.zeroSince == 0 {
		t.s.zeroSince = t.at
	}
	if lift != NotLifted {
		t.s.zeroSince = 0
	}
	if !t.g.ZeroLimit || t.leaving {
		return
	}
	wait := t.s.zeroSince + fenceAfter.Milliseconds()
	if lift != NotLifted || t.at < wait && !t.fenced() {
		r := Reason{Rule: RuleNoZeroLimit, Pool: -1, A: float64(lift)}
		if lift == NotLifted {
			r.Until = instant(wait)
		}
		t.because(r)
		return
	}
	for i := range t.views() {
		t.wishNumber(i, FieldLimit, 0, RuleZeroLimit)
	}
	t.because(Reason{Rule: RuleZeroLimit, Pool: -1})
}

// fenced tells whether a fence stands already: one that a new leader finds stays while all is quiet.
func (t *tick) fenced() bool {
	for i := range t.views() {
		if n := &t.s.pools[i].nudges[FieldLimit]; n.on && !n.releasing && n.rule == RuleZeroLimit {
			return true
		}
	}
	return false
}

// lifts says what speaks against a fence; NotLifted is nothing.
func (t *tick) lifts() LiftReason {
	switch {
	case !t.known:
		return LiftedByUnknownDemand
	case t.pods > 0:
		if t.anyPending() {
			return LiftedByPendingPod
		}
		return LiftedByPods
	case t.d.Demand.Total() > 0:
		return LiftedByDemand
	case t.unsureWaits():
		return LiftedByPendingPod
	case t.aheadWithin(t.g.LeadTime + liftAhead):
		return LiftedByKnownDemand
	}
	return NotLifted
}

func (t *tick) anyPending() bool {
	found := false
	t.eachPod(func(_ *Workload, p *Pod) { found = found || p.Pending && !p.UnknownPlacement })
	return found
}

// unsureWaits tells whether a pod has been pending for a minute that may be meant for our pools.
func (t *tick) unsureWaits() bool {
	for i := range t.o.UnmanagedPods {
		if p := &t.o.UnmanagedPods[i]; p.UnknownPlacement && p.Pending && t.now.Sub(p.Since) >= unsurePending {
			return true
		}
	}
	return false
}

// aheadWithin tells whether known demand is open, or opens within d.
func (t *tick) aheadWithin(d time.Duration) bool {
	for i := range t.o.Ahead {
		if s := &t.o.Ahead[i]; s.GPUs > 0 && t.now.Add(d).After(s.From) && t.now.Before(s.Until) {
			return true
		}
	}
	return false
}
