package capacity

import (
	"cmp"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// maxWeight is the greatest weight that the CRD allows.
const maxWeight = 100

// poolWeight is a NodePool with its weight.
type poolWeight struct {
	pool   int8
	weight int64
}

// weights returns the NodePools of a side (all spot or all on-demand NodePools) with their weights, the lowest weight first.
func (t *tick) weights(s *side, into *[nodepool.MaxPools]poolWeight) []poolWeight {
	for n, i := range s.all() {
		weight, _ := t.fields.Effective(int(i), nodepool.FieldWeight).Number()
		into[n] = poolWeight{i, weight}
	}
	all := into[:s.count]
	slices.SortFunc(all, func(a, b poolWeight) int { return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.pool, b.pool)) })
	return all
}

// reservedAhead returns the NodePools of reserved capacity that Karpenter uses before each of the given on-demand NodePools, with their
// weights, the lowest weight first. It returns none if the reserved NodePools are the side that replaces spot.
func (t *tick) reservedAhead(onDemand []poolWeight, into *[nodepool.MaxPools]poolWeight) []poolWeight {
	reserved := t.sideOf(Reserved)
	if t.alternative() == Reserved || reserved.count == 0 {
		return nil
	}
	all := t.weights(&reserved, into)
	highest := onDemand[len(onDemand)-1].weight
	for len(all) > 0 && all[0].weight <= highest {
		all = all[1:]
	}
	return all
}

// fixed reports whether the weight of any of the NodePools may not be overridden. In an advisory group it returns false, so that the plan
// shows what gpuscaler would write in mode auto.
func (t *tick) fixed(all []poolWeight) bool {
	fixed := func(w poolWeight) bool { return !t.fields.MayOverride(int(w.pool), nodepool.FieldWeight) }
	return !t.g.Advisory && slices.ContainsFunc(all, fixed)
}

// preferOnDemand requests weights so that every on-demand NodePool has a higher weight than every spot NodePool. It raises the weights of
// on-demand. If only the weights of spot may be overridden, it lowers these instead. The order of the NodePools of one side does not
// change. NodePools of reserved capacity that Karpenter uses before on-demand stay before it, because the reservation is paid for in any
// case: their weights are also raised. If these may not be overridden, on-demand stays below them and spot is lowered.
func (t *tick) preferOnDemand(rule explain.Rule) {
	var spots, onDemands, reserves [nodepool.MaxPools]poolWeight
	spot, onDemand := t.weights(&t.spot, &spots), t.weights(&t.onDemand, &onDemands)
	highest, lowest := spot[len(spot)-1].weight, onDemand[0].weight
	if lowest > highest {
		return
	}
	ahead, ceiling := t.reservedAhead(onDemand, &reserves), int64(maxWeight)
	if len(ahead) > 0 && t.fixed(ahead) {
		if below := ahead[0].weight - 1; below > int64(len(onDemand)) && !t.fixed(spot) {
			ceiling = below
		}
		ahead = nil
	}
	top := raised(onDemand, highest+1)
	switch {
	case !t.mayOverrideAll(&t.onDemand, nodepool.FieldWeight) && t.mayOverrideAll(&t.spot, nodepool.FieldWeight) && lowest > 1:
		lower(spot, lowest-1)
		t.requestWeights(spot, rule)
		return
	case top <= ceiling && (len(ahead) == 0 || top < ahead[0].weight):
		raise(onDemand, highest+1)
	case len(ahead) > 0 && raised(ahead, top+1) <= maxWeight:
		raise(onDemand, highest+1)
		raise(ahead, top+1)
		t.requestWeights(ahead, rule)
	default:
		if len(ahead) > 0 {
			spread(ahead, ceiling)
			t.requestWeights(ahead, rule)
			ceiling = ahead[0].weight - 1
		}
		spread(onDemand, ceiling)
		lower(spot, onDemand[0].weight-1)
		t.requestWeights(spot, rule)
	}
	t.requestWeights(onDemand, rule)
}

// spread raises weights, which are sorted in ascending order: the highest to at least the value to, the next lower one to at least to-1,
// and so on. Weights that are higher already do not change.
func spread(all []poolWeight, to int64) {
	for i := range all {
		all[i].weight = max(all[i].weight, to-int64(len(all)-1-i))
	}
}

func (t *tick) requestWeights(all []poolWeight, rule explain.Rule) {
	for _, w := range all {
		if w.weight > 0 { // an absent weight is 0
			t.fields.RequestNumber(int(w.pool), nodepool.FieldWeight, w.weight, rule)
		}
	}
}

// raise changes weights, the lowest first, so that each is at least the value from. NodePools with different weights keep different
// weights, in the same order.
func raise(all []poolWeight, from int64) {
	last := int64(0) // the weight of the previous NodePool before the change
	for i := range all {
		w := all[i].weight
		switch {
		case i == 0:
			all[i].weight = max(w, from)
		case w == last:
			all[i].weight = all[i-1].weight
		default:
			all[i].weight = max(w, all[i-1].weight+1)
		}
		last = w
	}
}

// raised returns the greatest weight that raise would set.
func raised(all []poolWeight, from int64) int64 {
	var list [nodepool.MaxPools]poolWeight
	changed := list[:copy(list[:], all)]
	raise(changed, from)
	return changed[len(changed)-1].weight
}

// lower changes weights, the lowest first, so that each is at most the value to. A changed weight is at least 1. NodePools with different
// weights keep different weights, in the same order, unless they reach 1.
func lower(all []poolWeight, to int64) {
	last := int64(0) // the weight of the next higher NodePool before the change
	for i := len(all) - 1; i >= 0; i-- {
		w := all[i].weight
		most := to
		if i < len(all)-1 {
			if most = all[i+1].weight; w != last {
				most--
			}
		}
		if w > most {
			all[i].weight = max(most, 1)
		}
		last = w
	}
}
