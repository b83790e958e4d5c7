package capacity

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// countDemand adds up the units of the group's resource that policies and pods request. The request of a Job without a policy counts in
// the same way as the request of a workload with a policy.
func (a *analysis) countDemand() {
	d := &a.demand
	d.Unknown = a.o.Lost
	var waiting, largest int64
	wait := func(p *Pod) {
		a.countHeld(p)
		if p.Pending && !p.Claimed && !p.Held {
			waiting, largest = min(waiting+nodepool.Units(p.GPUs), nodepool.MaxUnits), max(largest, nodepool.Units(p.GPUs))
			if size := nodepool.Units(p.GPUs); a.smallestWait == 0 || size < a.smallestWait {
				a.smallestWait = size
			}
		}
	}
	for i := range a.o.Workloads {
		w := &a.o.Workloads[i]
		replicas := max(w.Uncapped, 0)
		if !w.Known || w.Paused {
			replicas = max(w.Current, 0)
		}
		if !w.Known && !w.Paused {
			// The demand of the workload is at least its current replicas. While the group's demand is unknown, no rule reduces capacity.
			d.Unknown = true
			replicas = max(replicas, w.Uncapped)
		}
		a.countClaims(w, replicas)
		// pods that a scale-in has not deleted yet still count: demand is at least what the existing pods request
		requested := min(int64(replicas)*nodepool.Units(w.GPUs), nodepool.MaxUnits)
		var have int64
		for j := range w.Pods {
			have += nodepool.Units(w.Pods[j].GPUs)
			wait(&w.Pods[j])
		}
		d.Policies = min(d.Policies+max(requested, have), nodepool.MaxUnits)
		a.pods += len(w.Pods)
	}
	for i := range a.o.UnmanagedPods {
		p := &a.o.UnmanagedPods[i]
		if p.UnknownPlacement {
			continue
		}
		a.countClaimsOf(p)
		d.UnmanagedPods = min(d.UnmanagedPods+nodepool.Units(p.GPUs), nodepool.MaxUnits)
		wait(p)
		a.pods++
	}
	d.Unknown = d.Unknown || a.claims.count > 0 || a.pendingClaims.count > 0
	a.known = !d.Unknown
	if waiting > 0 {
		waiting -= a.freeUnits(max(largest, 1))
	}
	d.Pending = max(waiting, 0)
}

// countHeld counts a pod that waits for something other than a node, and a pod whose annotation about its gang cannot be used. A pod
// without a UID represents the missing pods of a gang and does not exist, so it is not counted.
func (a *analysis) countHeld(p *Pod) {
	if p.Held && p.Pending && p.UID != "" {
		a.gated.add(p.Namespace + "/" + p.Name)
	}
	if p.InvalidAnnotation != "" {
		a.invalidGangs.add(p.Namespace + "/" + p.Name)
	}
}

// countClaims counts the workload in claims or pendingClaims if the workload claims devices that make the demand unknown. The parameter
// replicas is the demand of the workload.
func (a *analysis) countClaims(w *Workload, replicas int32) {
	switch {
	case w.Claims && (replicas > 0 || len(w.Pods) > 0):
		a.claims.add(w.Key)
	case w.Claimed && w.awaitsDevices(replicas):
		a.pendingClaims.add(w.Key)
	}
}

// countClaimsOf counts the unmanaged pod in claims or pendingClaims if the pod claims devices that make the demand unknown.
func (a *analysis) countClaimsOf(p *Pod) {
	switch {
	case p.Claims:
		a.claims.add(p.Namespace + "/" + p.Name)
	case p.Claimed && p.Pending:
		a.pendingClaims.add(p.Namespace + "/" + p.Name)
	}
}

// awaitsDevices reports whether the given number of replicas lacks a pod or has a pod without a node.
func (w *Workload) awaitsDevices(replicas int32) bool {
	missing := int64(replicas) * int64(max(w.Size, 1))
	for i := range w.Pods {
		if w.Pods[i].Pending {
			return true
		}
		missing--
	}
	return missing > 0
}

// claimCount counts workloads or pods whose claims of devices (dynamic resource allocation) make the demand unknown, and contains the
// name of the first workload or pod. Claims make the demand unknown in two cases:
//
//   - The devices of the claim cannot be counted.
//   - The devices can be counted and are included in the demand, but the pod has no node. By default Karpenter launches no node for a pod
//     with claims, so the waiting pod is no evidence that spot lacks capacity, and its waiting time is not compared with the spot wait
//     timeout. A limit cap of on-demand ends only when pods have waited for this timeout, so with only such pods it would never end. For
//     this reason demand is unknown while such pods wait, and no limit cap is set.
type claimCount struct {
	first string
	count int
}

func (c *claimCount) add(name string) {
	if c.count++; c.count == 1 {
		c.first = name
	}
}

// bootTimeout is how long a launched instance counts as a node that will accept pods soon. Karpenter deletes a NodeClaim that has not
// registered after 15 minutes.
const bootTimeout = 15 * time.Minute

// freeUnits returns how many units of the resource are free on the nodes of all NodePools for pods of the given size. On each node, the
// free units are rounded down to a multiple of size: 8 nodes with one free GPU each have no free units for a pod with 8 GPUs.
func (a *analysis) freeUnits(size int64) (free int64) {
	for i := range a.views() {
		free += a.freeUnitsOf(i, size)
	}
	return free
}

