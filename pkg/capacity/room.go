package capacity

import (
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// limitOfNodes is the resource name of the limit on the number of a NodePool's nodes. Karpenter 1.15 checks this limit only when it begins
// to schedule a batch of pods: a NodePool at the limit launches no node, but one batch can exceed the limit.
//
// Therefore only the owner and schedules set this limit. The limit caps use the limit of the group's resource, which Karpenter checks for
// each node. If more nodes exist than the limit allows, the NodePool may not grow. A return may then move fewer replicas than possible,
// but never too many.
const limitOfNodes = "nodes"

// measureRoom computes by how many units of the group's resource each NodePool may still grow, and which of its limits allows the least. It
// uses the limits of the owner and of open schedules. The limits that later rules request in this tick are ignored. A NodePool whose
// capacity reservation is full may not grow.
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
				f.scheduled = t.isScheduled(i, l)
			}
		}
		f.room = min(f.room, nodepool.MaxUnits)
		if f.exhausted = f.room > 0 && t.reservationFull(i, 0); f.exhausted {
			f.room, f.full = 0, ""
		}
	}
	t.spot.room, t.onDemand.room = t.sideRoom(&t.spot), t.sideRoom(&t.onDemand)
}

// fullAfter is how long pods wait without a launch in a NodePool of reserved capacity before its reservation counts as full. Karpenter
// creates a NodeClaim at most ten seconds after a pod becomes pending, and one more in each further scheduling loop.
const fullAfter = 2 * time.Minute

// reservationFull reports whether the capacity reservation of a NodePool of only reserved capacity has no free instance.
//
// Karpenter does not report this. The AWS provider of Karpenter 1.15 marks the offering of a full reservation as unavailable, so Karpenter
// creates no NodeClaim, and EC2NodeClass.status.capacityReservations has no number of free instances. Only a launch that loses a race fails
// with an InsufficientCapacityError, once. What can be observed is that pods wait and the NodePool launches no node. The reservation is
// regarded as full if fullAfter has passed since the pods began to wait, since the newest node of the NodePool was created, and since the
// time since (in Unix milliseconds).
func (t *tick) reservationFull(pool int, since int64) bool {
	v := &t.o.Pools[pool]
	if t.s.ShortSince == 0 || t.typeOf(pool) != Reserved || !v.Exists || !v.Ready {
		return false
	}
	from := max(since, t.s.ShortSince, statemachine.Stamp(t.pools[pool].newest))
	launching := slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.Stage == Requested && !n.Deleting })
	return !launching && t.at-from >= fullAfter.Milliseconds()
}

// smallestNode returns the size, in units of the group's resource, of the smallest node that the NodePool is known to launch. If only the
// largest one is known, it returns the size of that node, and if neither is known, nodeSize. The smallest node determines whether there is
// room below a limit, because Karpenter ignores instance types that do not fit below the limit and uses a smaller one.
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
	return int64(min(max(math.Floor(float64(left/node)+rounding), 0), float64(nodepool.MaxUnits)))
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

// limitOf returns a limit of a NodePool without gpuscaler's override of the last tick. This is the limit of an open schedule, or else that
// of the owner.
func (t *tick) limitOf(pool int, l *nodepool.LimitView) nodepool.Value {
	if i := slices.Index(t.s.Limits[:], l.Resource); i >= 0 && l.Resource != "" {
		return t.fields.Effective(pool, nodepool.FieldLimit+nodepool.Field(i))
	}
	return l.Value
}

// isScheduled reports whether a limit of a NodePool is the limit of an open schedule. The caller must call it before later rules request
// limits.
func (t *tick) isScheduled(pool int, l *nodepool.LimitView) bool {
	i := slices.Index(t.s.Limits[:], l.Resource)
	return i >= 0 && l.Resource != "" && !t.limitOf(pool, l).Same(t.fields.Original(pool, nodepool.FieldLimit+nodepool.Field(i)))
}

// spareOnSpot returns the number of spot GPUs that are available for replicas that move from on-demand: the free GPUs of existing spot
// nodes and the GPUs of nodes that the limits still allow, minus those that pending pods need.
func (a *analysis) spareOnSpot() int64 {
	size, free := max(a.smallestMove, 1), int64(0)
	for _, i := range a.spot.all() {
		free += a.freeUnitsOf(int(i), size)
	}
	return max(free+a.spot.room-a.demand.Pending, 0)
}

// canReturn reports whether spot has space for at least one replica from on-demand. Without this check, a return with a full spot NodePool
// would add a replica, which would run on an on-demand node, and the return would start again, endlessly.
func (a *analysis) canReturn() bool {
	return a.returnable > 0 && a.spareOnSpot() >= max(a.smallestMove, 1)
}

// explainNoReturn adds a reason with the limit of the spot NodePool because of which replicas stay on on-demand nodes.
func (t *tick) explainNoReturn() {
	if t.paired() && t.s.Spot.Phase == statemachine.PreferSpot && t.returnable > 0 && t.known && t.spotFirst() && !t.canReturn() {
		t.because(explain.Reason{Rule: explain.RuleReturn, Pool: t.spot.first(), Name: t.pools[t.spot.first()].full, Cause: explain.CauseLimit,
			A: float64(t.returnable)})
	}
}
