// Package weights computes the weights with which Karpenter uses every on-demand NodePool of a capacity group before every spot NodePool.
// Its input and its result are plain weights. The NodePools of one capacity type keep their order.
package weights

import (
	"cmp"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// greatest is the greatest weight that Karpenter's CRD allows.
const greatest = 100

// Pool is a NodePool with its weight.
type Pool struct {
	Index  int8  // index of the NodePool in its group
	Weight int64 // 0: the NodePool has no weight
	Fixed  bool  // whether gpuscaler may not override the weight
}

// PreferOnDemand computes weights with which every on-demand NodePool has a higher weight than every spot NodePool. It appends the
// weights that must be requested to the slice into, and appends none if no change is necessary. It sorts and changes the other slices.
// The slices spot and onDemand must not be empty.
//
// It raises the weights of on-demand. If only the weights of spot may be overridden, it lowers the weights of spot instead. If Karpenter
// uses a NodePool of reserved capacity before every on-demand NodePool, Karpenter must continue to do so, because the reservation is paid
// for in any case. Therefore the weight of this NodePool is raised too. If its owner does not allow that, on-demand stays below it and
// the weights of spot are lowered.
func PreferOnDemand(into, spot, onDemand, reserved []Pool) []Pool {
	sort(spot)
	sort(onDemand)
	highest, lowest := spot[len(spot)-1].Weight, onDemand[0].Weight
	if lowest > highest {
		return into
	}
	ahead, ceiling := above(reserved, onDemand[len(onDemand)-1].Weight), int64(greatest)
	if len(ahead) > 0 && fixed(ahead) {
		if below := ahead[0].Weight - 1; below > int64(len(onDemand)) && !fixed(spot) {
			ceiling = below
		}
		ahead = nil
	}
	top := raised(onDemand, highest+1)
	switch {
	case fixed(onDemand) && !fixed(spot) && lowest > 1:
		lower(spot, lowest-1)
		return request(into, spot)
	case top <= ceiling && (len(ahead) == 0 || top < ahead[0].Weight):
		raise(onDemand, highest+1)
	case len(ahead) > 0 && raised(ahead, top+1) <= greatest:
		raise(onDemand, highest+1)
		raise(ahead, top+1)
		into = request(into, ahead)
	default:
		if len(ahead) > 0 {
			spread(ahead, ceiling)
			into = request(into, ahead)
			ceiling = ahead[0].Weight - 1
		}
		spread(onDemand, ceiling)
		lower(spot, onDemand[0].Weight-1)
		into = request(into, spot)
	}
	return request(into, onDemand)
}

// sort sorts NodePools by weight, the lowest first.
func sort(all []Pool) {
	slices.SortFunc(all, func(a, b Pool) int { return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Index, b.Index)) })
}

// above returns the NodePools whose weight exceeds highest, the lowest weight first.
func above(all []Pool, highest int64) []Pool {
	sort(all)
	for len(all) > 0 && all[0].Weight <= highest {
		all = all[1:]
	}
	return all
}

func fixed(all []Pool) bool { return slices.ContainsFunc(all, func(p Pool) bool { return p.Fixed }) }

// request appends the NodePools that have a weight above 0 to the slice into.
func request(into, all []Pool) []Pool {
	for _, p := range all {
		if p.Weight > 0 {
			into = append(into, p)
		}
	}
	return into
}

// spread raises weights, which are sorted in ascending order: the highest weight to at least `to`, the next lower weight to at least to-1,
// and so on. It never lowers a weight.
func spread(all []Pool, to int64) {
	for i := range all {
		all[i].Weight = max(all[i].Weight, to-int64(len(all)-1-i))
	}
}

// raise raises weights so that each weight is at least `from`. NodePools with different weights keep different weights, in the same
// order.
func raise(all []Pool, from int64) {
	last := int64(0) // weight of the previous NodePool, before the change
	for i := range all {
		w := all[i].Weight
		switch {
		case i == 0:
			all[i].Weight = max(w, from)
		case w == last:
			all[i].Weight = all[i-1].Weight
		default:
			all[i].Weight = max(w, all[i-1].Weight+1)
		}
		last = w
	}
}

// raised returns the greatest weight that raise would set.
func raised(all []Pool, from int64) int64 {
	var list [nodepool.MaxPools]Pool
	changed := list[:copy(list[:], all)]
	raise(changed, from)
	return changed[len(changed)-1].Weight
}

// lower lowers weights so that each weight is at most `to`. A changed weight is at least 1. NodePools with different weights keep
// different weights, in the same order, unless they reach 1.
func lower(all []Pool, to int64) {
	last := int64(0) // weight of the next higher NodePool, before the change
	for i := len(all) - 1; i >= 0; i-- {
		w := all[i].Weight
		most := to
		if i < len(all)-1 {
			if most = all[i+1].Weight; w != last {
				most--
			}
		}
		if w > most {
			all[i].Weight = max(most, 1)
		}
		last = w
	}
}
