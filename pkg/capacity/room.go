package capacity

import (
	"math"
	"slices"
)

// limitOfNodes is the limit that counts a NodePool's nodes. Karpenter 1.15 checks it when a batch of pods begins: a pool at the limit
// launches nothing, but one batch may pass it.
const limitOfNodes = "nodes"

// measureRoom computes how much each pool may still grow below every limit of its owner and of the open schedules, in units of the
// group's resource, and which limit allows the least. Limits that this package sets later in the tick do not count.
func (t *tick) measureRoom() {
	for i := range t.views() {
		f := &t.facts[i]
		f.room, f.full = maxUnits, ""
		size := t.leastNode(i)
		for j := range t.o.Pools[i].Limits {
			l := &t.o.Pools[i].Limits[j]
			value, ok := t.limitOf(i, l).quantity()
			if !ok {
				continue
			}
			if room := t.nodesBelow(i, l, value) * size; room < f.room {
				f.room, f.full = room, l.Resource
			}
		}
		f.room = min(f.room, maxUnits)
	}
}

// leastNode returns the units of the smallest node that the pool is known to launch: Karpenter drops every instance type whose whole
// capacity does not fit below a limit, and takes a smaller one.
func (t *tick) leastNode(pool int) int64 {
	f := &t.facts[pool]
	switch {
	case f.least > 0:
		return f.least
	case f.node > 0:
		return f.node
	}
	return t.nodeSize()
}

// nodesBelow returns how many nodes more fit below a limit: at most maxUnits, also where the size of a node is not known.
func (t *tick) nodesBelow(pool int, l *LimitView, limit float64) int64 {
	used, node := l.Used, l.Node
	switch l.Resource {
	case t.g.Resource:
		used, node = float64(t.facts[pool].runs), float64(t.leastNode(pool))
	case limitOfNodes:
		used, node = float64(len(t.o.Pools[pool].Nodes)), 1
	}
	left := float64(limit - max(used, 0))
	switch {
	case left <= 0:
		return 0
	case !(node > 0): // also NaN
		return maxUnits
	}
	return int64(min(max(math.Floor(float64(left/node)+rounding), 0), float64(maxUnits)))
}

// limitOf returns a limit without ours: what an open schedule sets, or what the owner wrote.
func (t *tick) limitOf(pool int, l *LimitView) Value {
	if i := slices.Index(t.s.limits[:], l.Resource); i >= 0 && l.Resource != "" {
		return t.effective(pool, FieldLimit+Field(i))
	}
	return l.Value
}

// full reports whether a limit of its owner lets no node of the pool come.
func (t *tick) full(pool int) bool { return t.facts[pool].room == 0 }

// spare returns the units that replicas from on-demand find on the spot pool: free ones on its nodes, and those of nodes that may still
// come, without what the pods that wait take first.
func (t *tick) spare() int64 {
	size := max(t.leastMove, 1)
	return max(t.roomOn(t.spot, size)+t.facts[t.spot].room-t.d.Demand.Pending, 0)
}

// returns reports whether the spot pool takes at least one replica from on-demand. A return without room surges, finds its successor on
// demand, and begins anew for ever.
func (t *tick) returns() bool { return t.left > 0 && t.spare() >= max(t.leastMove, 1) }

// staysOnDemand names the limit that keeps replicas on demand.
func (t *tick) staysOnDemand() {
	if t.paired() && t.s.spot.phase == PreferSpot && t.left > 0 && t.known && t.spotFirst() && !t.returns() {
		t.because(Reason{Rule: RuleReturn, Pool: int8(t.spot), Name: t.facts[t.spot].full, Cause: CauseLimit, A: float64(t.left)})
	}
}
