package capacity

import "time"

// impatient tells whether pods have waited below a limit of ours for as long as the group lets them.
func (t *tick) impatient() bool { return t.lidded() && t.short >= t.waits() }

// waits is the group's patience, 0 where it has none.
func (t *tick) waits() time.Duration {
	if t.g.SpotWaitTimeout == 0 && t.g.OnDemandBase > 0 {
		return baseWaits
	}
	return t.g.SpotWaitTimeout
}

// baseUnits is the group's base in whole nodes: no node of 8 fits below a limit of 1. aboveBase is what runs on demand beyond it.
func (t *tick) baseUnits() int64 {
	size := t.facts[t.onDemand].node
	if size == 0 {
		size = t.nodeSize()
	}
	return (units(t.g.OnDemandBase) + size - 1) / size * size
}

func (t *tick) aboveBase() int64 { return max(t.facts[t.onDemand].runs-t.baseUnits(), 0) }

// base keeps the first units on demand: on-demand comes first by weight, and its limit ends at the base.
func (t *tick) base() {
	if t.g.OnDemandBase <= 0 || !t.lidded() {
		return
	}
	t.onDemandFirst(RuleBase)
	t.because(Reason{Rule: RuleBase, Pool: int8(t.onDemand), A: float64(t.baseUnits()), B: float64(t.facts[t.onDemand].runs)})
}

// wantsLid reports whether on-demand should have a limit cap: by the spot wait timeout or the base, outside a fallback, while its owner
// lets spot nodes come, and only while demand is known and has been for a while. lidded reports whether it can.
func (t *tick) wantsLid() bool {
	return t.waits() > 0 && t.paired() && t.s.spot.phase != Fallback && !t.full(t.spot) && t.known && !t.leaving && t.at-t.s.knownSince >= trusts.Milliseconds()
}

func (t *tick) lidded() bool { return t.wantsLid() && t.may(t.onDemand, FieldLimit) }

// trusts is how long demand must have been known before a limit stands on it again: readings that come and go would write it each time.
const trusts = 2 * time.Minute

// trusted tells whether a limit on spot may stand on demand: it is known, and no gap was there of late. A leader that has seen no gap
// goes on with what the one before it decided.
func (t *tick) trusted() bool {
	return t.known && (t.s.doubtedAt == 0 || t.at-t.s.doubtedAt >= trusts.Milliseconds())
}

// patience keeps on-demand at what runs there, and at the base. It ends by patience, by a fallback, and at once when demand cannot
// be known.
func (t *tick) patience() {
	if !t.wantsLid() {
		return
	}
	limit := max(t.facts[t.onDemand].runs, t.baseUnits())
	rule := RuleSpotWaitTimeout
	if t.g.SpotWaitTimeout == 0 {
		rule = RuleBase
	}
	t.lid(t.onDemand, limit, rule)
	if !t.lidded() {
		return // write says why
	}
	r := Reason{Rule: RuleSpotWaitTimeout, Pool: int8(t.onDemand), A: float64(limit)}
	if t.s.shortSince != 0 {
		r.Until = instant(t.s.shortSince + t.waits().Milliseconds())
	}
	t.because(r)
}

// lid wants a limit that is no greater than n; one that stands below stays.
func (t *tick) lid(pool int, n int64, rule Rule) {
	stands := t.effective(pool, FieldLimit)
	limit, ok := stands.number()
	switch {
	case stands != "" && !ok:
		t.find(Finding{Kind: FindUnreadable, Pool: int8(pool), Field: FieldLimit, Resource: t.g.Resource, Rule: rule})
	case stands == "" || n < limit:
		t.wishNumber(pool, FieldLimit, n, rule)
	}
}

// maxWeight is the CRD's.
const maxWeight = 100

// onDemandFirst wants a weight for on-demand above spot's: by raising on-demand where it may be raised, by lowering spot otherwise.
func (t *tick) onDemandFirst(rule Rule) {
	spot, _ := t.effective(t.spot, FieldWeight).number()
	demand, _ := t.effective(t.onDemand, FieldWeight).number()
	if demand > spot {
		return
	}
	switch {
	case !t.may(t.onDemand, FieldWeight) && t.may(t.spot, FieldWeight) && demand > 1:
		t.wishNumber(t.spot, FieldWeight, demand-1, rule)
	case spot < maxWeight:
		t.wishNumber(t.onDemand, FieldWeight, spot+1, rule)
	default:
		t.wishNumber(t.onDemand, FieldWeight, maxWeight, rule)
		t.wishNumber(t.spot, FieldWeight, maxWeight-1, rule)
	}
}
