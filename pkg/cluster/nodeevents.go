package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// ReasonYielded says that somebody else's edit of a nudged field won, and for how long the field is left alone.
const ReasonYielded = "OverrideYielded"

// TellGroup tells, on the NodePool, of an edit by somebody else that won over a nudge: who fights over a field finds out there. Each
// edit is told once. It is called by the tick alone and never waits.
func (c *Cluster) TellGroup(r *engine.GroupRecord) {
	if c.nodes == nil || !c.leading() {
		return
	}
	for _, reason := range r.Reasons {
		if reason.Rule != capacity.RuleForeignEdit || reason.Pool < 0 || int(reason.Pool) >= len(r.Group.Pools) {
			continue
		}
		pool := r.Group.Pools[reason.Pool].Name
		c.nodes.tellYield(pool, reason.Name, reason.Until, reason.Text(r.Group))
	}
}

func (n *nodes) tellYield(pool, field string, until time.Time, text string) {
	key := pool + " " + field
	if n.yielded[key].Equal(until) {
		return
	}
	n.yielded[key] = until
	n.mu.RLock()
	facts := n.pools[pool]
	n.mu.RUnlock()
	if facts != nil {
		n.cluster.events.Send(facts.reference(), corev1.EventTypeWarning, ReasonYielded, text)
	}
}
