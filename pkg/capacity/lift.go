package capacity

import (
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// limitToZero requests a limit of 0 for every NodePool of the group while there is no demand. As soon as demand exists or may exist, it no
// longer requests the limit, and the owner's limit is restored.
func (t *tick) limitToZero() {
	in := statemachine.ZeroLimitInput{At: t.at, Lift: t.liftReason(), InForce: t.zeroLimitInForce()}
	state := t.s.ZeroLimit.Step(in)
	switch {
	case !t.g.ZeroLimit || t.leaving:
	case state == statemachine.ZeroLimitOn:
		for i := range t.views() {
			t.requestNumber(i, nodepool.FieldLimit, 0, explain.RuleZeroLimit)
		}
		t.because(explain.Reason{Rule: explain.RuleZeroLimit, Pool: -1})
	default:
		r := explain.Reason{Rule: explain.RuleNoZeroLimit, Pool: -1, A: float64(in.Lift)}
		if state == statemachine.ZeroLimitPending {
			r.Until = statemachine.Instant(t.s.ZeroLimit.Since + statemachine.ZeroLimitDelay.Milliseconds())
		}
		t.because(r)
	}
}

// zeroLimitInForce reports whether this rule has set the limit of any NodePool of the group to 0.
func (t *tick) zeroLimitInForce() bool {
	for i := range t.views() {
		if o := &t.s.Pools[i].Overrides[nodepool.FieldLimit]; o.On && !o.Releasing && o.Rule == explain.RuleZeroLimit {
			return true
		}
	}
	return false
}

// liftReason returns why the limit must not be 0. It returns NotLifted if there is no demand and no known demand starts soon.
func (a *analysis) liftReason() explain.LiftReason {
	switch {
	case !a.known:
		return explain.LiftedByUnknownDemand
	case a.pods > 0:
		if a.anyPending() {
			return explain.LiftedByPendingPod
		}
		return explain.LiftedByPods
	case a.demand.Total() > 0:
		return explain.LiftedByDemand
	case a.unknownPodWaits():
		return explain.LiftedByPendingPod
	case a.knownDemandWithin(a.g.LeadTime + liftAhead):
		return explain.LiftedByKnownDemand
	}
	return explain.NotLifted
}

func (a *analysis) anyPending() bool {
	found := false
	a.eachPod(func(_ *Workload, p *Pod) { found = found || p.Pending && !p.UnknownPlacement })
	return found
}

// unknownPodWaits reports whether a pod has been pending for unknownPendingTime, and it is unknown whether the pod can be scheduled to the
// group's NodePools.
func (a *analysis) unknownPodWaits() bool {
	for i := range a.o.UnmanagedPods {
		if p := &a.o.UnmanagedPods[i]; p.UnknownPlacement && p.Pending && a.now.Sub(p.Since) >= unknownPendingTime {
			return true
		}
	}
	return false
}
