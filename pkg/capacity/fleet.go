package capacity

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// This file contains the rules of groups whose nodes are found by their labels. Cluster Autoscaler, GKE or AKS adds these nodes, or they
// are a static fleet. gpuscaler writes no object of such a provisioner: it caps targets, and reports what a user can do.

// provisionTimeout is how long pods wait without a new node before it is assumed that the autoscaler of the cluster adds none. It is the
// default of Cluster Autoscaler's flag --max-node-provision-time, after which Cluster Autoscaler itself considers a scale-up as failed.
const provisionTimeout = 15 * time.Minute

// measureFleet computes by how many units the nodes may still grow. Without a maximum no node can be added. Only whole nodes of the
// smallest known size are counted.
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

// noNodeAdded reports whether pods wait, and provisionTimeout has passed since they began to wait, since the newest node was added, and
// since the time since (in Unix milliseconds).
func (t *tick) noNodeAdded(pool int, since int64) bool {
	from := max(since, t.s.ShortSince, statemachine.Stamp(t.pools[pool].newest))
	return t.s.ShortSince != 0 && t.at-from >= provisionTimeout.Milliseconds()
}

// fleetClosedBy does the same as closedBy for a group whose nodes are found by their labels.
func (t *tick) fleetClosedBy(pool int, since int64) explain.Cause {
	switch {
	case t.pools[pool].room < max(t.smallestWait, 1):
		return explain.CauseFleet
	case t.pools[pool].exhausted && t.noNodeAdded(pool, since):
		return explain.CauseNoNewNode
	}
	return explain.CauseNone
}

// checkFleet adds findings about the nodes, and if known demand starts soon, a finding with the commands that keep enough nodes.
func (t *tick) checkFleet() {
	v := &t.o.Pools[0]
	count := func(kind explain.FindingKind, n int) {
		if n > 0 {
			t.find(explain.Finding{Kind: kind, Pool: 0, Count: n})
		}
	}
	count(explain.FindElsewhere, v.Elsewhere)
	switch {
	case !v.Exists:
		t.find(explain.Finding{Kind: explain.FindMissing, Pool: 0})
		return
	case len(v.Nodes) == 0 && t.g.MaxNodes == 0 && t.g.MaxCapacity == 0:
		t.find(explain.Finding{Kind: explain.FindNoNodes, Pool: 0})
		return
	}
	without, unready := 0, 0
	for i := range v.Nodes {
		switch n := &v.Nodes[i]; {
		case n.GPUs == 0 && !(n.Stage == Launched && n.acceptsPods(t.now)):
			without++
		case n.Stage == Usable && !n.Ready:
			unready++
		}
	}
	count(explain.FindNoUnits, without)
	count(explain.FindNotReady, unready)
	if t.g.MaxNodes > 0 || t.g.MaxCapacity > 0 {
		t.adviseFleet()
	}
}

// adviseFleet adds a finding with the number of nodes that known demand needs, as soon as nodes must be kept for it.
func (t *tick) adviseFleet() {
	empty, inUse := t.knownDemandUntil()
	until := max(empty, inUse)
	if until == 0 {
		return
	}
	var units int64
	for i := range t.o.Ahead {
		if s := &t.o.Ahead[i]; s.GPUs > 0 && t.now.Add(t.g.LeadTime+freezeAhead).After(s.From) && t.now.Before(s.Until) {
			units = min(units+s.GPUs, nodepool.MaxUnits)
		}
	}
	size := t.smallestNode(0)
	t.find(explain.Finding{Kind: explain.FindKeepNodes, Pool: 0, Count: int((units + size - 1) / size), Until: statemachine.Instant(until)})
}

// Matches reports whether a node with the given labels belongs to the group's NodeSelector.
func (g *Group) Matches(labels map[string]string) bool {
	for key, value := range g.NodeSelector {
		if label, has := labels[key]; !has || label != value {
			return false
		}
	}
	return g.SelectsNodes()
}

// FirstMatch returns the first of the groups to which a node with the given labels belongs, or nil. A node belongs to one group.
func FirstMatch(groups []*Group, labels map[string]string) *Group {
	if i := slices.IndexFunc(groups, func(g *Group) bool { return g.Matches(labels) }); i >= 0 {
		return groups[i]
	}
	return nil
}
