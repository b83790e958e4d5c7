package capacity

import (
	"math"
	"slices"
)

// limitOfNodes is the limit that counts the nodes of a NodePool. Karpenter 1.15 checks it when it starts a batch of pods: a NodePool at
// the limit launches nothing, but one batch may exceed it.
const limitOfNodes = "nodes"

// measureRoom computes how many units each NodePool may still grow below the limits of its owner and of the open schedules, and which
// limit allows the least. Limits that later rules of the tick set do not count.
func (t *tick) measureRoom() {
	for i := range t.views() {
		f := &t.pools[i]
		f.room, f.full = maxUnits, ""
		size := t.smallestNode(i)
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

// smallestNode returns the units of the smallest node that the NodePool is known to launch. Karpenter drops every instance type that
// does not fit below a limit completely, and uses a smaller one.
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

// nodesBelow returns how many more nodes fit below a limit: at most maxUnits, which it also returns for a node of unknown size.
func (a *analysis) nodesBelow(pool int, l *LimitView, limit float64) int64 {
	used, node := l.Used, l.Node
	switch l.Resource {
	case a.g.Resource:
		used, node = float64(a.pools[pool].units), float64(a.smallestNode(pool))
	case limitOfNodes:
		used, node = float64(len(a.o.Pools[pool].Nodes)), 1
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

// limitOf returns a limit without the override of the last tick: that of an open schedule, or that of the owner.
func (t *tick) limitOf(pool int, l *LimitView) Value {
	if i := slices.Index(t.s.Limits[:], l.Resource); i >= 0 && l.Resource != "" {
		return t.effective(pool, FieldLimit+Field(i))
	}
	return l.Value
}

// full reports whether a limit allows no further node of the NodePool.
func (a *analysis) full(pool int) bool { return a.pools[pool].room == 0 }

// spareOnSpot returns the units that replicas from on-demand can use on spot: free units of its nodes and units of nodes that it may
// still launch, without those that pending pods use first.
func (a *analysis) spareOnSpot() int64 {
	size := max(a.smallestMove, 1)
	return max(a.freeUnitsOf(a.spot, size)+a.pools[a.spot].room-a.demand.Pending, 0)
}

// canReturn reports whether spot has space for at least one replica from on-demand. A return without space would surge, find its
// successor on demand, and start again for ever.
func (a *analysis) canReturn() bool {
	return a.returnable > 0 && a.spareOnSpot() >= max(a.smallestMove, 1)
}

// explainNoReturn names the limit that keeps replicas on demand.
func (t *tick) explainNoReturn() {
	if t.paired() && t.s.Spot.Phase == PreferSpot && t.returnable > 0 && t.known && t.spotFirst() && !t.canReturn() {
		t.because(Reason{Rule: RuleReturn, Pool: int8(t.spot), Name: t.pools[t.spot].full, Cause: CauseLimit, A: float64(t.returnable)})
	}
}
