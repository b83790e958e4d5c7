package capacity

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// analysis contains the values that are computed once per tick from the observation of a group, such as its demand and the size of each
// NodePool. The rules read it and do not change it.
type analysis struct {
	g   *Group
	o   *Observation
	now time.Time
	at  int64 // now in Unix milliseconds, see statemachine.Stamp

	pools [nodepool.MaxPools]poolFacts
	// the spot and on-demand NodePools between which replicas can move; both are empty if the group lacks one of the two types
	spot, onDemand side

	demand        Demand
	claims        claimCount    // workloads and pods that claim devices which cannot be counted
	pendingClaims claimCount    // workloads and pods without a node that claim devices
	gated         claimCount    // pods that wait for something other than a node
	invalidGangs  claimCount    // pods with an annotation about their gang whose value cannot be used
	known         bool          // whether the demand of all workloads and pods is known
	pods          int           // number of pods that run or are pending
	short         time.Duration // how long pods without a node have waited although no node is being launched for them
	smallestWait  int64         // units of the smallest pod without a node

	returnable   int64          // units that become free on on-demand nodes if all movable pods move to spot (see findReturnable)
	smallestMove int64          // units of the smallest movable pod
	returning    []onDemandNode // the nodes of the on-demand NodePools, for a return to spot; the slice is reused between ticks
}

// poolFacts contains what the tick computes from the nodes and the limits of one NodePool: sums over its nodes, and how much it can still
// grow.
type poolFacts struct {
	units    int64     // units of the nodes that exist and are not being deleted
	largest  int64     // units of the largest node
	smallest int64     // units of the smallest node; 0: there is none
	nodes    int       // number of nodes that exist and are not being deleted
	newest   time.Time // creation time of the newest launched node
	// how many units the NodePool can still grow within the limits of its owner and of open schedules; MaxUnits: no limit
	room int64
	full string // the resource whose limit allows the fewest nodes; "": none is limited
	// limit is the limit of the resource full, and used is how much of this resource the NodePool has. scheduled is true if an open
	// schedule of the group sets the limit. left is true if the limit is an override that gpuscaler may no longer change.
	limit, used     float64
	scheduled, left bool
	// exhausted is true if no node is launched although the limits allow one. Either the capacity reservation of the NodePool has no free
	// instance (room is then 0), or the autoscaler of a group with a NodeSelector adds no node.
	exhausted bool
}

// lead returns how long before the start of known demand its replicas are requested: the lead time of the group or, if none is set, the
// longest lead time that was learned for a workload of the group.
func (a *analysis) lead() time.Duration {
	if a.g.LeadTime > 0 {
		return a.g.LeadTime
	}
	longest := time.Duration(0)
	for i := range a.o.Workloads {
		longest = max(longest, a.o.Workloads[i].LeadTime)
	}
	return longest
}

// views returns the number of NodePools for which both the group and the observation have an entry, at most MaxPools.
func (a *analysis) views() int { return min(len(a.g.Pools), len(a.o.Pools), nodepool.MaxPools) }

// countNodes computes the poolFacts of every NodePool, finds the spot and the on-demand NodePools, and counts the units of pods that can
// move from on-demand to spot.
func (a *analysis) countNodes() {
	for i := range a.views() {
		v, f := &a.o.Pools[i], &a.pools[i]
		f.largest = nodepool.Units(v.NodeGPUs)
		for j := range v.Nodes {
			f.add(&v.Nodes[j])
		}
		f.units = max(f.units, nodepool.Units(v.Usage))
	}
	a.findPair()
	a.findReturnable()
}

func (f *poolFacts) add(n *Node) {
	f.largest = max(f.largest, nodepool.Units(n.GPUs))
	if n.Deleting {
		return
	}
	f.nodes++
	f.units += nodepool.Units(n.GPUs)
	if size := nodepool.Units(n.GPUs); size > 0 && (f.smallest == 0 || size < f.smallest) {
		f.smallest = size
	}
	if n.Stage != Requested && n.Created.After(f.newest) {
		f.newest = n.Created
	}
}

