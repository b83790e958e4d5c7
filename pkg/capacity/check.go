package capacity

// check reports what keeps empty nodes, with their price: scale to zero is Karpenter's own, and these are the ways to prevent it.
func (t *tick) check() {
	for i := range t.views() {
		v := &t.o.Pools[i]
		if !v.Exists {
			t.find(Finding{Kind: FindMissing, Pool: int8(i)})
			continue
		}
		t.checkEmpty(i, v)
	}
	t.checkReturn()
	if t.g.StartupShield && !t.o.Shields {
		t.find(Finding{Kind: FindUnsupported, Pool: -1, Rule: RuleShield})
	}
}

// checkEmpty adds up the pool's nodes without any of the resource in use by what keeps them.
func (t *tick) checkEmpty(pool int, v *PoolView) {
	never := t.original(pool, FieldConsolidateAfter) == `"Never"`
	zero := blocks(t.original(pool, FieldBudgets), reasonEmpty)
	var all [numFindings]Finding
	for j := range v.Nodes {
		n := &v.Nodes[j]
		if n.Deleting || n.Stage != Usable || n.Used > 0 || n.GPUs == 0 {
			continue
		}
		kind := FindMissing
		switch {
		case n.Buffered:
			kind = FindBuffered
		case n.Undisrupted > 0:
			kind = FindUndisrupted
		case n.Squatters > 0:
			kind = FindSquatters
		case never:
			kind = FindNever
		case zero:
			kind = FindZeroBudget
		default:
			continue
		}
		all[kind].Count++
		all[kind].Hourly += n.Hourly
	}
	for kind := range all {
		if f := all[kind]; f.Count > 0 {
			f.Kind, f.Pool = FindingKind(kind), int8(pool)
			t.find(f)
		}
	}
}

// checkReturn reports what would never come back to spot.
func (t *tick) checkReturn() {
	if !t.paired() {
		return
	}
	if !t.spotFirst() {
		t.find(Finding{Kind: FindWeights, Pool: int8(t.onDemand), Field: FieldWeight})
	}
	if t.aboveBase() == 0 {
		return
	}
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		f := Finding{Kind: FindUnmovable, Pool: int8(t.onDemand), Name: w.Key}
		for j := range w.Pods {
			if p := &w.Pods[j]; p.Pool == t.onDemand && t.node(p) != nil && !p.Pinned && p.Owner != OwnerReplicaSet {
				f.Count++
			}
		}
		if f.Count > 0 {
			t.find(f)
		}
	}
}