// freeUnitsOf returns the free units of one NodePool. The function freeUnits describes how they are counted.
func (a *analysis) freeUnitsOf(pool int, size int64) (free int64) {
	if !a.o.Pools[pool].Exists {
		return 0
	}
	for j := range a.o.Pools[pool].Nodes {
		if n := &a.o.Pools[pool].Nodes[j]; n.acceptsPods(a.now) {
			free += max(nodepool.Units(n.GPUs)-nodepool.Units(n.Used), 0) / size * size
		}
	}
	return free
}

// acceptsPods reports whether the node accepts pods now or will accept them soon. It is false for a NodeClaim without an instance, because
// its launch can still fail.
func (n *Node) acceptsPods(now time.Time) bool {
	switch {
	case n.Deleting || n.Stage == Requested:
		return false
	case n.Stage == Usable:
		return n.Ready
	}
	return now.Sub(n.Created) < bootTimeout
}

// hasSpace reports whether a pod of the given size can be scheduled to the node, and Karpenter has not chosen the node for disruption.
func (n *Node) hasSpace(size int64, now time.Time) bool {
	return !n.Voluntary && !n.Disrupted && !n.Notice && n.acceptsPods(now) && nodepool.Units(n.GPUs)-nodepool.Units(n.Used) >= size
}

// fitsExistingNodes reports whether the nodes that are not about to be removed have enough free units for three demands together: the
// waiting pods, the replicas of surges that have no pod yet, and the parameter more (in units). On each node, the free units are rounded
// down to a multiple of the size of the workload's pods.
func (t *tick) fitsExistingNodes(w *Workload, more int64) bool {
	size := max(w.podGPUs(), 1)
	left := -more
	t.eachPod(func(_ *Workload, p *Pod) {
		if p.Pending && !p.Held {
			left -= nodepool.Units(p.GPUs)
		}
	})
	for i := range t.s.Surges {
		left -= t.unitsToCome(&t.s.Surges[i])
	}
	for i := range t.views() {
		for j := range t.o.Pools[i].Nodes {
			if n := &t.o.Pools[i].Nodes[j]; t.o.Pools[i].Exists && n.hasSpace(size, t.now) && (!n.Drifted || n.DoNotDisrupt) {
				left += (nodepool.Units(n.GPUs) - nodepool.Units(n.Used)) / size * size
			}
		}
	}
	return left >= 0
}

// unitsToCome returns the units of the replica that a surge has requested, if this replica has no pod yet, and otherwise 0.
func (a *analysis) unitsToCome(s *statemachine.Surge) int64 {
	i := a.workload(s.Workload)
	if s.Step != statemachine.SurgeAsked || i < 0 {
		return 0
	}
	w := &a.o.Workloads[i]
	if slices.ContainsFunc(w.Pods, func(p Pod) bool { return statemachine.Stamp(p.Since) > s.Since }) {
		return 0
	}
	return w.podGPUs()
}

// trackDemand updates the times since which demand has been known and since which pods have waited without a node. A pod does not count
// as waiting if a booting node has space for it. Otherwise every cold start would count as a failure of spot.
func (t *tick) trackDemand() {
	s := t.s
	if t.claims.count > 0 {
		t.find(explain.Finding{Kind: explain.FindClaims, Pool: -1, Name: t.claims.first, Count: t.claims.count})
	}
	if t.pendingClaims.count > 0 {
		t.find(explain.Finding{Kind: explain.FindPendingClaims, Pool: -1, Name: t.pendingClaims.first, Count: t.pendingClaims.count})
	}
	if t.gated.count > 0 {
		t.find(explain.Finding{Kind: explain.FindHeld, Pool: -1, Name: t.gated.first, Count: t.gated.count})
	}
	if t.invalidGangs.count > 0 {
		t.find(explain.Finding{Kind: explain.FindGangSize, Pool: -1, Name: t.invalidGangs.first, Count: t.invalidGangs.count})
	}
	if !t.known {
		s.KnownSince, s.UnknownAt = t.at, t.at
	}
	switch {
	case t.demand.Pending == 0:
		s.ShortSince = 0
	case s.ShortSince == 0:
		s.ShortSince = t.at
	}
	if s.ShortSince != 0 {
		t.short = time.Duration(t.at-s.ShortSince) * time.Millisecond
	}
	t.because(explain.Reason{Rule: explain.RuleDemand, Pool: -1, A: float64(t.demand.Policies), B: float64(t.demand.UnmanagedPods)})
}

// trustInterval is how long demand must be known without interruption before a limit may depend on demand again. Without this delay, each
// interruption of a signal would cause writes.
const trustInterval = 2 * time.Minute

// trusted reports whether a limit on spot may depend on demand. Demand must be known now and must have been known for trustInterval. A new
// leader for which demand has been known since its start does not wait, so that it continues the previous leader's decision.
func (t *tick) trusted() bool {
	return t.known && (t.s.UnknownAt == 0 || t.at-t.s.UnknownAt >= trustInterval.Milliseconds())
}