// side contains the NodePools of one capacity type of a group, with the sums of their poolFacts. A group has two sides between which
// replicas can move: the spot NodePools and the on-demand NodePools. A side may have one NodePool for each zone or instance family. Only
// NodePools that exist and launch one capacity type belong to a side.
type side struct {
	pools   [nodepool.MaxPools]int8 // indexes in Group.Pools, in the order of the group
	count   int
	units   int64     // units of nodes that exist and are not being deleted
	largest int64     // units of the largest node
	newest  time.Time // creation of the newest launched node
	room    int64     // units by which the limits allow the NodePools to grow (see sideRoom); MaxUnits: no limit
}

// all returns the indexes of the NodePools of the side (all spot or all on-demand NodePools).
func (s *side) all() []int8 { return s.pools[:s.count] }

// has reports whether a NodePool belongs to the side: it exists, and launches only the capacity type of the side.
func (s *side) has(pool int) bool {
	return pool >= 0 && pool < nodepool.MaxPools && slices.Contains(s.all(), int8(pool))
}

// first returns the index of the first NodePool of the side. It is the field Pool of a Reason that concerns all NodePools of the side.
func (s *side) first() int8 { return s.pools[0] }

// typeOf returns the capacity type of a NodePool: the type under which the group lists the NodePool, with one exception. A NodePool that
// is listed as reserved and may also launch on-demand nodes (In [reserved, on-demand]) is OnDemand. Karpenter first uses the reservation
// of such a NodePool and then launches on-demand nodes in it, so the NodePool replaces spot as an on-demand NodePool does.
func (a *analysis) typeOf(pool int) CapacityType {
	if kind := a.g.Pools[pool].Type; kind != Reserved || !a.o.Pools[pool].LaunchesOnDemand {
		return kind
	}
	return OnDemand
}

// alternative returns the capacity type that is used instead of spot: on-demand, or reserved in a group without an on-demand NodePool.
func (a *analysis) alternative() CapacityType {
	for i := range a.views() {
		if a.typeOf(i) == OnDemand {
			return OnDemand
		}
	}
	return Reserved
}

// findPair finds the spot and the on-demand NodePools of the group, between which replicas can move. If the group has no on-demand
// NodePool, its NodePools of reserved capacity are used as on-demand NodePools. Both results stay empty if the group lacks one of the two
// types.
func (a *analysis) findPair() {
	spot, onDemand := a.sideOf(Spot), a.sideOf(a.alternative())
	if spot.count > 0 && onDemand.count > 0 {
		a.spot, a.onDemand = spot, onDemand
	}
}

// sideOf returns the NodePools of a capacity type, with the sums of their poolFacts. It does not compute the field room.
func (a *analysis) sideOf(kind CapacityType) (s side) {
	for i := range a.views() {
		if a.typeOf(i) != kind || !a.o.Pools[i].Exists || a.o.Pools[i].Mixed {
			continue
		}
		s.pools[s.count] = int8(i)
		s.count++
		f := &a.pools[i]
		s.units, s.largest = min(s.units+f.units, nodepool.MaxUnits), max(s.largest, f.largest)
		if f.newest.After(s.newest) {
			s.newest = f.newest
		}
	}
	return s
}

// paired reports whether the group has a spot and an on-demand NodePool.
func (a *analysis) paired() bool { return a.spot.count > 0 }

// isReserved reports whether a NodePool launches only reserved capacity. Such a NodePool is neither a spot nor an on-demand NodePool of the
// group.
func (a *analysis) isReserved(pool int) bool {
	return pool >= 0 && pool < a.views() && a.typeOf(pool) == Reserved && !a.onDemand.has(pool)
}

// isPrepaid reports whether a node is paid for in advance: a node of a NodePool of only reserved capacity, or a reserved node of a
// NodePool that also launches on-demand nodes.
func (a *analysis) isPrepaid(pool int, n *Node) bool { return a.isReserved(pool) || n.Type == Reserved }

