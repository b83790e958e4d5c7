package explain

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
)

// CappedBy describes the capacity group that caps a target because no NodePool of the group provides a node.
type CappedBy struct {
	Group string `json:"group"`
	// Cap is the highest target that the group permits: the number of replicas that run on nodes or fit on existing nodes, plus one.
	Cap       int32        `json:"cap"`
	Resource  string       `json:"resource"`
	Until     time.Time    `json:"until,omitzero"` // time of the next attempt without the cap
	NodePools []ClosedPool `json:"nodePools"`
}

// ClosedPool contains the reason why one NodePool of the group provides no node.
type ClosedPool struct {
	NodePool string `json:"nodePool,omitempty"` // "" for a group that selects nodes by their labels
	Selector string `json:"nodeSelector,omitempty"`
	// Cause is "limit", "launches refused", "not ready", "reservation full", "maximum" (maxNodes or maxCapacity), "no new node",
	// or "infeasible" (reported in the status of a CapacityBuffer).
	Cause     string   `json:"cause"`
	Limited   string   `json:"limited,omitempty"` // the resource of a limit, or the field of a maximum
	Limit     *float64 `json:"limit,omitempty"`   // absent if there is no limit or maximum
	Used      *float64 `json:"used,omitempty"`    // amount of the resource Limited on the nodes of the NodePool
	LimitOf   string   `json:"limitOf,omitempty"` // source of the limit: "owner", "schedule" or "gpuscaler"; "group" for a maximum
	Units     int64    `json:"units"`             // units of the group's resource on the nodes of the NodePool
	Unmanaged int64    `json:"unmanaged"`         // units in use by pods without a policy of the group
	Refused   int      `json:"refusedLaunches,omitempty"`
}

// newCappedBy returns nil if no capacity group caps the target, or if the API server rejects pods (see Explanation.Rejection).
func newCappedBy(r *engine.Record) *CappedBy {
	c := r.Decision.CapCause
	if c == nil {
		return nil
	}
	out := &CappedBy{Group: c.Group, Cap: r.View.Advice.Cap, Resource: c.Resource, Until: c.Until}
	for i := range c.Pools {
		p := &c.Pools[i]
		closed := ClosedPool{NodePool: p.Name, Cause: p.Kind.String(), Limited: p.Limited, Units: p.Units, Unmanaged: p.Unmanaged,
			Refused: p.Refused}
		if c.Selector != "" {
			closed.NodePool, closed.Selector = "", c.Selector
		}
		if p.Limited != "" {
			closed.Limit, closed.Used, closed.LimitOf = &p.Limit, &p.Used, limitOwner(c.Selector != "", p)
		}
		out.NodePools = append(out.NodePools, closed)
	}
	return out
}

// limitOwner returns the value of ClosedPool.LimitOf. It is "gpuscaler" for an override that gpuscaler set and may no longer change.
func limitOwner(fleet bool, p *capcause.Pool) string {
	switch {
	case fleet:
		return "group"
	case p.Scheduled:
		return "schedule"
	case p.Left:
		return "gpuscaler"
	}
	return "owner"
}
