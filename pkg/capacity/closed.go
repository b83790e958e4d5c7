package capacity

import (
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// closedGroup is the reason why no NodePool of a group provides a node. It contains the index of the first NodePool that exists, and the
// cause of this NodePool.
type closedGroup struct {
	pool     int8
	cause    explain.Cause // CauseNone: some NodePool may provide a node
	resource string        // resource of a CauseLimit
}

// allClosed returns why no NodePool of the group provides a node. Limits that gpuscaler itself sets are ignored, because gpuscaler removes
// them when they are no longer needed.
func (t *tick) allClosed() (closed closedGroup) {
	closed.pool = -1
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue // the nodes of a NodePool that does not exist are not known
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

// closedBy returns why a NodePool provides no node for the smallest waiting pod. It returns CauseNone if the NodePool may provide one.
// During a target cap, every recent refused launch is evidence. Without a cap, a refused launch is evidence only if it is newer than the
// end of the last cap, so that the full target is tried once after each cap. The same applies to a time in which a capacity reservation
// launched no node.
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

// refusedSince reports whether a launch of the NodePool was refused for lack of capacity after the time since (in Unix milliseconds),
// within RefusalWindow, and after its newest node was created.
func (a *analysis) refusedSince(pool int, since int64) bool {
	return a.refusals(pool, since) > 0
}

// refusals counts the launches for which refusedSince returns true.
func (a *analysis) refusals(pool int, since int64) (n int) {
	from := max(since, statemachine.Stamp(a.pools[pool].newest), a.at-statemachine.RefusalWindow.Milliseconds())
	for i := range a.o.Pools[pool].Failures {
		if f := &a.o.Pools[pool].Failures[i]; f.Capacity && a.within(f.At, from) {
			n++
		}
	}
	return n
}

// Closed is why a NodePool provides no node while the targets of its group are capped. Units and Unmanaged are set for every Cause. The
// other numbers are 0 if they do not belong to the Cause.
type Closed struct {
	Pool  int8 // index in Group.Pools
	Cause explain.Cause
	// Limited depends on Cause. For CauseLimit it is the resource whose limit allows the fewest nodes. For CauseFleet it is maxNodes or
	// maxCapacity, or "" if neither is set.
	Limited     string
	Limit, Used float64 // the limit of Limited, and how much of Limited the NodePool has
	Scheduled   bool    // the limit is that of an open schedule of the group, not of the NodePool's owner
	Units       int64   // units of the group's resource on the nodes of the NodePool
	Unmanaged   int64   // units that pods without a policy of the group use on these nodes
	Refused     int     // for CauseRefused: launches that were refused for lack of capacity
}

// listClosed lists why each NodePool provides no node, and sets the time of the next attempt.
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
			c.Limited, c.Limit, c.Used, c.Scheduled = f.full, f.limit, f.used, f.scheduled
		case explain.CauseFleet:
			t.describeMaximum(&c)
		case explain.CauseRefused:
			c.Refused = t.refusals(i, 0)
		}
		t.d.Closed = append(t.d.Closed, c)
	}
}

// unmanagedOn returns the units that pods without a policy of the group use on the nodes of a NodePool.
func (a *analysis) unmanagedOn(pool int) (units int64) {
	for i := range a.o.UnmanagedPods {
		if p := &a.o.UnmanagedPods[i]; p.Pool == pool && a.node(p) != nil {
			units += nodepool.Units(p.GPUs)
		}
	}
	return units
}

// describeMaximum sets the fields about the maximum of a group whose nodes are found by their labels.
func (t *tick) describeMaximum(c *Closed) {
	switch c.Limited = t.pools[c.Pool].full; c.Limited {
	case "maxNodes":
		c.Limit, c.Used = float64(t.g.MaxNodes), float64(len(t.o.Pools[c.Pool].Nodes))
	case "maxCapacity":
		c.Limit, c.Used = float64(t.g.MaxCapacity), float64(c.Units)
	}
}
