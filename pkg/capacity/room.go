package capacity

import (
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// limitOfNodes is the resource name of the limit on the number of a NodePool's nodes. Karpenter 1.15 checks this limit only when it begins
// to schedule a batch of pods: a NodePool at the limit launches no node, but one batch can exceed the limit.
//
// Therefore only the owner and schedules set this limit. The limit caps use the limit of the group's resource, which Karpenter checks for
// each node. If more nodes exist than the limit allows, the NodePool cannot grow. A return may then move fewer replicas than possible,
// but never too many.
const limitOfNodes = "nodes"

// measureRoom computes by how many units of the group's resource each NodePool can still grow, and which of its limits allows the least.
// It uses the limits of the owner and of open schedules, but not the limits that later rules request in this tick. A NodePool whose
// capacity reservation is full cannot grow.
func (t *tick) measureRoom() {
	for i := range t.views() {
		f := &t.pools[i]
		f.room, f.full = nodepool.MaxUnits, ""
		if t.g.SelectsNodes() {
			t.measureFleet(i)
			continue
		}
		size := t.smallestNode(i)
		for j := range t.o.Pools[i].Limits {
			l := &t.o.Pools[i].Limits[j]
			value, ok := t.limitOf(i, l).Quantity()
			if !ok {
				continue
			}
			if room := t.nodesBelow(i, l, value) * size; room < f.room {
				f.room, f.full, f.limit = room, l.Resource, value
				f.used, _ = t.usedBelow(i, l)
				f.scheduled, f.left = t.isScheduled(i, l), t.isLeft(i, l)
			}
		}
		t.measureStatic(i, size)
		f.room = min(f.room, nodepool.MaxUnits)
		if f.exhausted = f.room > 0 && t.reservationFull(i, 0); f.exhausted {
			f.room, f.full = 0, ""
		}
	}
	t.spot.room, t.onDemand.room = t.sideRoom(&t.spot), t.sideRoom(&t.onDemand)
}

// measureStatic lowers the room of a static NodePool (the units by which it can grow) to the nodes that Karpenter has not launched yet,
// up to spec.replicas.
func (t *tick) measureStatic(pool int, size int64) {
	replicas, f := t.o.Pools[pool].Replicas, &t.pools[pool]
	if replicas == nil {
		return
	}
	limit := min(max(*replicas, 0), nodepool.MaxUnits)
	if room := max(limit-int64(f.nodes), 0) * size; room < f.room {
		f.room, f.full, f.limit, f.used = room, explain.StaticReplicas, float64(limit), float64(f.nodes)
		f.scheduled, f.left = false, false
	}
}

// measureFleet computes by how many units the nodes of a group's NodeSelector can still grow. Without a configured maximum, no node can
// be added. Only whole nodes of the smallest known size count.
func (t *tick) measureFleet(pool int) {
	f, size := &t.pools[pool], t.smallestNode(pool)
	f.room, f.full = 0, ""
	if t.g.MaxNodes == 0 && t.g.MaxCapacity == 0 {
		return
	}
	f.room = nodepool.MaxUnits
	if t.g.MaxCapacity > 0 {
		f.room, f.full = max(t.g.MaxCapacity-f.units, 0)/size*size, "maxCapacity"
	}
	if left := max(t.g.MaxNodes-int64(len(t.o.Pools[pool].Nodes)), 0) * size; t.g.MaxNodes > 0 && left < f.room {
		f.room, f.full = left, "maxNodes"
	}
	f.exhausted = f.room > 0 && t.noNodeAdded(pool, 0)
}

// reservationTimeout is how long pods wait without a launch in a NodePool of reserved capacity before its reservation counts as full.
// Karpenter creates a NodeClaim at most ten seconds after a pod becomes pending, and another NodeClaim in each later scheduling loop.
const reservationTimeout = 2 * time.Minute

// reservationFull reports whether the capacity reservation of a NodePool of only reserved capacity has no free instance.
//
// Karpenter does not report a full reservation. The AWS provider of Karpenter 1.15 marks the offering of a full reservation as
// unavailable, so Karpenter creates no NodeClaim, and EC2NodeClass.status.capacityReservations has no number of free instances. A launch
// fails with an InsufficientCapacityError only if it begins before the reservation is full, so this happens once. The only sign of a full
// reservation is therefore that pods wait and the NodePool launches no node. The reservation counts as full if all of these times are at
// least reservationTimeout ago: the time at which the pods began to wait, the creation of the newest node of the NodePool, and the
// parameter since (in Unix milliseconds).
func (t *tick) reservationFull(pool int, since int64) bool {
	v := &t.o.Pools[pool]
	if t.s.ShortSince == 0 || t.typeOf(pool) != Reserved || !v.Exists || !v.Ready {
		return false
	}
	from := max(since, t.s.ShortSince, statemachine.Stamp(t.pools[pool].newest))
	launching := slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.Stage == Requested && !n.Deleting })
	return !launching && t.at-from >= reservationTimeout.Milliseconds()
}