// eachPod calls visit for the pods of all workloads, and with a nil workload for the unmanaged pods.
func (a *analysis) eachPod(visit func(w *Workload, p *Pod)) {
	for i := range a.o.Workloads {
		w := &a.o.Workloads[i]
		for j := range w.Pods {
			visit(w, &w.Pods[j])
		}
	}
	for i := range a.o.UnmanagedPods {
		visit(nil, &a.o.UnmanagedPods[i])
	}
}

// node returns the node of a pod, or nil if the pod has none in a NodePool of the group.
func (a *analysis) node(p *Pod) *Node {
	if p.Pool < 0 || p.Pool >= a.views() || p.Node < 0 || p.Node >= len(a.o.Pools[p.Pool].Nodes) {
		return nil
	}
	return &a.o.Pools[p.Pool].Nodes[p.Node]
}

// endangered reports whether the node of a pod has an interruption notice or is being deleted.
func (a *analysis) endangered(p *Pod) bool {
	n := a.node(p)
	return n != nil && (n.Notice || n.Deleting)
}

// ready returns the number of ready replicas of a workload. All pods of such a replica exist and are ready, and no node of these pods has
// an interruption notice or is being deleted.
func (a *analysis) ready(w *Workload) (n int32) {
	w.eachReplica(func(pods []Pod) {
		for i := range pods {
			if p := &pods[i]; !p.Ready || a.endangered(p) {
				return
			}
		}
		if w.complete(pods) {
			n++
		}
	})
	return n
}

// workload returns the index of the workload with a key, or -1.
func (a *analysis) workload(key string) int {
	return slices.IndexFunc(a.o.Workloads, func(w Workload) bool { return w.Key == key })
}

// nodeSize returns the size of the group's largest known node in units of its resource, or the size of the largest pod if that is greater.
// A limit that should allow one more node must leave room for this size, because Karpenter launches an instance type only if its whole
// capacity fits below the limit.
func (a *analysis) nodeSize() (size int64) {
	for i := range a.views() {
		size = max(size, a.pools[i].largest)
	}
	for i := range a.o.Workloads {
		size = max(size, a.o.Workloads[i].podGPUs())
	}
	return max(size, 1)
}

// baseUnits returns the on-demand base of the group (Group.OnDemandBase) in units of its resource, rounded up to whole nodes. With nodes
// of 8 GPUs and a base of 1, a limit of 1 would allow no node, so the result is 8.
func (a *analysis) baseUnits() int64 {
	size := a.onDemand.largest
	if size == 0 {
		size = a.nodeSize()
	}
	return (nodepool.Units(a.g.OnDemandBase) + size - 1) / size * size
}

// aboveBase returns by how many units of the group's resource the nodes of the on-demand NodePools exceed the on-demand base, at least 0.
func (a *analysis) aboveBase() int64 { return max(a.onDemand.units-a.baseUnits(), 0) }

// baseWait is the spot wait timeout of a group that has an on-demand base and sets no timeout. It is long enough for Karpenter to collect
// one batch of pods and to launch a node.
const baseWait = 30 * time.Second

// spotWait returns how long pods wait for spot before on-demand may grow; 0: the group does not wait.
func (a *analysis) spotWait() time.Duration {
	if a.g.SpotWaitTimeout == 0 && a.g.OnDemandBase > 0 {
		return baseWait
	}
	return a.g.SpotWaitTimeout
}

// within reports whether an event happened after the time from (in Unix milliseconds) and not in the future.
func (a *analysis) within(when time.Time, from int64) bool { return evidence.Within(when, from, a.at) }

// future converts at, in Unix milliseconds, to a time if it is later than now. Otherwise it returns the zero time.
func (a *analysis) future(at int64) time.Time {
	if at <= a.at {
		return time.Time{}
	}
	return statemachine.Instant(at)
}
