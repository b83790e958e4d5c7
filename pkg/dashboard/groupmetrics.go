package dashboard

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// GroupBoard is the engine's read side for capacity groups.
type GroupBoard interface {
	Groups() []string
	Group(name string) (engine.GroupRecord, bool)
}

// GroupCollector exports what the board shows of capacity groups, read at scrape time.
type GroupCollector struct{ board GroupBoard }

// NewGroupCollector returns a collector over a board.
func NewGroupCollector(b GroupBoard) *GroupCollector { return &GroupCollector{board: b} }

var (
	perGroup = []string{"group"}
	perPool  = []string{"group", "nodepool", "capacity_type"}

	groupUnits       = describe("group_units", "Units of the group's resource (GPUs) on the nodes of a NodePool.", perPool)
	groupUnitsUsed   = describe("group_units_used", "Units that pods hold.", perPool)
	groupNodes       = describe("group_nodes", "Nodes of a NodePool.", perPool)
	groupNodesComing = describe("group_nodes_starting", "NodeClaims of a NodePool that are asked for or launched and not usable yet.", perPool)
	groupCost        = describe("group_hourly_cost", "Price of a NodePool's nodes an hour; absent where prices are unknown.", perPool)
	groupCostUnused  = describe("group_hourly_cost_unused", "Price an hour of the units that no pod holds; absent where prices are unknown.", perPool)
	groupDemand      = describe("group_demand_units", "Units asked for, by whom: policies, others (pods without a policy), pending (those without a node).", append(perGroup[:1:1], "of"))
	groupPhase       = describe("group_phase", "1 for the phase of the group: prefer spot, fallback, probing or returning.", append(perGroup[:1:1], "phase"))
	groupConstrained = describe("group_constrained_replicas", "Replicas that no NodePool of the group brings at present.", perGroup)
	groupNudge       = describe("group_override", "1 for each field of a NodePool that is held, by the rule that holds it.", append(perGroup[:1:1], "nodepool", "field", "rule"))
	groupFinding     = describe("group_finding", "Findings that only a person can mend, by what was found.", append(perGroup[:1:1], "nodepool", "finding"))
	groupDecidedAt   = describe("group_decision_timestamp_seconds", "When the group was decided, Unix time.", perGroup)
	groupFailing     = describe("group_failing", "1 while a group could not be decided in the last tick.", perGroup)
)

// findingLabels name each kind of finding in one word that no text may change.
var findingLabels = map[capacity.FindingKind]string{
	capacity.FindMissing: "missing", capacity.FindNotConsented: "not-handed-over", capacity.FindUnsupported: "unsupported",
	capacity.FindUnreadable: "unreadable", capacity.FindContested: "contested", capacity.FindMixed: "mixed", capacity.FindWeights: "weights",
	capacity.FindNever: "never-consolidated", capacity.FindZeroBudget: "zero-budget", capacity.FindUndisrupted: "do-not-disrupt",
	capacity.FindSquatters: "squatters", capacity.FindBuffered: "buffered", capacity.FindUnmovable: "unmovable",
	capacity.FindForeignMark: "foreign-mark", capacity.FindOutlives: "limit-outlives-us", capacity.FindRecord: "unreadable-record",
	capacity.FindWithdrawn: "consent-withdrawn", capacity.FindClaims: "resource-claims",
}

// Describe sends every metric's description.
func (c *GroupCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{groupUnits, groupUnitsUsed, groupNodes, groupNodesComing, groupCost, groupCostUnused, groupDemand,
		groupPhase, groupConstrained, groupNudge, groupFinding, groupDecidedAt, groupFailing} {
		out <- d
	}
}

// Collect sends the newest outcome of every group that was decided.
func (c *GroupCollector) Collect(out chan<- prometheus.Metric) {
	for _, name := range c.board.Groups() {
		r, ok := c.board.Group(name)
		if !ok || r.At.IsZero() {
			continue
		}
		send := func(d *prometheus.Desc, v float64, more ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, more...)...)
		}
		send(groupDecidedAt, float64(r.At.UnixMilli())/1000)
		send(groupFailing, number(r.Err != ""))
		send(groupPhase, 1, r.Phase.String())
		send(groupDemand, float64(r.Demand.Policies), "policies")
		send(groupDemand, float64(r.Demand.Others), "others")
		send(groupDemand, float64(r.Demand.Pending), "pending")
		send(groupConstrained, constrained(r.Reasons))
		for i := range r.Pools {
			sendPool(&r.Pools[i], r.Group.Pools[i].Type, send)
		}
		for i := range r.Nudges {
			n := &r.Nudges[i]
			send(groupNudge, 1, n.Pool, n.Name(), n.Rule.String())
		}
		sendFindings(&r, send)
	}
}

// sendPool tells of the capacity type that a NodePool is for, also while it has no node, and of others that it has nodes of.
func sendPool(p *engine.PoolUse, own capacity.CapacityType, send func(d *prometheus.Desc, v float64, more ...string)) {
	for i := range p.Use {
		u, kind := &p.Use[i], capacity.CapacityType(i)
		if *u == (engine.Use{}) && kind != own {
			continue
		}
		send(groupUnits, float64(u.GPUs), p.Name, kind.String())
		send(groupUnitsUsed, float64(u.Used), p.Name, kind.String())
		send(groupNodes, float64(u.Nodes), p.Name, kind.String())
		send(groupNodesComing, float64(u.Coming), p.Name, kind.String())
		if u.Hourly > 0 {
			send(groupCost, u.Hourly, p.Name, kind.String())
			send(groupCostUnused, u.Unused, p.Name, kind.String())
		}
	}
}

// constrained is how many replicas wait for what no NodePool brings.
func constrained(reasons []capacity.Reason) (replicas float64) {
	for _, r := range reasons {
		if r.Rule == capacity.RuleConstrained {
			replicas += r.A
		}
	}
	return replicas
}

// sendFindings counts: two pods with foreign marks are one series.
func sendFindings(r *engine.GroupRecord, send func(d *prometheus.Desc, v float64, more ...string)) {
	type found struct{ pool, what string }
	counts := map[found]float64{}
	for _, f := range r.Findings {
		pool := ""
		if f.Pool >= 0 && int(f.Pool) < len(r.Group.Pools) {
			pool = r.Group.Pools[f.Pool].Name
		}
		counts[found{pool, findingLabels[f.Kind]}]++
	}
	for f, n := range counts {
		send(groupFinding, n, f.pool, f.what)
	}
}