// provisionTimeout is how long pods wait without a new node before gpuscaler assumes that the autoscaler of the cluster adds none. It is
// the default of Cluster Autoscaler's flag --max-node-provision-time, after which Cluster Autoscaler itself considers a scale-up as
// failed.
const provisionTimeout = 15 * time.Minute

// noNodeAdded reports whether pods wait although the autoscaler should have added a node by now. Three times must be at least
// provisionTimeout ago: the time at which the pods began to wait, the creation of the newest node, and the parameter since (in Unix
// milliseconds).
func (t *tick) noNodeAdded(pool int, since int64) bool {
	from := max(since, t.s.ShortSince, statemachine.Stamp(t.pools[pool].newest))
	return t.s.ShortSince != 0 && t.at-from >= provisionTimeout.Milliseconds()
}

// smallestNode returns the size, in units of the group's resource, of the smallest node that the NodePool is known to launch. If only the
// largest node is known, smallestNode returns the size of that node. If neither is known, it returns nodeSize. The smallest node
// determines whether a limit allows another node, because Karpenter ignores instance types that exceed the limit and uses a smaller one.
func (a *analysis) smallestNode(pool int) int64 {
	f := &a.pools[pool]
	switch {
	case f.smallest > 0:
		return f.smallest
	case f.largest > 0:
		return f.largest
	}
	return a.nodeSize()
}

// nodesBelow returns how many more nodes fit below a limit, at most MaxUnits. It also returns MaxUnits if it is unknown how much of the
// limited resource a node has.
func (a *analysis) nodesBelow(pool int, l *nodepool.LimitView, limit float64) int64 {
	used, node := a.usedBelow(pool, l)
	left := float64(limit - max(used, 0))
	switch {
	case left <= 0:
		return 0
	case !(node > 0): // also true for NaN
		return nodepool.MaxUnits
	}
	return int64(min(max(math.Floor(float64(left/node)+evidence.Rounding), 0), float64(nodepool.MaxUnits)))
}

// usedBelow returns how much of the limited resource the NodePool has, and how much its smallest node has.
func (a *analysis) usedBelow(pool int, l *nodepool.LimitView) (used, node float64) {
	switch l.Resource {
	case a.g.Resource:
		return float64(a.pools[pool].units), float64(a.smallestNode(pool))
	case limitOfNodes:
		return float64(len(a.o.Pools[pool].Nodes)), 1
	}
	return l.Used, l.Node
}

// limitOf returns a limit of a NodePool as it would be without gpuscaler's override of the last tick: the limit of an open schedule or,
// without a schedule, the owner's limit. The limit of a schedule is ignored if the owner does not allow gpuscaler to write it.
func (t *tick) limitOf(pool int, l *nodepool.LimitView) nodepool.Value {
	i := slices.Index(t.s.Limits[:], l.Resource)
	if i < 0 || l.Resource == "" {
		return l.Value
	}
	f := nodepool.FieldLimit + nodepool.Field(i)
	if !t.g.Advisory && !t.fields.MayOverride(pool, f) {
		return t.fields.Original(pool, f)
	}
	return t.fields.Effective(pool, f)
}

// isScheduled reports whether a limit of a NodePool is the limit of an open schedule. It must be called before later rules of the tick
// request limits.
func (t *tick) isScheduled(pool int, l *nodepool.LimitView) bool {
	i := slices.Index(t.s.Limits[:], l.Resource)
	return i >= 0 && l.Resource != "" && !t.limitOf(pool, l).Same(t.fields.Original(pool, nodepool.FieldLimit+nodepool.Field(i)))
}

// isLeft reports whether a limit of a NodePool is an override that gpuscaler cannot remove, because the owner no longer allows gpuscaler
// to change the field.
func (t *tick) isLeft(pool int, l *nodepool.LimitView) bool {
	i := slices.Index(t.s.Limits[:], l.Resource)
	if i < 0 || l.Resource == "" {
		return false
	}
	f := nodepool.FieldLimit + nodepool.Field(i)
	return t.s.Pools[pool].Overrides[f].On && !t.o.Pools[pool].Writable(f)
}

