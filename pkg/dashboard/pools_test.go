package dashboard

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
)

// fallbackRecord returns the record of a group in fallback: launches of spot nodes fail, and one of the NodePools does not exist.
func fallbackRecord() *engine.GroupRecord {
	spot := engine.PoolUse{Name: "l40s-spot", Exists: true, Ready: true}
	demand := engine.PoolUse{Name: "l40s-ondemand", Exists: true, Ready: true}
	spot.Use[capacity.Spot] = engine.Use{Nodes: 2, Coming: 1, GPUs: 8, Used: 6}
	demand.Use[capacity.OnDemand] = engine.Use{Nodes: 4, GPUs: 16, Used: 16}
	demand.Use[capacity.Reserved] = engine.Use{Nodes: 1, GPUs: 4, Used: 5} // Used also counts terminating pods, so it can exceed GPUs
	return &engine.GroupRecord{
		Group: &capacity.Group{Name: "chat"}, At: nine, Phase: statemachine.Fallback,
		Pools: []engine.PoolUse{spot, demand, {Name: "typo"}},
		Overrides: []override.Current{
			{Pool: "l40s-ondemand", Field: nodepool.FieldWeight, Value: "60", Original: "10", Rule: explain.RuleFallback},
			{Pool: "l40s-spot", Field: nodepool.FieldBudgets, Value: `[{"nodes":"0"}]`, Rule: explain.RuleConsolidationFreeze,
				Until: nine.Add(19 * time.Minute)},
		},
	}
}

