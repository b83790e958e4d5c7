package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// GroupReader returns the newest record of each capacity group. The engine's decision store implements GroupReader.
type GroupReader interface {
	Groups() []string
	Group(name string) (engine.GroupRecord, bool)
}

// GroupCollector exports the records of capacity groups as Prometheus metrics.
type GroupCollector struct {
	decisions GroupReader
	disabled  func() []string
}

// NewGroupCollector returns a collector that reads the records from b. The function disabled returns the names of the capacity groups for
// which gpuscaler does not decide, because it does not read their NodePools or Nodes.
func NewGroupCollector(b GroupReader, disabled func() []string) *GroupCollector {
	return &GroupCollector{decisions: b, disabled: disabled}
}

// DisabledFinding is the value of the label finding for a group for which gpuscaler does not decide.
const DisabledFinding = "disabled"

// PermanentLimitFinding is the value of the label finding for a limit that gpuscaler overrides. The finding is no problem while gpuscaler
// runs.
const PermanentLimitFinding = "permanent-limit"

var (
	perGroup = []string{"group"}
	perPool  = []string{"group", "nodepool", "capacity_type"}

	groupUnits         = describe("group_units", "Units of the group's resource (GPUs) on the nodes of a NodePool.", perPool)
	groupUnitsUsed     = describe("group_units_used", "Units that are allocated to pods.", perPool)
	groupNodes         = describe("group_nodes", "Nodes of a NodePool.", perPool)
	groupNodesStarting = describe("group_nodes_starting",
		"NodeClaims of a NodePool that are requested or launched and not usable yet.", perPool)
	groupCost       = describe("group_hourly_cost", "Hourly price of the nodes of a NodePool; absent while a price is unknown.", perPool)
	groupCostUnused = describe("group_hourly_cost_unused",
		"Hourly price of the units that no pod uses; absent while a price is unknown.", perPool)
	groupDemand = describe("group_demand_units",
		"Requested units by origin: policies, others (pods without a policy), pending (pods without a node).", append(perGroup[:1:1], "of"))
	groupPhase = describe("group_phase",
		"1 for the phase of the group: prefer spot, fallback, probing or returning.",
		append(perGroup[:1:1], "phase"))
	groupConstrained = describe("group_constrained_replicas",
		"Replicas for which currently no NodePool of the group provides nodes.", perGroup)
	groupOverride = describe("group_override",
		"1 for each field of a NodePool that gpuscaler overrides, by the rule that overrides it.",
		append(perGroup[:1:1], "nodepool", "field", "rule"))
	groupFinding   = describe("group_finding", "Problems that only a user can fix, by kind.", append(perGroup[:1:1], "nodepool", "finding"))
	groupDecidedAt = describe("group_decision_timestamp_seconds", "Time of the group's decision, Unix time.", perGroup)
	groupFailing   = describe("group_failing", "1 while the decision for the group failed in the last tick.", perGroup)
)

// findingLabels contains the value of the label finding for each kind of finding. The values must not change, because alerts of users
// contain them.
var findingLabels = map[explain.FindingKind]string{
	explain.FindMissing: "missing", explain.FindNotConsented: "not-handed-over", explain.FindUnsupported: "unsupported",
	explain.FindUnreadable: "unreadable", explain.FindContested: "contested", explain.FindMixed: "mixed", explain.FindWeights: "weights",
	explain.FindNever: "never-consolidated", explain.FindZeroBudget: "zero-budget", explain.FindDoNotDisrupt: "do-not-disrupt",
	explain.FindBlockingPods: "blocking-pods", explain.FindBuffered: "buffered", explain.FindUnmovable: "unmovable",
	explain.FindForeignAnnotation: "foreign-annotation", explain.FindPermanentLimit: PermanentLimitFinding,
	explain.FindRecord: "unreadable-record", explain.FindConsentWithdrawn: "consent-withdrawn", explain.FindClaims: "resource-claims",
	explain.FindPendingClaims: "pending-claims", explain.FindNoRoom: "no-room",
	explain.FindNewerRecord: "newer-record", explain.FindNoNodes: "no-nodes", explain.FindElsewhere: "nodes-elsewhere",
	explain.FindNoUnits: "no-units", explain.FindNotReady: "nodes-not-ready", explain.FindKeepNodes: "keep-nodes",
	explain.FindHeld: "held-pods", explain.FindGangSize: "gang-size",
	explain.FindStaticShort: "static-short", explain.FindStaticIdle: "static-idle",
}