// sideRoom returns by how many units the NodePools of a capacity type can still grow together. It ignores unreliable NodePools. If all of
// the NodePools are unreliable, it includes all of them.
func (t *tick) sideRoom(s *side) (room int64) {
	reliable := slices.ContainsFunc(s.all(), func(i int8) bool { return t.unreliable(int(i)) == explain.PoolReliable })
	for _, i := range s.all() {
		if !reliable || t.unreliable(int(i)) == explain.PoolReliable {
			room = min(room+t.pools[i].room, nodepool.MaxUnits)
		}
	}
	return room
}

// unreliable returns why gpuscaler expects no new node from a NodePool if other NodePools of its capacity type exist. The result is
// PoolReliable if there is no such reason.
func (t *tick) unreliable(pool int) explain.PoolProblem {
	v := &t.o.Pools[pool]
	switch {
	case !v.Ready:
		return explain.PoolNotReady
	case v.Consent&nodepool.ConsentAny == 0 || v.Consent&nodepool.ConsentRestore != 0:
		return explain.PoolNotConsented
	case t.at < t.s.Pools[pool].Overrides[nodepool.FieldLimit].Retry:
		return explain.PoolContested
	case v.Weight.Unsupported:
		return explain.PoolStatic
	}
	return explain.PoolReliable
}

// mayLaunch reports whether Karpenter may launch a node in a NodePool: the NodePool is ready, and its limits allow a node.
func (a *analysis) mayLaunch(pool int) bool { return a.o.Pools[pool].Ready && a.pools[pool].room > 0 }

// closedGroup describes why no NodePool of a group provides a node: the index of the first existing NodePool, and the cause for this
// NodePool.
type closedGroup struct {
	pool     int8
	cause    explain.Cause // CauseNone: a NodePool may provide a node
	resource string        // for CauseLimit, the limited resource
}

// allClosed returns why no NodePool of the group provides a node. Limits that gpuscaler itself sets are ignored, because gpuscaler removes
// them when they are no longer needed.
func (t *tick) allClosed() (closed closedGroup) {
	closed.pool = -1
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue // the nodes of a missing NodePool are unknown
		}
		why := t.closedBy(i)
		if why == explain.CauseNone {
			return closedGroup{pool: -1}
		}
		if closed.cause == explain.CauseNone {
			closed.pool, closed.cause = int8(i), why
			if why == explain.CauseLimit || why == explain.CauseFleet {
				closed.resource = t.pools[i].full
			}
		}
	}
	return closed
}

// closedBy returns why a NodePool provides no node for the smallest waiting pod. It returns CauseNone if the NodePool may provide a node.
// While the target is capped, every recent refused launch is a cause. While the target is not capped, two causes count only from the end
// of the last cap, so that the full target is tried once after each cap: refused launches, and the time without a launch after which a
// capacity reservation counts as full.
func (t *tick) closedBy(pool int) explain.Cause {
	since := t.s.TargetCap.Since
	if t.s.TargetCap.On {
		since = 0
	}
	switch {
	case t.g.SelectsNodes():
		return t.fleetClosedBy(pool, since)
	case !t.o.Pools[pool].Ready:
		return explain.CauseNotReady
	case t.pools[pool].exhausted && t.reservationFull(pool, since):
		return explain.CauseReservation
	case t.pools[pool].exhausted:
		return explain.CauseNone
	case t.pools[pool].room < max(t.smallestWait, 1):
		return explain.CauseLimit
	case t.refusedSince(pool, since):
		return explain.CauseRefused
	}
	return explain.CauseNone
}

// fleetClosedBy returns the same as closedBy, for a group whose nodes are found by their labels.
func (t *tick) fleetClosedBy(pool int, since int64) explain.Cause {
	switch {
	case t.pools[pool].room < max(t.smallestWait, 1):
		return explain.CauseFleet
	case t.pools[pool].exhausted && t.noNodeAdded(pool, since):
		return explain.CauseNoNewNode
	}
	return explain.CauseNone
}

// refusedSince reports whether a launch of the NodePool was refused for lack of capacity. Only refusals after the parameter since (in Unix
// milliseconds), within RefusalWindow and after the creation of the newest node are included.
func (a *analysis) refusedSince(pool int, since int64) bool {
	return a.refusals(pool, since) > 0
}

// refusals counts the refused launches that refusedSince describes.
func (a *analysis) refusals(pool int, since int64) (n int) {
	from := max(since, statemachine.Stamp(a.pools[pool].newest), a.at-statemachine.RefusalWindow.Milliseconds())
	for i := range a.o.Pools[pool].Failures {
		if f := &a.o.Pools[pool].Failures[i]; f.Capacity && a.within(f.At, from) {
			n++
		}
	}
	return n
}