func TestNodePoolsOfAGroup(t *testing.T) {
	got := poolsOf(fallbackRecord())
	want := []NodePool{
		{Name: "l40s-spot", Group: "chat", Phase: "fallback", CapacityType: "spot", Nodes: 2, Starting: 1, Busy: 6, Idle: 2,
			Overrides: []Override{
				{Field: "disruption.budgets", From: "(absent)", To: `[{"nodes":"0"}]`, Reason: "consolidation freeze",
					Until: nine.Add(19 * time.Minute)}}},
		{Name: "l40s-ondemand", Group: "chat", Phase: "fallback", CapacityType: "on-demand, reserved", Nodes: 5, Busy: 21, Idle: 0,
			Overrides: []Override{
				{Field: "weight", From: "10", To: "60", Reason: "spot fallback"}}},
		{Name: "typo", Group: "chat", Phase: "fallback", Unknown: true, Problem: "the NodePool does not exist"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// If a limit of a NodePool caps targets, the row of the NodePool must contain the limit. If a limit of a spot NodePool keeps replicas on
// on-demand nodes, the row of the spot NodePool must contain this limit.
func TestRowOfANodePoolSaysWhyItProvidesNoNode(t *testing.T) {
	r := fallbackRecord()
	r.Group = &capacity.Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []capacity.Pool{{Name: "l40s-spot", Type: capacity.Spot},
		{Name: "l40s-ondemand", Type: capacity.OnDemand}, {Name: "typo"}}}
	r.CapCause = &capcause.Cause{Group: "chat", Resource: "nvidia.com/gpu", Pools: []capcause.Pool{{Name: "l40s-ondemand",
		Kind: capcause.Limit, Limited: "nvidia.com/gpu", Limit: 16, Used: 16, Units: 16, Unmanaged: 4}}}
	r.Reasons = []explain.Reason{{Rule: explain.RuleReturn, Cause: explain.CauseLimit, Pool: 0, Name: "nvidia.com/gpu", A: 4}}
	for i, want := range []string{
		"NodePool l40s-spot has reached limits[nvidia.com/gpu]: replicas with 4 GPUs stay on NodePool l40s-ondemand",
		"NodePool l40s-ondemand is at its owner's limit of 16 GPUs, 4 of them used by pods that no policy of the group manages",
		"the NodePool does not exist",
	} {
		if got := poolsOf(r)[i].Problem; !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The page shows the capacity type of a NodePool even if the NodePool has no node yet.
func TestNodePoolWithoutNodesHasItsDeclaredCapacityType(t *testing.T) {
	r := &engine.GroupRecord{At: nine, Group: &capacity.Group{Name: "chat", Pools: []capacity.Pool{{Name: "l40s-spot", Type: capacity.Spot}}},
		Pools: []engine.PoolUse{{Name: "l40s-spot", Exists: true, Ready: true}}}
	if got := poolsOf(r)[0]; got.CapacityType != "spot" || got.Nodes != 0 {
		t.Errorf("%+v", got)
	}
}

func TestUndecidedGroupHasNoNumbers(t *testing.T) {
	for err, want := range map[string]string{"": "not decided yet", "NodePools cannot be listed": "NodePools cannot be listed"} {
		got := poolsOf(&engine.GroupRecord{Group: &capacity.Group{Name: "chat"}, Err: err})
		if len(got) != 1 || !got[0].Unknown || got[0].Problem != want {
			t.Errorf("%q: %+v", err, got)
		}
	}
	stale := fallbackRecord()
	stale.Err = "the snapshot is too old"
	if got := poolsOf(stale)[0]; got.Problem != "as of the last decision: the snapshot is too old" || got.Busy != 6 {
		t.Errorf("%+v", got)
	}
}

func TestUnknownPriceIsNotZero(t *testing.T) {
	r := fallbackRecord()
	r.Pools[0].Use[capacity.Spot].Hourly, r.Pools[0].Use[capacity.Spot].Unused = 8, 2
	r.Pools[1].Use[capacity.OnDemand].Hourly = 32
	c := Cost{Currency: "USD"}
	c.add(r)
	want := Cost{Currency: "USD", PerHour: 40, Idle: 2, Unpriced: 4,
		Causes: []Cause{{Name: "not used by any pod: l40s-spot", GPUs: 2, PerHour: 2}}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want %+v: the reserved node has no price", c, want)
	}
}

type poolPanels struct{}

func (poolPanels) NodePools() []NodePool { return poolsOf(fallbackRecord()) }
func (poolPanels) Cost() (Cost, bool)    { return Cost{}, false }

func TestPageShowsOverridesWithTheirEnd(t *testing.T) {
	l := clusterAtNine(3, Options{Panels: poolPanels{}})
	body := ask(l.page, "/").Body.String()
	for _, want := range []string{
		"the NodePool does not exist", "2, 1 starting", "on-demand, reserved", `<span class="rule">weight</span> 10 → 60, spot fallback`,
		"consolidation freeze, until", "09:19:00 UTC", `<td class="num nil" data-name="Nodes and GPUs" colspan="3">unknown</td>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if body := ask(newTestCluster(3, Options{}).page, "/").Body.String(); strings.Contains(body, "NodePools") {
		t.Error("a cluster without capacity groups has an empty table")
	}
}

// The page must show the idle cost by cause, with the names of the workloads. It must show GPUs without a price and GPUs without a
// measurement separately.
func TestPageShowsIdleCost(t *testing.T) {
	cost := Cost{Currency: "USD", PerHour: 12, Idle: 3, Unmeasured: 2, Unpriced: 4, At: nine.Add(-90 * time.Second), Causes: []Cause{
		{Name: "allocated and idle: schedule floor", Workloads: []string{"a/a", "b/b", "c/c", "d/d", "e/e"}, GPUs: 2.44, PerHour: 3},
		{Name: "not used by any pod: unknown instance type", GPUs: 4},
	}}
	known := true
	l := clusterAtNine(3, Options{Cost: func() (Cost, bool) { return cost, known }})
	body := ask(l.page, "/").Body.String()
	for _, want := range []string{
		"<dt>Per hour</dt><dd>$12.00</dd>", "<dt>Idle per hour</dt><dd>$3.00</dd>", "<dt>Idle share</dt><dd>25%</dd>",
		"<dt>Not measured, per hour</dt><dd>$2.00</dd>",
		"<dt>GPUs without a known price (not included)</dt><dd>4</dd>", `Cost of GPUs <span class="nil">as of <time`,
		`<th scope="row">allocated and idle: schedule floor</th><td class="why" data-name="Workloads">a/a, b/b, c/c and 2 more</td>` +
			`<td class="num" data-name="GPUs">2.4</td><td class="num" data-name="Per hour">$3.00</td>`,
		`<th scope="row">not used by any pod: unknown instance type</th><td class="why" data-name="Workloads">none</td>` +
			`<td class="num" data-name="GPUs">4</td><td class="num" data-name="Per hour">no price</td>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	known = false
	if body := ask(l.page, "/").Body.String(); strings.Contains(body, "Cost of GPUs") {
		t.Error("an unknown cost is shown")
	}
}
