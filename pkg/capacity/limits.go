package capacity

// This file contains the rules that set limit caps. The table lists all rules that request the limit of a NodePool for the group's
// resource. If several rules request it, the last one in the table applies, but a limit cap never exceeds the limit that applies without
// it.
//
//	rule                 NodePool   limit                                    while
//	schedule             as listed  the number of the schedule               its window is open
//	spot fallback, hard  spot       units that run there                     phase Fallback, demand is known, on-demand is open
//	spot probe           spot       units that run there and one more node   phase Probing, demand is known, on-demand is open
//	spot wait timeout    on-demand  units that run there, at least the base  every phase but Fallback, demand is known, spot is open
//	zero limit           all        0                                        no demand, see zeroLimit
//
// Units are those of the group's resource, such as GPUs. A NodePool is open if it may provide nodes. Shutdown removes all of these limits:
// without a controller to remove a limit, pods could not get nodes.

// spotWaitOver reports whether the on-demand NodePool has a limit cap and pods have waited for at least the spot wait timeout.
func (t *tick) spotWaitOver() bool { return t.capsOnDemand() && t.short >= t.spotWait() }

// needsOnDemandCap reports whether the on-demand NodePool should have a limit cap. This requires that the group has a spot wait timeout or
// an on-demand base, that the phase is not Fallback, that the spot NodePool's limits allow another node, and that demand has been known for
// trustInterval. A new leader that finds the cap in force and knows demand from its start does not wait, so that there is no time without
// the cap.
func (t *tick) needsOnDemandCap() bool {
	return t.spotWait() > 0 && t.paired() && t.s.Spot.Phase != Fallback && !t.full(t.spot) && t.known && !t.leaving &&
		(t.at-t.s.KnownSince >= trustInterval.Milliseconds() || t.s.UnknownAt == 0 && t.onDemandCapInForce())
}

// onDemandCapInForce reports whether the on-demand NodePool has a limit cap, also of a previous leader.
func (t *tick) onDemandCapInForce() bool {
	o := &t.s.Pools[t.onDemand].Overrides[FieldLimit]
	return o.On && !o.Releasing && (o.Rule == RuleSpotWaitTimeout || o.Rule == RuleBase)
}

// capsOnDemand reports whether on-demand should have a limit cap and its limit may be overridden.
func (t *tick) capsOnDemand() bool {
	return t.needsOnDemandCap() && t.mayOverride(t.onDemand, FieldLimit)
}

// base runs the first GPUs of the group on demand. It gives the on-demand NodePool the higher weight, so that Karpenter uses it first. The
// limit cap of capOnDemand stops its growth at the base, so that Karpenter uses spot for all other pods.
func (t *tick) base() {
	if t.g.OnDemandBase <= 0 || !t.capsOnDemand() {
		return
	}
	t.preferOnDemand(RuleBase)
	t.because(Reason{Rule: RuleBase, Pool: int8(t.onDemand), A: float64(t.baseUnits()), B: float64(t.pools[t.onDemand].units)})
}

// capOnDemand limits on-demand to its current size, or to the base if that is greater. The cap ends with the spot wait timeout, with a
// fallback, and as soon as demand is unknown.
func (t *tick) capOnDemand() {
	if !t.needsOnDemandCap() {
		return
	}
	limit := max(t.pools[t.onDemand].units, t.baseUnits())
	rule := RuleSpotWaitTimeout
	if t.g.SpotWaitTimeout == 0 {
		rule = RuleBase
	}
	t.capLimit(t.onDemand, limit, rule)
	if !t.capsOnDemand() {
		return // the method write reports why the field is not overridden
	}
	r := Reason{Rule: RuleSpotWaitTimeout, Pool: int8(t.onDemand), A: float64(limit)}
	if t.s.ShortSince != 0 {
		r.Until = instant(t.s.ShortSince + t.spotWait().Milliseconds())
	}
	t.because(r)
}

// capLimit requests a limit of n units of the group's resource for a NodePool. If the NodePool already has a lower limit, the lower limit
// stays.
func (t *tick) capLimit(pool int, n int64, rule Rule) {
	current := t.effective(pool, FieldLimit)
	limit, ok := current.number()
	switch {
	case current != "" && !ok:
		t.find(Finding{Kind: FindUnreadable, Pool: int8(pool), Field: FieldLimit, Resource: t.g.Resource, Rule: rule})
	case current == "" || n < limit:
		t.requestNumber(pool, FieldLimit, n, rule)
	}
}

// maxWeight is the greatest weight that the CRD allows.
const maxWeight = 100

// preferOnDemand requests weights so that on-demand has a higher weight than spot. It raises the weight of on-demand. If only the weight of
// spot may be overridden, it lowers that one instead.
func (t *tick) preferOnDemand(rule Rule) {
	spot, _ := t.effective(t.spot, FieldWeight).number()
	onDemand, _ := t.effective(t.onDemand, FieldWeight).number()
	if onDemand > spot {
		return
	}
	switch {
	case !t.mayOverride(t.onDemand, FieldWeight) && t.mayOverride(t.spot, FieldWeight) && onDemand > 1:
		t.requestNumber(t.spot, FieldWeight, onDemand-1, rule)
	case spot < maxWeight:
		t.requestNumber(t.onDemand, FieldWeight, spot+1, rule)
	default:
		t.requestNumber(t.onDemand, FieldWeight, maxWeight, rule)
		t.requestNumber(t.spot, FieldWeight, maxWeight-1, rule)
	}
}

// LimitsPending reports whether a limit of a NodePool is still overridden, or was restored and no observation shows it yet.
func (s *State) LimitsPending() bool {
	for i := range s.Pools {
		for f := FieldLimit; f < numFields; f++ {
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
		for f := FieldLimit; f < numFields; f++ {
			t.requests[i][f] = request{}
		}
	}
}
