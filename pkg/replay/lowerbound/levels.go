package lowerbound

// levels returns the cheapest schedule if all work must be served in the slot in which it arrives. Then need[t] replicas (r_t) are
// necessary in slot t. The cost is the sum of the costs of the levels. Level k is the k-th replica: it is used in every slot with r_t >= k.
// In a gap between two such slots, the replica is either kept, at the cost c of a slot for each slot of the gap, or stopped and started
// again, at the cost beta of a start. levels chooses the cheaper one.
//
//	r   2 1 1 3 1 2      level 3: one start
//	k=3 . . . # . .      level 2: a gap of 2 (kept if 2c <= beta), a gap of 1, one start unless warm
//	k=2 # - - # - #
//	k=1 # # # # # #
//
// In the picture, # is a slot in which the replica is used, - is a slot of a gap, and . is a slot before the first or after the last use.
// If need[t] is greater than the maximum number of replicas, levels uses the maximum. The schedule is then good but not always the
// cheapest.
func levels(p *Problem, need []int64) []int32 {
	slots := len(need)
	schedule := make([]int32, slots)
	hold := float64(slots + 1) // the longest gap, in slots, for which keeping a replica is not more expensive than starting it again
	if p.StartCost < p.ReplicaSlotCost*hold {
		hold = p.StartCost / p.ReplicaSlotCost
	}
	// the last slot in which each level was used, counted from 1; 0: ready at the beginning
	last := make([]int, p.MaxReplicas+1)
	for k := p.InitialReplicas + 1; k <= p.MaxReplicas; k++ {
		last[k] = -slots - 2 // not ready at the beginning, so the gap before its first use is always too long to be kept
	}
	for i, r := range need {
		top := int(min(r, int64(p.MaxReplicas)))
		for k := 1; k <= top; k++ {
			gap := i - last[k]
			warm := last[k] >= 0
			// No replica can be started in the first BootSlots slots. A replica that is used there is kept, however long the gap is.
			if warm && gap > 0 && (float64(gap) <= hold || i < p.BootSlots) {
				for s := last[k]; s < i; s++ {
					schedule[s]++
				}
			}
			if warm || i >= p.BootSlots {
				last[k] = i + 1
				schedule[i]++
			}
		}
	}
	return schedule
}

// needPerSlot returns, for each slot, the number of replicas that serve all its arrivals within the slot: r_t = ceil(a_t/g), where a_t is
// the arrived work in units and g is the number of units that a replica serves in a slot.
func needPerSlot(p *Problem) []int64 {
	need := make([]int64, len(p.Arrivals))
	for i, a := range p.Arrivals {
		need[i] = (a + p.UnitsPerReplicaSlot - 1) / p.UnitsPerReplicaSlot
	}
	return need
}

// immediate reports whether every unit of work must be served in the slot in which it arrives.
func (tl *timeline) immediate() bool {
	for t := 1; t <= tl.slots; t++ {
		if tl.late(t, tl.arrived[t]-1) == 0 && tl.arrived[t] > tl.arrived[t-1] {
			return false
		}
	}
	return true
}
