package capacity

import (
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// check adds a finding for everything that prevents Karpenter from removing empty nodes, with the price of these nodes, and for
// everything that prevents a return to spot.
func (t *tick) check() {
	if t.g.SelectsNodes() {
		t.checkFleet()
		return
	}
	for i := range t.views() {
		v := &t.o.Pools[i]
		if !v.Exists {
			t.find(explain.Finding{Kind: explain.FindMissing, Pool: int8(i)})
			continue
		}
		t.checkEmpty(i, v)
		t.checkStatic(i, v)
	}
	t.checkReturn()
	if t.g.StartupShield && !t.o.Shields {
		t.find(explain.Finding{Kind: explain.FindUnsupported, Pool: -1, Rule: explain.RuleShield})
	}
}

// checkEmpty adds one finding for each cause that keeps empty nodes of a NodePool, with the number of these nodes and their price.
func (t *tick) checkEmpty(pool int, v *PoolView) {
	never := t.fields.Original(pool, nodepool.FieldConsolidateAfter) == `"Never"`
	zero := statemachine.BlocksDisruption(t.fields.Original(pool, nodepool.FieldBudgets), statemachine.ReasonEmpty)
	var all [explain.NumFindings]explain.Finding
	for j := range v.Nodes {
		n := &v.Nodes[j]
		if n.Deleting || n.Stage != Usable || n.Used > 0 || n.GPUs == 0 {
			continue
		}
		var kind explain.FindingKind
		switch {
		case n.DoNotDisruptPods > 0:
			kind = explain.FindDoNotDisrupt
		case n.BlockingPods > 0:
			kind = explain.FindBlockingPods
		case never:
			kind = explain.FindNever
		case zero:
			kind = explain.FindZeroBudget
		case n.Buffered: // the last cause, because it may be outdated: Karpenter reports a buffer for minutes after its removal
			kind = explain.FindBuffered
		default:
			continue
		}
		all[kind].Count++
		all[kind].Hourly += n.Hourly
	}
	for kind := range all {
		if f := all[kind]; f.Count > 0 {
			f.Kind, f.Pool = explain.FindingKind(kind), int8(pool)
			t.find(f)
		}
	}
}

// checkStatic adds a finding if a static NodePool (one with spec.replicas) should have another number of replicas. The number should be
// higher if pods wait and no other NodePool may launch a node for them. It should be lower if nodes have no pods of the group and no
// known demand starts soon. gpuscaler does not write spec.replicas, because such nodes are often reserved for a time. Nodes of reserved
// capacity are paid for in any case, so a lower number is not advised for them.
func (t *tick) checkStatic(pool int, v *PoolView) {
	if v.Replicas == nil || !t.known {
		return
	}
	f := explain.Finding{Kind: explain.FindStaticShort, Pool: int8(pool)}
	if t.demand.Pending > 0 {
		size := t.smallestNode(pool)
		missing := (t.demand.Pending - t.pools[pool].room + size - 1) / size
		if missing > 0 && !t.mayLaunchBeside(pool) {
			f.Count = int(*v.Replicas + missing)
			t.find(f)
		}
		return
	}
	if ahead, _ := t.knownDemandUntil(); ahead != 0 || t.smallestWait > 0 || t.typeOf(pool) == Reserved {
		return
	}
	f.Kind, f.Count = explain.FindStaticIdle, int(*v.Replicas)
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Stage == Usable && !n.Deleting && n.Used == 0 && n.GPUs > 0 && n.BlockingPods == 0 && n.DoNotDisruptPods == 0 {
			f.Count--
			f.Hourly += n.Hourly
		}
	}
	if f.Count >= 0 && f.Count < int(*v.Replicas) {
		t.find(f)
	}
}

// mayLaunchBeside reports whether Karpenter may launch a node in another NodePool of the group than the given one.
func (t *tick) mayLaunchBeside(pool int) bool {
	for i := range t.views() {
		if i != pool && t.o.Pools[i].Exists && t.mayLaunch(i) {
			return true
		}
	}
	return false
}

