package engine

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
)

// closedKinds maps each reason why a NodePool can launch no node to the Kind of the reason in a decision.
var closedKinds = map[explain.Cause]capcause.Kind{
	explain.CauseLimit: capcause.Limit, explain.CauseRefused: capcause.Refused, explain.CauseNotReady: capcause.NotReady,
	explain.CauseReservation: capcause.Reservation, explain.CauseFleet: capcause.Maximum, explain.CauseNoNewNode: capcause.NoNewNode,
	explain.CauseInfeasible: capcause.Infeasible,
}

// groupCap contains the reason why the last decision of a group caps targets.
type groupCap struct {
	cause *capcause.Cause // nil: the decision caps no target, or caps targets only because the API server rejects pods

	// the inputs from which cause was computed
	group  *capacity.Group
	closed []capacity.Closed
	until  time.Time
}

// explainCap updates g.cap after a decision of the group. If no input has changed, it keeps the cause and allocates no memory.
func (g *groupTick) explainCap() {
	c, d := &g.cap, &g.decision
	if c.group == g.group && c.until.Equal(d.Until) && slices.Equal(c.closed, d.Closed) {
		return
	}
	c.group, c.closed, c.until, c.cause = g.group, append(c.closed[:0], d.Closed...), d.Until, nil
	if len(d.Closed) > 0 {
		c.cause = newCapCause(g.group, d)
	}
}

func newCapCause(g *capacity.Group, d *capacity.Decision) *capcause.Cause {
	out := &capcause.Cause{Group: g.Name, Resource: g.Resource, Selector: g.Selector(), Until: d.Until,
		Pools: make([]capcause.Pool, len(d.Closed))}
	for i := range d.Closed {
		c := &d.Closed[i]
		out.Pools[i] = capcause.Pool{Name: g.Pools[c.Pool].Name, Kind: closedKinds[c.Cause], Limited: c.Limited, Limit: c.Limit,
			Used: c.Used, Scheduled: c.Scheduled, Left: c.Left, Waiting: c.Waiting, Units: c.Units, Unmanaged: c.Unmanaged, Refused: c.Refused}
	}
	return out
}
