package capacity

// The limit of a NodePool has at most one override. A later row of this table wins over an earlier one; a cap never exceeds the limit
// that is in force without it.
//
//	rule                 NodePool   limit                                    while
//	schedule             as listed  the number of the schedule               its window is open
//	spot fallback, hard  spot       units that run there                     phase Fallback, demand is known, on-demand is open
//	spot probe           spot       units that run there and one more node   phase Probing, demand is known, on-demand is open
//	spot wait timeout    on-demand  units that run there, at least the base  every phase but Fallback, demand is known, spot is open
//	zero limit           all        0                                        no demand, see zeroLimit
//
// Shutdown removes all of them: a limit that nothing removes stops pods.

// spotWaitOver reports whether pods have waited for the spot wait timeout below a limit cap.
func (t *tick) spotWaitOver() bool { return t.capsOnDemand() && t.short >= t.spotWait() }

// needsOnDemandCap reports whether on-demand should have a limit cap: the group has a spot wait timeout or a base, spot is used and may
// grow, and demand has been known for a while.
func (t *tick) needsOnDemandCap() bool {
	return t.spotWait() > 0 && t.paired() && t.s.Spot.Phase != Fallback && !t.full(t.spot) && t.known && !t.leaving &&
		t.at-t.s.KnownSince >= trustInterval.Milliseconds()
}

// capsOnDemand reports whether on-demand should have a limit cap and its limit may be overridden.
func (t *tick) capsOnDemand() bool {
	return t.needsOnDemandCap() && t.mayOverride(t.onDemand, FieldLimit)
}

// base runs the first units of the group on demand: on-demand is first by weight, and its limit cap ends it at the base.
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
		return // write reports why the field is not overridden
	}
	r := Reason{Rule: RuleSpotWaitTimeout, Pool: int8(t.onDemand), A: float64(limit)}
	if t.s.ShortSince != 0 {
		r.Until = instant(t.s.ShortSince + t.spotWait().Milliseconds())
	}
	t.because(r)
}

// capLimit requests a limit of at most n units. A lower limit stays.
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

// preferOnDemand requests a weight of on-demand above that of spot: a higher one for on-demand where that may be overridden, and a lower
// one for spot otherwise.
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

// dropLimits removes every request for a limit. Shutdown uses it: while no controller runs, nothing would remove the limit.
func (t *tick) dropLimits() {
	for i := range t.requests {
		for f := FieldLimit; f < numFields; f++ {
			t.requests[i][f] = request{}
		}
	}
}