// checkReturn adds findings about NodePool weights and pods that prevent a return to spot.
func (t *tick) checkReturn() {
	if !t.paired() {
		return
	}
	t.reportUnreliable()
	if !t.spotFirst() {
		spot, onDemand := t.misplacedSpot()
		f := explain.Finding{Kind: explain.FindWeights, Pool: int8(onDemand), Field: nodepool.FieldWeight}
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

// reportUnreliable adds a finding for each NodePool from which gpuscaler does not expect new nodes (see unreliable). It does so only for a
// capacity type of which the group has several NodePools.
func (t *tick) reportUnreliable() {
	for _, s := range []*side{&t.spot, &t.onDemand} {
		if s.count < 2 {
			continue
		}
		for _, i := range s.all() {
			if problem := t.unreliable(int(i)); problem != explain.PoolReliable {
				t.find(explain.Finding{Kind: explain.FindNoRoom, Pool: i, Problem: problem})
			}
		}
	}
}

// reportMixed adds a finding for each NodePool that can launch several capacity types. gpuscaler only observes such NodePools.
func (t *tick) reportMixed() {
	for i := range t.views() {
		v := &t.o.Pools[i]
		if !v.Exists || !v.Mixed && t.g.Pools[i].Type != Mixed {
			continue
		}
		f := explain.Finding{Kind: explain.FindMixed, Pool: int8(i)}
		for j := range v.Nodes {
			if n := &v.Nodes[j]; n.Type == OnDemand && !n.Deleting {
				f.Count++
				f.Hourly += n.Hourly
			}
		}
		t.find(f)
	}
}

// findUnmovable adds one finding for each reason why pods on on-demand nodes cannot be moved to spot. w is nil for unmanaged pods.
func (t *tick) findUnmovable(w *Workload, name string, pods []Pod) {
	var count [nodepool.MaxPools][explain.NumMoveBlockers]int
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
				t.find(explain.Finding{Kind: explain.FindUnmovable, Pool: pool, Name: name, Count: n, Blocker: explain.MoveBlocker(blocker)})
			}
		}
	}
}

// moveBlocker returns why a pod stays on an on-demand node. blocked is false for a pod that requires on-demand nodes, and for a pod that
// can be moved to spot.
func moveBlocker(w *Workload, p *Pod) (blocker explain.MoveBlocker, blocked bool) {
	switch {
	case p.Pinned && !p.UnknownLabels:
		return 0, false
	case w == nil:
		return explain.BlockedByUnmanagedPod, true
	case p.Claimed || p.Claims:
		return explain.BlockedByClaims, true
	case p.Owner != OwnerReplicaSet && p.DoNotDisrupt.Value != "" && !p.DoNotDisrupt.Ours:
		return explain.BlockedByDoNotDisrupt, true
	case p.UnknownLabels:
		return explain.BlockedByLabels, true
	case p.Owner == OwnerOther:
		return explain.BlockedByNoOwner, true
	}
	return explain.BlockedByOwner, p.Owner != OwnerReplicaSet
}

// checkFleet adds findings about the nodes of a group with a NodeSelector. If known demand starts soon, a finding contains the command
// that keeps enough nodes.
func (t *tick) checkFleet() {
	v := &t.o.Pools[0]
	count := func(kind explain.FindingKind, n int) {
		if n > 0 {
			t.find(explain.Finding{Kind: kind, Pool: 0, Count: n})
		}
	}
	count(explain.FindElsewhere, v.Elsewhere)
	switch {
	case !v.Exists:
		t.find(explain.Finding{Kind: explain.FindMissing, Pool: 0})
		return
	case len(v.Nodes) == 0 && t.g.MaxNodes == 0 && t.g.MaxCapacity == 0:
		t.find(explain.Finding{Kind: explain.FindNoNodes, Pool: 0})
		return
	}
	without, unready := 0, 0
	for i := range v.Nodes {
		switch n := &v.Nodes[i]; {
		case n.GPUs == 0 && !(n.Stage == Launched && n.acceptsPods(t.now)):
			without++
		case n.Stage == Usable && !n.Ready:
			unready++
		}
	}
	count(explain.FindNoUnits, without)
	count(explain.FindNotReady, unready)
	if t.g.MaxNodes > 0 || t.g.MaxCapacity > 0 {
		t.adviseFleet()
	}
}

// adviseFleet adds a finding with the number of nodes that known demand needs, from the time at which nodes must be kept for this demand.
func (t *tick) adviseFleet() {
	empty, inUse := t.knownDemandUntil()
	until := max(empty, inUse)
	if until == 0 {
		return
	}
	var units int64
	for i := range t.o.Ahead {
		if s := &t.o.Ahead[i]; s.GPUs > 0 && t.now.Add(t.lead()+freezeLead).After(s.From) && t.now.Before(s.Until) {
			units = min(units+s.GPUs, nodepool.MaxUnits)
		}
	}
	size := t.smallestNode(0)
	t.find(explain.Finding{Kind: explain.FindKeepNodes, Pool: 0, Count: int((units + size - 1) / size), Until: statemachine.Instant(until)})
}
