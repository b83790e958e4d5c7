package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
)

// GroupRecord is the newest decision of a capacity group with its inputs. It shares no memory with the engine.
type GroupRecord struct {
	Group     *capacity.Group
	At        time.Time // time of the decision; zero: no decision so far
	Since     time.Time // when the current phase began
	Phase     statemachine.Phase
	Demand    capacity.Demand
	Reasons   []explain.Reason
	Findings  []explain.Finding
	Overrides []override.Current // the overrides on the NodePools of the group
	Actions   []capacity.Action  // the actions of the tick; set only in the history
	Plan      []capacity.Action  // the actions that would be applied if the group were not in advisory mode
	Pools     []PoolUse          // in the order of Group.Pools
	Workloads []GroupWorkload
	CapCause  *capcause.Cause // why targets are capped; nil if no target is capped, or if the only reason is that the API server rejects pods
	Err       string          // why the last tick made no decision for the group; empty if it made one
}

// Use is a sum over nodes: their number, their GPUs (or units of the group's resource) and their price.
type Use struct {
	Nodes, Coming  int // Coming is the number of nodes that were requested or launched but are not usable
	GPUs, Used     int64
	Hourly, Unused float64 // price per hour of all nodes, and the part of it for units that no pod uses; 0 if prices are unknown
}

// Idle returns the number of GPUs that no pod uses.
func (u Use) Idle() int64 { return max(u.GPUs-u.Used, 0) }

// PoolUse is the sum over the nodes of one NodePool, by capacity type. A NodePool can have nodes of several capacity types.
type PoolUse struct {
	Name          string
	Exists, Ready bool
	Use           [capacity.Reserved + 1]Use // index: capacity.CapacityType
}

// GroupWorkload is the demand of one workload of a group, with the advice of the group for it.
type GroupWorkload struct {
	Key             string
	Uncapped, Extra int32
	Known, Paused   bool
	Advice          Advice
}

// Use returns the sum over the nodes of all NodePools, by capacity type.
func (r *GroupRecord) Use() (all [capacity.Reserved + 1]Use) {
	for i := range r.Pools {
		for kind, u := range r.Pools[i].Use {
			a := &all[kind]
			a.Nodes, a.Coming, a.GPUs, a.Used = a.Nodes+u.Nodes, a.Coming+u.Coming, a.GPUs+u.GPUs, a.Used+u.Used
			a.Hourly, a.Unused = a.Hourly+u.Hourly, a.Unused+u.Unused
		}
	}
	return all
}

// Groups returns the names of the capacity groups, in the order of the PlatformConfig.
func (b *DecisionStore) Groups() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	names := make([]string, len(b.groups))
	for i, s := range b.groups {
		names[i] = s.name
	}
	return names
}

// Group returns a copy of a group's record; ok is false for an unknown group. If At is zero, no decision was made so far.
func (b *DecisionStore) Group(name string) (r GroupRecord, ok bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.groups {
		if s.name == name {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.copied(), true
		}
	}
	return r, false
}

// GroupHistory returns the changes of a group between two times, oldest first.
func (b *DecisionStore) GroupHistory(name string, from, to time.Time) []GroupRecord {
	var out []GroupRecord
	for _, e := range b.groupHistory.Between(name, from, to) {
		out = append(out, e.Value)
	}
	return out
}

func (b *DecisionStore) adoptGroups(groups []*groupTick) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.groups = nil
	for _, g := range groups {
		b.groups = append(b.groups, g.entry)
	}
}

// groupEntry contains the newest record of a group.
type groupEntry struct {
	name string

	mu     sync.Mutex
	record GroupRecord
	rules  uint32 // bit i is set if the rule i has a reason in the last decision
}

func newGroupEntry(g *capacity.Group) *groupEntry {
	return &groupEntry{name: g.Name, record: GroupRecord{Group: g}}
}

func (s *groupEntry) fail(now time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Err = err.Error()
}

