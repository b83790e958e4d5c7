package capacity

import (
	"cmp"
	"slices"
)

// maxWeight is the greatest weight that the CRD allows.
const maxWeight = 100

// poolWeight is a NodePool with its weight.
type poolWeight struct {
	pool   int8
	weight int64
}

// weights returns the NodePools of a side with their weights, the lowest weight first.
func (t *tick) weights(s *side, into *[MaxPools]poolWeight) []poolWeight {
	for n, i := range s.all() {
		weight, _ := t.effective(int(i), FieldWeight).number()
		into[n] = poolWeight{i, weight}
	}
	all := into[:s.count]
	slices.SortFunc(all, func(a, b poolWeight) int { return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.pool, b.pool)) })
	return all
}

// preferOnDemand requests weights so that every on-demand NodePool has a higher weight than every spot NodePool. It raises the weights of
// on-demand. If only the weights of spot may be overridden, it lowers these instead. The order of the NodePools of one side does not
// change.
func (t *tick) preferOnDemand(rule Rule) {
	var spots, onDemands [MaxPools]poolWeight
	spot, onDemand := t.weights(&t.spot, &spots), t.weights(&t.onDemand, &onDemands)
	highest, lowest := spot[len(spot)-1].weight, onDemand[0].weight
	if lowest > highest {
		return
	}
	switch {
	case !t.mayOverrideAll(&t.onDemand, FieldWeight) && t.mayOverrideAll(&t.spot, FieldWeight) && lowest > 1:
		lower(spot, lowest-1)
		t.requestWeights(spot, rule)
	case raised(onDemand, highest+1) <= maxWeight:
		raise(onDemand, highest+1)
		t.requestWeights(onDemand, rule)
	default:
		for i := range onDemand {
			onDemand[i].weight = max(onDemand[i].weight, maxWeight-int64(len(onDemand)-1-i))
		}
		lower(spot, onDemand[0].weight-1)
		t.requestWeights(onDemand, rule)
		t.requestWeights(spot, rule)
	}
}

func (t *tick) requestWeights(all []poolWeight, rule Rule) {
	for _, w := range all {
		if w.weight > 0 { // an absent weight is 0
			t.requestNumber(int(w.pool), FieldWeight, w.weight, rule)
		}
	}
}

// raise changes weights, the lowest first, so that each is at least from. NodePools with different weights keep different weights, in the
// same order.
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
	var list [MaxPools]poolWeight
	changed := list[:copy(list[:], all)]
	raise(changed, from)
	return changed[len(changed)-1].weight
}

// lower changes weights, the lowest first, so that each is at most to, and at least 1 where it changes. NodePools with different weights
// keep different weights, in the same order, unless they reach 1.
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
