package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

type fixedGroups []engine.GroupRecord

func (g fixedGroups) Groups() (names []string) {
	for i := range g {
		names = append(names, g[i].Group.Name)
	}
	return names
}

func (g fixedGroups) Group(name string) (engine.GroupRecord, bool) {
	for i := range g {
		if g[i].Group.Name == name {
			return g[i], true
		}
	}
	return engine.GroupRecord{}, false
}

func TestGroupMetrics(t *testing.T) {
	chat := engine.GroupRecord{
		Group: &capacity.Group{Name: "chat", Pools: []capacity.Pool{
			{Name: "l40s-spot", Type: capacity.Spot}, {Name: "l40s-od", Type: capacity.OnDemand},
		}},
		At: time.Unix(1700000000, 0), Phase: statemachine.Returning,
		Demand:  capacity.Demand{Policies: 6, UnmanagedPods: 2, Pending: 1},
		Reasons: []explain.Reason{{Rule: explain.RuleDemand, A: 6}, {Rule: explain.RuleConstrained, A: 3}},
		Findings: []explain.Finding{
			{Kind: explain.FindContested, Pool: 1}, {Kind: explain.FindForeignAnnotation, Pool: -1},
			{Kind: explain.FindForeignAnnotation, Pool: -1},
		},
		Overrides: []override.Current{{Pool: "l40s-od", Field: nodepool.FieldWeight, Rule: explain.RuleFallback}},
		Pools:     []engine.PoolUse{{Name: "l40s-spot"}, {Name: "l40s-od"}},
	}
	chat.Pools[0].Use[capacity.Spot] = engine.Use{Nodes: 2, Coming: 1, GPUs: 8, Used: 6, Hourly: 4, Unused: 1}
	undecided := engine.GroupRecord{Group: &capacity.Group{Name: "without a decision"}}
	disabled := func() []string { return []string{"batch"} }
	all := []string{"constrained_replicas", "finding", "hourly_cost_unused", "override", "phase"}
	for i := range all {
		all[i] = "gpuscaler_group_" + all[i]
	}
	err := testutil.CollectAndCompare(NewGroupCollector(fixedGroups{chat, undecided}, disabled), strings.NewReader(`
# HELP gpuscaler_group_constrained_replicas Replicas for which currently no NodePool of the group provides nodes.
# TYPE gpuscaler_group_constrained_replicas gauge
gpuscaler_group_constrained_replicas{group="chat"} 3
# HELP gpuscaler_group_finding Problems that only a user can fix, by kind.
# TYPE gpuscaler_group_finding gauge
gpuscaler_group_finding{finding="contested",group="chat",nodepool="l40s-od"} 1
gpuscaler_group_finding{finding="disabled",group="batch",nodepool=""} 1
gpuscaler_group_finding{finding="foreign-annotation",group="chat",nodepool=""} 2
# HELP gpuscaler_group_hourly_cost_unused Hourly price of the units that no pod uses; absent while a price is unknown.
# TYPE gpuscaler_group_hourly_cost_unused gauge
gpuscaler_group_hourly_cost_unused{capacity_type="spot",group="chat",nodepool="l40s-spot"} 1
# HELP gpuscaler_group_override 1 for each field of a NodePool that gpuscaler overrides, by the rule that overrides it.
# TYPE gpuscaler_group_override gauge
gpuscaler_group_override{field="weight",group="chat",nodepool="l40s-od",rule="spot fallback"} 1
# HELP gpuscaler_group_phase 1 for the phase of the group: prefer spot, fallback, probing or returning.
# TYPE gpuscaler_group_phase gauge
gpuscaler_group_phase{group="chat",phase="returning"} 1
`), all...)
	if err != nil {
		t.Error(err)
	}
}

// Alerts select findings by the label finding, so the label must have a different value, which is not empty, for each kind of finding.
func TestEveryKindOfFindingHasItsOwnLabel(t *testing.T) {
	seen := map[string]bool{}
	for kind := explain.FindMissing; kind <= explain.FindNoRoom; kind++ {
		label := findingLabels[kind]
		if label == "" || seen[label] {
			t.Errorf("finding %d has the label %q", kind, label)
		}
		seen[label] = true
	}
}
