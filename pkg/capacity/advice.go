package capacity

import (
	"math"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// addAtRisk adds replicas to the targets of workloads for two reasons. Ready replicas on nodes that the provider is about to take need
// replacements. Further losses that are expected need a reserve, which must be ready before the provider announces a loss: the provider
// gives notice two minutes before it takes a node, and a cold start takes longer.
func (t *tick) addAtRisk() {
	var noticed, expected float64
	var all evidence.Exposure
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		risk, pods, needed := t.exposed(w)
		all.Pods, all.Needed = all.Pods+pods, all.Needed+needed
		t.d.Advice[i].AtRisk = risk
		noticed += float64(risk)
	}
	lost := int32(0)
	if nodes := t.expectedLosses(); nodes > 0 {
		all.Nodes = t.exposedNodes()
		lost = all.ReplicasLostWith(nodes)
	}
	if reserve := t.s.Reserve.Step(t.at, lost, t.s.Move.Step == statemachine.NoMove); reserve > 0 && all.Needed > 0 {
		expected = t.addReserve(reserve, all.Needed)
	}
	if noticed+expected > 0 {
		t.because(explain.Reason{Rule: explain.RuleAtRisk, Pool: -1, A: noticed, B: expected})
	}
}

// addReserve distributes the reserve, which are additional replicas for expected losses of nodes, over the workloads in proportion to
// their needed replicas on spot nodes. The parameter needed is the sum of these replicas over all workloads. addReserve returns how many
// replicas it added. The number can exceed the reserve, because the replicas of each workload are rounded up. It can also be lower: the
// reserve decreases slowly, but a workload cannot lose more replicas than it has.
func (t *tick) addReserve(reserve, needed int32) (added float64) {
	for i := range t.o.Workloads {
		w, have := &t.o.Workloads[i], int32(0)
		_, _, n := t.exposed(w)
		w.eachReplica(func([]Pod) { have++ })
		more := int32((int64(reserve)*int64(n) + int64(needed) - 1) / int64(needed))
		more = min(more, max(have-t.d.Advice[i].AtRisk, 0))
		t.d.Advice[i].AtRisk, t.d.Advice[i].Reserve = t.d.Advice[i].AtRisk+more, more
		added += float64(more)
	}
	return added
}

// exposedNodes returns the number of spot nodes with ready pods of workloads or ready unmanaged pods. If other pods also use units of a
// node, the node counts only in part.
func (a *analysis) exposedNodes() (nodes float64) {
	a.eachPod(func(_ *Workload, p *Pod) {
		if n := a.node(p); n != nil && p.Ready && n.Type == Spot && !n.Notice && !n.Deleting {
			nodes += float64(nodepool.Units(p.GPUs)) / float64(max(nodepool.Units(n.Used), nodepool.Units(p.GPUs), 1))
		}
	})
	return nodes
}

// exposed returns three numbers about the ready replicas of a workload. A replica is at risk if one of its pods is on a node that the
// provider is about to take. A replica is exposed if it is not at risk and one of its pods is on a spot node.
//
//   - risk: the number of replicas at risk.
//   - exposed: the number of pods of the exposed replicas, including their pods on other nodes.
//   - needed: the number of exposed replicas that are necessary for the demand.
func (a *analysis) exposed(w *Workload) (risk int32, exposed int64, needed int32) {
	replicas := int32(0)
	w.eachReplica(func(pods []Pod) {
		ready, leaving, spot := w.complete(pods), false, false
		for j := range pods {
			p := &pods[j]
			switch n := a.node(p); {
			case n == nil || !p.Ready:
				ready = false
			case n.taken():
				leaving = true
			// a node that Karpenter is deleting is not exposed to spot interruptions, because Karpenter replaces it
			case n.Type == Spot && !n.Notice && !n.Deleting:
				spot = true
			}
		}
		switch {
		case !ready:
		case leaving:
			risk++
		case spot:
			replicas, exposed = replicas+1, exposed+int64(len(pods))
		}
	})
	return risk, exposed, min(replicas, w.needs())
}

// taken reports whether the provider is about to take the node. It is false if Karpenter itself removes the node.
func (n *Node) taken() bool { return (n.Notice || n.Deleting) && !n.Voluntary }

// expectedLosses returns the number of nodes that the provider is expected to take from the group during one cold start.
func (a *analysis) expectedLosses() int32 {
	var losses evidence.Losses
	for i := range a.views() {
		losses.Add(a.o.Pools[i].Losses, a.at)
	}
	return losses.Expected(a.lead())
}