// Describe sends the description of every metric.
func (c *GroupCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		groupUnits, groupUnitsUsed, groupNodes, groupNodesStarting, groupCost, groupCostUnused, groupDemand,
		groupPhase, groupConstrained, groupOverride, groupFinding, groupDecidedAt, groupFailing,
	} {
		out <- d
	}
}

// Collect sends the metrics of the newest record of each group that has a decision, and a finding for each disabled group.
func (c *GroupCollector) Collect(out chan<- prometheus.Metric) {
	for _, name := range c.disabled() {
		out <- prometheus.MustNewConstMetric(groupFinding, prometheus.GaugeValue, 1, name, "", DisabledFinding)
	}
	for _, name := range c.decisions.Groups() {
		r, ok := c.decisions.Group(name)
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
		send(groupDemand, float64(r.Demand.UnmanagedPods), "others")
		send(groupDemand, float64(r.Demand.Pending), "pending")
		send(groupConstrained, constrained(r.Reasons))
		for i := range r.Pools {
			sendPool(&r.Pools[i], r.Group.Pools[i].Type, send)
		}
		for i := range r.Overrides {
			n := &r.Overrides[i]
			send(groupOverride, 1, n.Pool, n.Name(), n.Rule.String())
		}
		sendFindings(&r, send)
	}
}

// sendPool sends the metrics of one NodePool by capacity type. own is the capacity type that the PlatformConfig declares for the NodePool.
// The series of this type exist even if the NodePool has no nodes. The series of another capacity type exist only if the NodePool has nodes
// of this type.
func sendPool(p *engine.PoolUse, own capacity.CapacityType, send func(d *prometheus.Desc, v float64, more ...string)) {
	for i := range p.Use {
		u, kind := &p.Use[i], capacity.CapacityType(i)
		if *u == (engine.Use{}) && kind != own {
			continue
		}
		send(groupUnits, float64(u.GPUs), p.Name, kind.String())
		send(groupUnitsUsed, float64(u.Used), p.Name, kind.String())
		send(groupNodes, float64(u.Nodes), p.Name, kind.String())
		send(groupNodesStarting, float64(u.Coming), p.Name, kind.String())
		if u.Hourly > 0 {
			send(groupCost, u.Hourly, p.Name, kind.String())
			send(groupCostUnused, u.Unused, p.Name, kind.String())
		}
	}
}

// constrained returns the number of replicas that are pending because no NodePool can provide nodes for them.
func constrained(reasons []explain.Reason) (replicas float64) {
	for _, r := range reasons {
		if r.Rule == explain.RuleConstrained {
			replicas += r.A
		}
	}
	return replicas
}

// sendFindings sends the number of findings by NodePool and kind. Findings of the same kind on the same NodePool are one series.
func sendFindings(r *engine.GroupRecord, send func(d *prometheus.Desc, v float64, more ...string)) {
	type series struct{ pool, finding string }
	counts := map[series]float64{}
	for _, f := range r.Findings {
		pool := ""
		if f.Pool >= 0 && int(f.Pool) < len(r.Group.Pools) {
			pool = r.Group.Pools[f.Pool].Name
		}
		counts[series{pool, findingLabels[f.Kind]}]++
	}
	for s, n := range counts {
		send(groupFinding, n, s.pool, s.finding)
	}
}
