package capacity

import (
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// This file contains the rules that set limits. The table lists all rules that request a limit on the group's resource for a NodePool. If
// several rules request a limit, the last of them in the table applies, but a limit cap (a limit below the owner's) never exceeds the
// limit that applies without it.
//
//	rule                 NodePool   limit                                    while
//	schedule             as listed  the number of the schedule               its window is open
//	spot fallback, hard  spot       units that run there                     phase Fallback, demand is known, on-demand is open
//	spot probe           spot       units that run there and one more node   phase Probing, demand is known, on-demand is open
//	spot wait timeout    on-demand  units that run there, at least the base  every phase but Fallback, demand is known, spot is open
//	zero limit           all        0                                        no demand, see ZeroLimit
//
// A rule for spot or on-demand limits each NodePool of this type to the units that run in it. If the on-demand NodePools together run
// fewer units than the base, the NodePool that the method growing returns may grow by the missing units.
//
// Units are units of the group's resource, such as GPUs. The base is Group.OnDemandBase. A NodePool is open if it may provide nodes.
// Shutdown removes all of these limits: without a running controller that removes them, pods could remain without nodes.

// schedule requests the values of the group's open schedules. It uses a scheduled limit as configured, even if more units already run,
// because Karpenter removes no nodes to meet a limit.
func (t *tick) schedule() {
	for i := range t.g.Schedules {
		w := &t.g.Schedules[i]
		open, until := w.Window.At(t.now)
		if !open {
			continue
		}
		t.because(explain.Reason{Rule: explain.RuleSchedule, Pool: -1, Name: w.Window.Name, Until: until})
		if len(w.Pools) == 0 {
			for pool := range t.views() {
				t.applySchedule(w, pool)
			}
		}
		for _, pool := range w.Pools {
			if pool < t.views() {
				t.applySchedule(w, pool)
			}
		}
	}
	t.measureRoom()
}

func (t *tick) applySchedule(w *Schedule, pool int) {
	for _, l := range w.Limits {
		if f, ok := t.s.Limits.Field(l.Resource); ok {
			t.fields.RequestNumber(pool, f, l.Value, explain.RuleSchedule)
		}
	}
	if w.Weight > 0 {
		t.fields.RequestNumber(pool, nodepool.FieldWeight, int64(w.Weight), explain.RuleSchedule)
	}
	if w.ConsolidateAfter != "" {
		t.fields.Request(pool, nodepool.FieldConsolidateAfter, nodepool.FieldConsolidateAfter.Text(w.ConsolidateAfter), explain.RuleSchedule)
	}
	if w.ConsolidationPolicy != "" {
		policy := nodepool.FieldConsolidationPolicy.Text(w.ConsolidationPolicy)
		t.fields.Request(pool, nodepool.FieldConsolidationPolicy, policy, explain.RuleSchedule)
	}
}

// spotWaitOver reports whether on-demand has a limit cap and pods have waited for spot for at least the spot wait timeout.
func (t *tick) spotWaitOver() bool { return t.capsOnDemand() && t.short >= t.spotWait() }

// needsOnDemandCap reports whether the on-demand NodePools should have limit caps. All of these conditions must be met:
//
//   - The group has a spot wait timeout or an on-demand base.
//   - The phase is not Fallback.
//   - The limits of a spot NodePool allow another node.
//   - Demand has been known for trustInterval. A new leader does not wait for trustInterval if the cap is already set and demand has been
//     known since the leader started. In this way, a change of the leader does not interrupt the cap.
func (t *tick) needsOnDemandCap() bool {
	return t.spotWait() > 0 && t.paired() && t.s.Spot.Phase != statemachine.Fallback && t.spot.room > 0 && t.known && !t.leaving &&
		(t.at-t.s.KnownSince >= trustInterval.Milliseconds() || t.s.UnknownAt == 0 && t.onDemandCapInForce())
}

// onDemandCapInForce reports whether an on-demand NodePool has a limit cap. The cap may have been set by a previous leader.
func (t *tick) onDemandCapInForce() bool {
	return slices.ContainsFunc(t.onDemand.all(), func(i int8) bool {
		o := &t.s.Pools[i].Overrides[nodepool.FieldLimit]
		return o.InForce() && (o.Rule == explain.RuleSpotWaitTimeout || o.Rule == explain.RuleBase)
	})
}

// capsOnDemand reports whether the on-demand NodePools get limit caps. Two conditions must be met: caps are needed, and the limits of all
// on-demand NodePools may be overridden. If one of them could grow without a cap, no pod would wait for spot.
func (t *tick) capsOnDemand() bool {
	mayNotLimit := func(i int8) bool { return !t.fields.MayOverride(int(i), nodepool.FieldLimit) }
	return t.needsOnDemandCap() && !slices.ContainsFunc(t.onDemand.all(), mayNotLimit)
}

// base keeps the first GPUs of the group (Group.OnDemandBase) on on-demand nodes. It gives the on-demand NodePools the higher weight, so
// that Karpenter uses them first. The limit caps of capOnDemand stop their growth at the base, so that Karpenter uses spot for all other
// pods.
func (t *tick) base() {
	if t.g.OnDemandBase <= 0 || !t.capsOnDemand() {
		return
	}
	t.preferOnDemand(explain.RuleBase)
	t.because(explain.Reason{Rule: explain.RuleBase, Pool: t.onDemand.first(), A: float64(t.baseUnits()), B: float64(t.onDemand.units)})
}

// capOnDemand limits on-demand to its current size, or to the on-demand base if that is greater. The cap ends after the spot wait
// timeout, in a fallback, and as soon as demand is unknown.
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
			if !t.fields.MayOverride(int(i), nodepool.FieldLimit) {
				t.capLimit(int(i), limit, rule) // if the field may not be overridden, the method write reports why
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

// precedes reports whether Karpenter would use NodePool i before NodePool j if their weights were not overridden. If the weights are
// equal, Karpenter uses the NodePool whose name is later in the alphabet.
func (t *tick) precedes(i, j int) bool {
	a, _ := t.fields.Original(i, nodepool.FieldWeight).Number()
	b, _ := t.fields.Original(j, nodepool.FieldWeight).Number()
	return a > b || a == b && t.g.Pools[i].Name > t.g.Pools[j].Name
}

// growing returns the on-demand NodePool that provides the missing units of the on-demand base. This is the first NodePool, in
// Karpenter's order, that may launch nodes and had no refused launch recently. If no NodePool meets both conditions, growing returns the
// first in Karpenter's order.
func (t *tick) growing() int {
	best, open := -1, false
	for _, p := range t.onDemand.all() {
		i := int(p)
		may := t.mayLaunch(i) && !t.refusedSince(i, 0)
		if best < 0 || may && !open || may == open && t.precedes(i, best) {
			best, open = i, may
		}
	}
	return best
}

// capLimit requests a limit of n units of the group's resource for a NodePool. If the NodePool already has a lower limit, the lower limit
// is kept.
func (t *tick) capLimit(pool int, n int64, rule explain.Rule) {
	current := t.fields.Effective(pool, nodepool.FieldLimit)
	limit, ok := current.Number()
	switch {
	case current != "" && !ok:
		t.find(explain.Finding{Kind: explain.FindUnreadable, Pool: int8(pool), Field: nodepool.FieldLimit, Resource: t.g.Resource, Rule: rule})
	case current == "" || n < limit:
		t.fields.RequestNumber(pool, nodepool.FieldLimit, n, rule)
	}
}

// limitToZero requests a limit of 0 for every NodePool of the group while there is no demand. As soon as demand exists or may exist, it
// requests no limit, and the owner's limit is restored.
func (t *tick) limitToZero() {
	in := statemachine.ZeroLimitInput{At: t.at, Lift: t.liftReason(), InForce: t.zeroLimitInForce()}
	state := t.s.ZeroLimit.Step(in)
	switch {
	case !t.g.ZeroLimit || t.leaving:
	case state == statemachine.ZeroLimitOn:
		for i := range t.views() {
			t.fields.RequestNumber(i, nodepool.FieldLimit, 0, explain.RuleZeroLimit)
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

// zeroLimitInForce reports whether the rule limitToZero has set the limit of any NodePool of the group to 0.
func (t *tick) zeroLimitInForce() bool {
	for i := range t.views() {
		if o := &t.s.Pools[i].Overrides[nodepool.FieldLimit]; o.InForce() && o.Rule == explain.RuleZeroLimit {
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
	case a.knownDemandWithin(a.lead() + liftLead):
		return explain.LiftedByKnownDemand
	}
	return explain.NotLifted
}

func (a *analysis) anyPending() bool {
	found := false
	a.eachPod(func(_ *Workload, p *Pod) { found = found || p.Pending && !p.UnknownPlacement })
	return found
}

// unknownPodWaits reports whether a pod has been pending for at least unknownPendingTime and it is unknown whether this pod can be
// scheduled to the group's NodePools.
func (a *analysis) unknownPodWaits() bool {
	for i := range a.o.UnmanagedPods {
		if p := &a.o.UnmanagedPods[i]; p.UnknownPlacement && p.Pending && a.now.Sub(p.Since) >= unknownPendingTime {
			return true
		}
	}
	return false
}
