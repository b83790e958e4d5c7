package capacity

// check adds findings for everything that prevents Karpenter from removing empty nodes, with the price of these nodes, and for everything
// that prevents a return to spot.
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

// checkEmpty adds one finding for each cause that keeps empty nodes of a NodePool, with the number of these nodes and their price.
func (t *tick) checkEmpty(pool int, v *PoolView) {
	never := t.original(pool, FieldConsolidateAfter) == `"Never"`
	zero := blocksDisruption(t.original(pool, FieldBudgets), reasonEmpty)
	var all [numFindings]Finding
	for j := range v.Nodes {
		n := &v.Nodes[j]
		if n.Deleting || n.Stage != Usable || n.Used > 0 || n.GPUs == 0 {
			continue
		}
		var kind FindingKind
		switch {
		case n.DoNotDisruptPods > 0:
			kind = FindDoNotDisrupt
		case n.BlockingPods > 0:
			kind = FindBlockingPods
		case never:
			kind = FindNever
		case zero:
			kind = FindZeroBudget
		case n.Buffered: // the last case, because Karpenter reports it for minutes after the buffer was removed
			kind = FindBuffered
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

// checkReturn adds findings for NodePool weights and pods that prevent a return to spot.
func (t *tick) checkReturn() {
	if !t.paired() {
		return
	}
	t.reportUnreliable()
	if !t.spotFirst() {
		spot, onDemand := t.misplacedSpot()
		f := Finding{Kind: FindWeights, Pool: int8(onDemand), Field: FieldWeight}
		if t.spot.count > 1 {
			f.Name = t.g.Pools[spot].Name
		}
		t.find(f)
	}
	if t.aboveBase() == 0 {
		return
	}
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		t.findUnmovable(w, w.Key, w.Pods)
	}
	t.findUnmovable(nil, "", t.o.UnmanagedPods)
}

// findUnmovable adds one finding for each reason why pods on demand cannot be moved to spot by a surge. w is nil for unmanaged pods.
func (t *tick) findUnmovable(w *Workload, name string, pods []Pod) {
	var count [MaxPools][numMoveBlockers]int
	for j := range pods {
		p := &pods[j]
		if n := t.node(p); !t.onDemand.has(p.Pool) || n == nil || n.Deleting || n.Type == Reserved {
			continue
		}
		if blocker, blocked := moveBlocker(w, p); blocked {
			count[p.Pool][blocker]++
		}
	}
	for _, pool := range t.onDemand.all() {
		for blocker, n := range count[pool] {
			if n > 0 {
				t.find(Finding{Kind: FindUnmovable, Pool: pool, Name: name, Count: n, Blocker: MoveBlocker(blocker)})
			}
		}
	}
}

// moveBlocker returns why a pod stays on demand. blocked is false for a pod that requires on-demand nodes, and for a pod that a surge can
// move to spot.
func moveBlocker(w *Workload, p *Pod) (blocker MoveBlocker, blocked bool) {
	switch {
	case p.Pinned && !p.UnknownLabels:
		return 0, false
	case w == nil:
		return BlockedByUnmanagedPod, true
	case p.Claimed || p.Claims:
		return BlockedByClaims, true
	case p.Owner != OwnerReplicaSet && p.DoNotDisrupt.Value != "" && !p.DoNotDisrupt.Ours:
		return BlockedByDoNotDisrupt, true
	case p.UnknownLabels:
		return BlockedByLabels, true
	case p.Owner == OwnerOther:
		return BlockedByNoOwner, true
	}
	return BlockedByOwner, p.Owner != OwnerReplicaSet
}
