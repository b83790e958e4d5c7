package lowerbound

// levels returns the optimum if every unit must be served in the slot in which it arrives. Then r_t = ceil(a_t/g) replicas are needed in
// slot t, and the cost separates into levels. Level k is charged in every slot with r_t >= k. In each gap between two such slots the
// replica is either kept (c per slot) or stopped and started again (beta), at the lower cost.
//
//	r   2 1 1 3 1 2      level 3: one start
//	k=3 . . . # . .      level 2: a gap of 2 (kept if 2c <= beta), a gap of 1, one start unless warm
//	k=2 # - - # - #
//	k=1 # # # # # #
//
// need may exceed most; it is then limited, and the result is only an estimate of a good schedule.
func levels(p *Problem, need []int64) []int32 {
	slots := len(need)
	schedule := make([]int32, slots)
	hold := float64(slots + 1) // length of a gap up to which a replica is kept
	if p.StartCost < p.ReplicaSlotCost*hold {
		hold = p.StartCost / p.ReplicaSlotCost
	}
	// for each level, the last slot in which it was used, as index+1; 0: the replica was ready at the beginning
	last := make([]int, p.MaxReplicas+1)
	for k := p.InitialReplicas + 1; k <= p.MaxReplicas; k++ {
		last[k] = -slots - 2 // no replica was ready: the gap before its first use is too long to be kept
	}
	for i, r := range need {
		top := int(min(r, int64(p.MaxReplicas)))
		for k := 1; k <= top; k++ {
			gap := i - last[k]
			warm := last[k] >= 0
			// A level that is needed before replicas can be started was kept from the beginning, however long the gap is.
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

// needPerSlot returns r_t = ceil(a_t/g).
func needPerSlot(p *Problem) []int64 {
	need := make([]int64, len(p.Arrivals))
	for i, a := range p.Arrivals {
		need[i] = (a + p.UnitsPerReplicaSlot - 1) / p.UnitsPerReplicaSlot
	}
	return need
}

// immediate reports whether every unit is due in the slot in which it arrives.
func (tl *timeline) immediate() bool {
	for t := 1; t <= tl.slots; t++ {
		if tl.late(t, tl.arrived[t]-1) == 0 && tl.arrived[t] > tl.arrived[t-1] {
			return false
		}
	}
	return true
}
