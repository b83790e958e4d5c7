package capacity

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// side contains the NodePools of one capacity type of a group, with the sums of their facts. A group has two sides between which replicas
// can move: the spot NodePools and the on-demand NodePools. A side may have one NodePool for each zone or instance family. Only NodePools
// that exist and launch one capacity type belong to a side.
type side struct {
	pools   [nodepool.MaxPools]int8 // indexes in Group.Pools, in the order of the group
	count   int
	units   int64     // units of nodes that exist and are not being deleted
	largest int64     // units of the largest node
	newest  time.Time // creation of the newest launched node
	room    int64     // units that limits still allow, see sideRoom; MaxUnits: any number
}

// all returns the indexes of the NodePools of the side.
func (s *side) all() []int8 { return s.pools[:s.count] }

// has reports whether a NodePool belongs to the side.
func (s *side) has(pool int) bool {
	return pool >= 0 && pool < nodepool.MaxPools && slices.Contains(s.all(), int8(pool))
}

// first returns the index of the side's first NodePool. A Reason that concerns the whole side contains this index.
func (s *side) first() int8 { return s.pools[0] }

// typeOf returns the capacity type of a NodePool: the type for which the group lists it, or OnDemand if it is listed as reserved and may
// also launch on-demand nodes (In [reserved, on-demand]). Karpenter uses the reservation of such a NodePool first and then launches
// on-demand nodes in it, so it replaces spot as an on-demand NodePool does.
func (a *analysis) typeOf(pool int) CapacityType {
	if kind := a.g.Pools[pool].Type; kind != Reserved || !a.o.Pools[pool].LaunchesOnDemand {
		return kind
	}
	return OnDemand
}

// alternative returns the capacity type that replaces spot: on-demand, or reserved in a group without an on-demand NodePool.
func (a *analysis) alternative() CapacityType {
	for i := range a.views() {
		if a.typeOf(i) == OnDemand {
			return OnDemand
		}
	}
	return Reserved
}

// findPair finds the spot side and the on-demand side of the group, between which replicas can move. If the group has no on-demand
// NodePool, the NodePools of reserved capacity are used instead. Both sides stay empty if one of them has no NodePool.
func (a *analysis) findPair() {
	spot, onDemand := a.sideOf(Spot), a.sideOf(a.alternative())
	if spot.count > 0 && onDemand.count > 0 {
		a.spot, a.onDemand = spot, onDemand
	}
}

// sideOf returns the side of a capacity type, without its room.
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

// isReserved reports whether a NodePool is one of only reserved capacity beside the spot and the on-demand NodePools of the group.
func (a *analysis) isReserved(pool int) bool {
	return pool >= 0 && pool < a.views() && a.typeOf(pool) == Reserved && !a.onDemand.has(pool)
}

// isPrepaid reports whether a node is paid for in advance: a node of a NodePool of only reserved capacity beside on-demand, or a reserved
// node of a mixed NodePool.
func (a *analysis) isPrepaid(pool int, n *Node) bool { return a.isReserved(pool) || n.Type == Reserved }

// sideRoom returns by how many units the NodePools of a side may still grow together. The room of a NodePool that gpuscaler cannot rely on
// is not counted, unless gpuscaler can rely on no NodePool of the side.
func (t *tick) sideRoom(s *side) (room int64) {
	reliable := slices.ContainsFunc(s.all(), func(i int8) bool { return t.unreliable(int(i)) == explain.PoolReliable })
	for _, i := range s.all() {
		if !reliable || t.unreliable(int(i)) == explain.PoolReliable {
			room = min(room+t.pools[i].room, nodepool.MaxUnits)
		}
	}
	return room
}

// unreliable returns why gpuscaler does not rely on the room of a NodePool.
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

// mayLaunch reports whether Karpenter may launch a node in a NodePool: it is ready, and its limits allow a node.
func (a *analysis) mayLaunch(pool int) bool { return a.o.Pools[pool].Ready && a.pools[pool].room > 0 }

// precedes reports whether Karpenter uses NodePool i before NodePool j without an override of their weights. If the weights are equal,
// Karpenter uses the NodePool whose name is later in the alphabet.
func (t *tick) precedes(i, j int) bool {
	a, _ := t.fields.Original(i, nodepool.FieldWeight).Number()
	b, _ := t.fields.Original(j, nodepool.FieldWeight).Number()
	return a > b || a == b && t.g.Pools[i].Name > t.g.Pools[j].Name
}

// growing returns the on-demand NodePool that provides the missing units of the on-demand base: the first one in Karpenter's order that may
// launch nodes and whose launches were not refused recently. If there is none, it returns the first NodePool in Karpenter's order.
func (t *tick) growing() int {
	best, open := -1, false
	for _, p := range t.onDemand.all() {
		i := int(p)
		may := t.mayLaunch(i) && !t.refusedSince(i, 0)
		if best < 0 || may && !open || may == open && t.precedes(i, best) {
			best, open = i, may
		}
	}
	return best
}

// reportUnreliable adds a finding for each NodePool that provides no room, in a group with several NodePools of its capacity type.
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
