package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
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

func TestAGroupAsMetrics(t *testing.T) {
	chat := engine.GroupRecord{
		Group: &capacity.Group{Name: "chat", Pools: []capacity.Pool{{Name: "l40s-spot", Type: capacity.Spot}, {Name: "l40s-od", Type: capacity.OnDemand}}},
		At:    time.Unix(1700000000, 0), Phase: capacity.Returning,
		Demand:   capacity.Demand{Policies: 6, Others: 2, Pending: 1},
		Reasons:  []capacity.Reason{{Rule: capacity.RuleDemand, A: 6}, {Rule: capacity.RuleConstrained, A: 3}},
		Findings: []capacity.Finding{{Kind: capacity.FindContested, Pool: 1}, {Kind: capacity.FindForeignMark, Pool: -1}, {Kind: capacity.FindForeignMark, Pool: -1}},
		Nudges:   []capacity.Nudge{{Pool: "l40s-od", Field: capacity.FieldWeight, Rule: capacity.RuleFallback}},
		Pools:    []engine.PoolUse{{Name: "l40s-spot"}, {Name: "l40s-od"}},
	}
	chat.Pools[0].Use[capacity.Spot] = engine.Use{Nodes: 2, Coming: 1, GPUs: 8, Used: 6, Hourly: 4, Unused: 1}
	never := engine.GroupRecord{Group: &capacity.Group{Name: "never decided"}}
	err := testutil.CollectAndCompare(NewGroupCollector(fixedGroups{chat, never}), strings.NewReader(`
# HELP gpuscaler_group_constrained_replicas Replicas that no NodePool of the group brings at present.
# TYPE gpuscaler_group_constrained_replicas gauge
gpuscaler_group_constrained_replicas{group="chat"} 3
# HELP gpuscaler_group_finding Findings that only a person can mend, by what was found.
# TYPE gpuscaler_group_finding gauge
gpuscaler_group_finding{finding="contested",group="chat",nodepool="l40s-od"} 1
gpuscaler_group_finding{finding="foreign-mark",group="chat",nodepool=""} 2
# HELP gpuscaler_group_hourly_cost_unused Price an hour of the units that no pod holds; absent where prices are unknown.
# TYPE gpuscaler_group_hourly_cost_unused gauge
gpuscaler_group_hourly_cost_unused{capacity_type="spot",group="chat",nodepool="l40s-spot"} 1
# HELP gpuscaler_group_override 1 for each field of a NodePool that is held, by the rule that holds it.
# TYPE gpuscaler_group_override gauge
gpuscaler_group_override{field="weight",group="chat",nodepool="l40s-od",rule="spot fallback"} 1
# HELP gpuscaler_group_phase 1 for the phase of the group: prefer spot, fallback, probing or returning.
# TYPE gpuscaler_group_phase gauge
gpuscaler_group_phase{group="chat",phase="returning"} 1
`), "gpuscaler_group_constrained_replicas", "gpuscaler_group_finding", "gpuscaler_group_hourly_cost_unused", "gpuscaler_group_override", "gpuscaler_group_phase")
	if err != nil {
		t.Error(err)
	}
}

// A kind without a label would be an empty one, which no alert matches.
func TestEveryFindingHasALabelOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for kind := capacity.FindMissing; kind <= capacity.FindClaims; kind++ {
		label := findingLabels[kind]
		if label == "" || seen[label] {
			t.Errorf("finding %d has the label %q", kind, label)
		}
		seen[label] = true
	}
}