// update stores the decision of a tick and reuses the memory of the previous record. isChange is true for the first decision, and for the
// first decision after a tick that made none. It is also true if the phase, a NodePool or the set of rules with a reason changed.
func (s *groupEntry) update(g *groupTick, now time.Time) (change GroupRecord, isChange bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, d := &s.record, &g.decision
	rules := rulesOf(d.Reasons)
	isChange = r.At.IsZero() || r.Err != "" || rules != s.rules || d.Phase != r.Phase || changes(d.Actions)
	if r.At.IsZero() || d.Phase != r.Phase {
		r.Since = now
	}
	r.Group, r.At, r.Phase, r.Demand, r.Err, s.rules = g.group, now, d.Phase, d.Demand, "", rules
	r.Reasons, r.Findings = append(r.Reasons[:0], d.Reasons...), append(r.Findings[:0], d.Findings...)
	r.Plan, r.Overrides = append(r.Plan[:0], d.Plan...), g.state.Overrides(r.Overrides[:0])
	r.CapCause = g.cap.cause
	r.Pools, r.Workloads = r.Pools[:0], r.Workloads[:0]
	for i := range g.observation.Pools {
		r.Pools = append(r.Pools, useOf(g.group.Pools[i].Name, &g.observation.Pools[i]))
	}
	for i := range g.observation.Workloads {
		w := &g.observation.Workloads[i]
		r.Workloads = append(r.Workloads, GroupWorkload{w.Key, w.Uncapped, w.Extra, w.Known, w.Paused, adviceOf(d.Advice[i], g.cap.cause)})
	}
	if isChange {
		change = s.copied()
		change.Actions = append(change.Actions, d.Actions...)
	}
	return change, isChange
}

func (s *groupEntry) copied() GroupRecord {
	r := s.record
	r.Reasons, r.Findings = append([]explain.Reason(nil), r.Reasons...), append([]explain.Finding(nil), r.Findings...)
	r.Plan, r.Overrides = append([]capacity.Action(nil), r.Plan...), append([]override.Current(nil), r.Overrides...)
	r.Pools, r.Workloads = append([]PoolUse(nil), r.Pools...), append([]GroupWorkload(nil), r.Workloads...)
	return r
}

func rulesOf(reasons []explain.Reason) (rules uint32) {
	for _, r := range reasons {
		rules |= 1 << r.Rule
	}
	return rules
}

// changes reports whether an action changes the spec of a NodePool. It ignores actions that change only annotations.
func changes(actions []capacity.Action) bool {
	for _, a := range actions {
		if p, ok := a.(capacity.NodePoolPatch); ok && len(p.Changes) > 0 {
			return true
		}
	}
	return false
}

func useOf(name string, v *capacity.PoolView) PoolUse {
	out := PoolUse{Name: name, Exists: v.Exists, Ready: v.Ready}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		u := &out.Use[min(n.Type, capacity.Reserved)]
		if n.Stage != capacity.Usable {
			u.Coming++
			continue
		}
		u.Nodes++
		u.GPUs, u.Used, u.Hourly = u.GPUs+n.GPUs, u.Used+n.Used, u.Hourly+n.Hourly
		if n.GPUs > 0 {
			u.Unused += n.Hourly * float64(max(n.GPUs-n.Used, 0)) / float64(n.GPUs)
		}
	}
	return out
}

// closedKinds maps the reason why a NodePool can launch no node, as package explain names it, to the Kind of the cause in a workload's
// decision.
var closedKinds = map[explain.Cause]capcause.Kind{
	explain.CauseLimit: capcause.Limit, explain.CauseRefused: capcause.Refused, explain.CauseNotReady: capcause.NotReady,
	explain.CauseReservation: capcause.Reservation, explain.CauseFleet: capcause.Maximum, explain.CauseNoNewNode: capcause.NoNewNode,
	explain.CauseInfeasible: capcause.Infeasible,
}

// groupCap contains the reason why a capacity group caps the targets of its workloads.
type groupCap struct {
	cause *capcause.Cause // nil: the decision caps no target, or only because the API server rejects pods

	// the inputs from which cause was computed
	group  *capacity.Group
	closed []capacity.Closed
	until  time.Time
}

// explainCap updates g.cap after a decision of the group. If no input changed, it keeps the cause and allocates no memory.
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
