package capacity

import (
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// This file contains the rules that set limit caps. The table lists all rules that request the limit of a NodePool for the group's
// resource. If several rules request it, the last one in the table applies, but a limit cap never exceeds the limit that applies without
// it.
//
//	rule                 NodePool   limit                                    while
//	schedule             as listed  the number of the schedule               its window is open
//	spot fallback, hard  spot       units that run there                     phase Fallback, demand is known, on-demand is open
//	spot probe           spot       units that run there and one more node   phase Probing, demand is known, on-demand is open
//	spot wait timeout    on-demand  units that run there, at least the base  every phase but Fallback, demand is known, spot is open
//	zero limit           all        0                                        no demand, see ZeroLimit
//
// A rule for spot or on-demand limits each NodePool of this type to the units that run in it. If several on-demand NodePools run less than
// the base together, one of them may grow by the missing units, see growing.
//
// Units are those of the group's resource, such as GPUs. A NodePool is open if it may provide nodes. Shutdown removes all of these limits:
// without a controller to remove a limit, pods could not get nodes.

// spotWaitOver reports whether the on-demand NodePool has a limit cap and pods have waited for at least the spot wait timeout.
func (t *tick) spotWaitOver() bool { return t.capsOnDemand() && t.short >= t.spotWait() }

// needsOnDemandCap reports whether the on-demand NodePools should have limit caps. This requires that the group has a spot wait timeout or
// an on-demand base, that the phase is not Fallback, that the limits of a spot NodePool allow another node, and that demand has been known
// for trustInterval. A new leader that finds the cap set, and for which demand is known from the start, does not wait, so that there is no
// time without the cap.
func (t *tick) needsOnDemandCap() bool {
	return t.spotWait() > 0 && t.paired() && t.s.Spot.Phase != statemachine.Fallback && t.spot.room > 0 && t.known && !t.leaving &&
		(t.at-t.s.KnownSince >= trustInterval.Milliseconds() || t.s.UnknownAt == 0 && t.onDemandCapInForce())
}

// onDemandCapInForce reports whether an on-demand NodePool has a limit cap, also of a previous leader.
func (t *tick) onDemandCapInForce() bool {
	return slices.ContainsFunc(t.onDemand.all(), func(i int8) bool {
		o := &t.s.Pools[i].Overrides[nodepool.FieldLimit]
		return o.On && !o.Releasing && (o.Rule == explain.RuleSpotWaitTimeout || o.Rule == explain.RuleBase)
	})
}

// capsOnDemand reports whether on-demand should have limit caps and the limits of all on-demand NodePools may be overridden. If one of them
// could grow without a cap, no pod would wait for spot.
func (t *tick) capsOnDemand() bool {
	return t.needsOnDemandCap() && t.mayOverrideAll(&t.onDemand, nodepool.FieldLimit)
}

// mayOverrideAll reports whether an override of the field would be written for every NodePool of the side s, which contains all spot or all
// on-demand NodePools.
func (t *tick) mayOverrideAll(s *side, f nodepool.Field) bool {
	return !slices.ContainsFunc(s.all(), func(i int8) bool { return !t.mayOverride(int(i), f) })
}

// base runs the first GPUs of the group on on-demand nodes. It gives the on-demand NodePools the higher weight, so that Karpenter uses them
// first. The limit caps of capOnDemand stop their growth at the base, so that Karpenter uses spot for all other pods.
func (t *tick) base() {
	if t.g.OnDemandBase <= 0 || !t.capsOnDemand() {
		return
	}
	t.preferOnDemand(explain.RuleBase)
	t.because(explain.Reason{Rule: explain.RuleBase, Pool: t.onDemand.first(), A: float64(t.baseUnits()), B: float64(t.onDemand.units)})
}

// capOnDemand limits on-demand to its current size, or to the base if that is greater. The cap ends with the spot wait timeout, with a
// fallback, and as soon as demand is unknown.
func (t *tick) capOnDemand() {
	if !t.needsOnDemandCap() {
		return
	}
	rule := explain.RuleSpotWaitTimeout
	if t.g.SpotWaitTimeout == 0 {
		rule = explain.RuleBase
	}
	caps, growing := t.capsOnDemand(), t.growing()
	for _, i := range t.onDemand.all() {
		limit := t.pools[i].units
		if int(i) == growing {
			limit += max(t.baseUnits()-t.onDemand.units, 0)
		}
		if !caps {
			if !t.mayOverride(int(i), nodepool.FieldLimit) {
				t.capLimit(int(i), limit, rule) // the method write reports why the field is not overridden
			}
			continue
		}
		t.capLimit(int(i), limit, rule)
		r := explain.Reason{Rule: explain.RuleSpotWaitTimeout, Pool: i, A: float64(limit)}
		if t.s.ShortSince != 0 {
			r.Until = statemachine.Instant(t.s.ShortSince + t.spotWait().Milliseconds())
		}
		t.because(r)
	}
}

// capLimit requests a limit of n units of the group's resource for a NodePool. If the NodePool already has a lower limit, the lower limit
// stays.
func (t *tick) capLimit(pool int, n int64, rule explain.Rule) {
	current := t.effective(pool, nodepool.FieldLimit)
	limit, ok := current.Number()
	switch {
	case current != "" && !ok:
		t.find(explain.Finding{Kind: explain.FindUnreadable, Pool: int8(pool), Field: nodepool.FieldLimit, Resource: t.g.Resource, Rule: rule})
	case current == "" || n < limit:
		t.requestNumber(pool, nodepool.FieldLimit, n, rule)
	}
}

// LimitsPending reports whether a limit of a NodePool is still overridden, or was restored and no observation shows it yet.
func (s *State) LimitsPending() bool {
	for i := range s.Pools {
		for f := nodepool.FieldLimit; f < nodepool.NumFields; f++ {
			if s.Pools[i].Overrides[f].On {
				return true
			}
		}
	}
	return false
}

// dropLimits removes all requests of the rules for limits, so that every limit is restored. Shutdown uses it, because no controller would
// remove the limits later.
func (t *tick) dropLimits() {
	for i := range t.requests {
		for f := nodepool.FieldLimit; f < nodepool.NumFields; f++ {
			t.requests[i][f] = request{}
		}
	}
}