// capTargets caps the targets of the group's workloads while no NodePool provides a node. The cap is the number of replicas that have
// nodes, plus one. The additional replica stays pending, so that Karpenter tries to launch a node for it. The results of these launches
// are the evidence for a fallback to on-demand. The target of a workload is also capped in two other cases: while the API server rejects
// its pods, and while the autoscaler (Cluster Autoscaler, GKE or AKS) reports that it cannot add a node with space for a replica. In the
// second case, the cap includes the replicas that fit on existing nodes.
func (t *tick) capTargets() {
	c := &t.s.TargetCap
	closed := t.allClosed()
	in := statemachine.TargetCapInput{At: t.at, Group: t.g.Name, Closed: closed.cause != explain.CauseNone, Waiting: t.s.ShortSince != 0,
		Short: t.short}
	c.Apply(c.Event(in), in)
	reasons := [...]explain.Reason{
		{Pool: closed.pool, Name: closed.resource, Cause: closed.cause, Until: statemachine.Instant(c.Until)},
		{Pool: -1, Cause: explain.CauseQuota},
		{Pool: -1, Cause: explain.CauseInfeasible},
	}
	var constrained [len(reasons)]float64 // replicas that cannot run, for each reason
	infeasible := false
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		reason, limit := 0, w.placed()+1
		switch {
		case c.On:
		case w.Quota:
			reason = 1
		case w.Infeasible:
			reason, infeasible = 2, true
			limit += t.fitting(w)
		default:
			continue
		}
		t.d.Advice[i].Cap = limit
		constrained[reason] += float64(max(w.Uncapped-limit+1, 0))
	}
	if c.On {
		t.listClosed()
	} else if infeasible {
		t.listInfeasible()
	}
	for i, reason := range reasons {
		if constrained[i] > 0 || c.On && i == 0 {
			reason.Rule, reason.A = explain.RuleConstrained, constrained[i]
			t.because(reason)
		}
	}
}

// fitting returns how many additional replicas of a workload fit on existing nodes.
func (a *analysis) fitting(w *Workload) int32 {
	size := max(w.podGPUs(), 1)
	return int32(min(a.freeUnits(size)/size/int64(w.size()), math.MaxInt32/2))
}

// listInfeasible adds the cause "the autoscaler can add no node with space for a replica" to the decision. It sets no time of a next
// attempt: the cap of the target ends when the autoscaler changes its report.
func (t *tick) listInfeasible() {
	for i := range t.views() {
		if t.o.Pools[i].Exists {
			t.d.Closed = append(t.d.Closed, Closed{Pool: int8(i), Cause: explain.CauseInfeasible, Units: t.pools[i].units,
				Unmanaged: t.unmanagedOn(i)})
		}
	}
}

// listClosed adds to the decision the cause for which each NodePool provides no node, and the time at which the cap of the targets ends.
func (t *tick) listClosed() {
	t.d.Until = statemachine.Instant(t.s.TargetCap.Until)
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue
		}
		f := &t.pools[i]
		c := Closed{Pool: int8(i), Cause: t.closedBy(i), Units: f.units, Unmanaged: t.unmanagedOn(i)}
		switch c.Cause {
		case explain.CauseLimit:
			c.Limited, c.Limit, c.Used, c.Scheduled, c.Left = f.full, f.limit, f.used, f.scheduled, f.left
			if f.room > 0 {
				c.Waiting = t.smallestWait
			}
		case explain.CauseFleet:
			t.describeMaximum(&c)
		case explain.CauseRefused:
			c.Refused = t.refusals(i, 0)
		}
		t.d.Closed = append(t.d.Closed, c)
	}
}

// describeMaximum sets the fields of c that describe maxNodes or maxCapacity of a group with a NodeSelector.
func (t *tick) describeMaximum(c *Closed) {
	switch c.Limited = t.pools[c.Pool].full; c.Limited {
	case "maxNodes":
		c.Limit, c.Used = float64(t.g.MaxNodes), float64(len(t.o.Pools[c.Pool].Nodes))
	case "maxCapacity":
		c.Limit, c.Used = float64(t.g.MaxCapacity), float64(c.Units)
	}
}

// unmanagedOn returns the units of the group's resource that pods without a policy use on the nodes of a NodePool.
func (a *analysis) unmanagedOn(pool int) (units int64) {
	for i := range a.o.UnmanagedPods {
		if p := &a.o.UnmanagedPods[i]; p.Pool == pool && a.node(p) != nil {
			units += nodepool.Units(p.GPUs)
		}
	}
	return units
}

// placed returns the number of replicas whose pods all exist and are on nodes. While the API server rejects more pods of the workload,
// replicas with pending pods count too.
func (w *Workload) placed() (n int32) {
	w.eachReplica(func(pods []Pod) {
		if !w.complete(pods) {
			return
		}
		for i := range pods {
			if !w.Quota && pods[i].Pending {
				return
			}
		}
		n++
	})
	return n
}
