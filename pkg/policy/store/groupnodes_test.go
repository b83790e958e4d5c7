package store_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

const chatGroup = `capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodePools: {spot: l40s-spot, on-demand: l40s-ondemand},
  onDemandBaseCapacity: 2, spotWaitTimeout: 2m, fallback: hard, zeroLimit: true, leadTime: 4m, schedules: [
  {name: office, timezone: Europe/Berlin, start: "0 8 * * 1-5", end: "0 20 * * 1-5", nodePools: [spot], weight: 90,
   limits: {nvidia.com/gpu: 8, cpu: 64}, disruption: {consolidateAfter: Never}}]}]`

func TestACapacityGroupIsCompiled(t *testing.T) {
	f := newFolder(t)
	f.write("p.yaml", platform(chatGroup))
	policies := store.New(store.Options{})
	if report := policies.Load(f.path); len(report.Problems) > 0 {
		t.Fatalf("%s", policy.Render(report.Problems))
	}
	groups := policies.Groups()
	if len(groups) != 1 {
		t.Fatalf("%d groups", len(groups))
	}
	g := groups[0]
	pools := []capacity.Pool{{Name: "l40s-ondemand", Type: capacity.OnDemand}, {Name: "l40s-spot", Type: capacity.Spot}}
	if !slices.Equal(g.Pools, pools) || g.OnDemandBase != 2 || g.SpotWaitTimeout != 2*time.Minute || g.Fallback != capacity.Hard ||
		!g.ZeroLimit || !g.ConsolidationFreeze || g.Advisory || g.ReturnNodesPerHour != capacity.DefaultReturn || g.LeadTime != 4*time.Minute {
		t.Errorf("group %+v", g)
	}
	w := g.Schedules[0]
	limits := []capacity.Limit{{Resource: "cpu", Value: 64}, {Resource: "nvidia.com/gpu", Value: 8}}
	if w.Window.Name != "office" || !slices.Equal(w.Pools, []int{1}) || w.Weight != 90 || w.ConsolidateAfter != "Never" ||
		!slices.Equal(w.Limits, limits) {
		t.Errorf("window %+v", w)
	}
	if again := policies.Groups(); again[0] != g {
		t.Error("a group changed its pointer without a new platform, so its state would be lost")
	}

	f.write("p.yaml", platform("mode: hold, "+chatGroup))
	policies.Load(f.path)
	if groups := policies.Groups(); !groups[0].Advisory {
		t.Error("with mode hold a group is not advisory")
	}
	f.write("p.yaml", platform("mode: auto"))
	policies.Load(f.path)
	if gone := policies.Groups(); len(gone) != 0 {
		t.Errorf("%d groups after the platform was replaced", len(gone))
	}
}

// A group can have a list of NodePools for each capacity type. A list with one name must have the same effect as a single name.
func TestAGroupWithSeveralNodePoolsPerCapacityTypeIsCompiled(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	load := func(pools string) *capacity.Group {
		t.Helper()
		f.write("p.yaml", platform(strings.Replace(chatGroup, "{spot: l40s-spot, on-demand: l40s-ondemand}", pools, 1)))
		if report := policies.Load(f.path); len(report.Problems) > 0 {
			t.Fatalf("%s", policy.Render(report.Problems))
		}
		return policies.Groups()[0]
	}
	g := load("{spot: [l40s-spot-b, l40s-spot-a], on-demand: l40s-ondemand, reserved: [l40s-block]}")
	want := []capacity.Pool{{Name: "l40s-ondemand", Type: capacity.OnDemand}, {Name: "l40s-block", Type: capacity.Reserved},
		{Name: "l40s-spot-b", Type: capacity.Spot}, {Name: "l40s-spot-a", Type: capacity.Spot}}
	if !slices.Equal(g.Pools, want) {
		t.Errorf("NodePools %v, want %v", g.Pools, want)
	}
	if w := g.Schedules[0]; !slices.Equal(w.Pools, []int{2, 3}) {
		t.Errorf("the schedule of spot applies to %v, want both spot NodePools", w.Pools)
	}
	one, list := load("{spot: l40s-spot, on-demand: l40s-ondemand}"), load("{spot: [l40s-spot], on-demand: [l40s-ondemand]}")
	if !slices.Equal(one.Pools, list.Pools) {
		t.Errorf("NodePools %v and %v", one.Pools, list.Pools)
	}
}

func TestAGroupWithTooManyNodePoolsIsRefused(t *testing.T) {
	f := newFolder(t)
	f.write("p.yaml", platform(strings.Replace(chatGroup, "spot: l40s-spot,", "spot: [a, b, c, d, e, f, g, h],", 1)))
	report := store.New(store.Options{}).Load(f.path)
	if text := policy.Render(report.Problems); !strings.Contains(text, "has 1 to 8 NodePools") || !strings.Contains(text, "two groups") {
		t.Errorf("problems:\n%s", text)
	}
}

func TestAGroupWithTooManyLimitedResourcesIsRefused(t *testing.T) {
	f := newFolder(t)
	f.write("p.yaml", platform(strings.Replace(chatGroup, "cpu: 64", "cpu: 64, memory: 1, ephemeral-storage: 1, pods: 1", 1)))
	report := store.New(store.Options{}).Load(f.path)
	if text := policy.Render(report.Problems); !strings.Contains(text, "at most 4 resources") || !strings.Contains(text, "capacityGroups[0]") {
		t.Errorf("problems:\n%s", text)
	}
}

func TestHourlyReturnsTheOverrides(t *testing.T) {
	p := platformOf(t, `prices: {region: eu-west-1, overrides: [
  {instanceType: p5.48xlarge, capacityType: on-demand, region: us-east-1, hourly: 98},
  {instanceType: p5.48xlarge, capacityType: on-demand, region: eu-west-1, hourly: 110},
  {instanceType: g6e.xlarge, capacityType: spot, hourly: 0.8}]}`)
	for _, c := range []struct {
		instance, kind string
		want           float64
	}{{"p5.48xlarge", "on-demand", 110}, {"g6e.xlarge", "spot", 0.8}, {"g6e.xlarge", "on-demand", 0}} {
		if got := p.Hourly(c.instance, c.kind); got != c.want {
			t.Errorf("%s %s costs %v, want %v", c.kind, c.instance, got, c.want)
		}
	}
}

func TestTheLeadTimeOfAGroupAppliesToItsPolicies(t *testing.T) {
	f := newFolder(t)
	f.write("p.yaml", platform(chatGroup))
	f.write("chat.yaml", simple("a", 4)+`  capacityGroup: chat
  schedules:
  - {name: office, timezone: UTC, start: "0 8 * * 1-5", end: "0 20 * * 1-5", minReplicas: 2}
  - {name: noon, timezone: UTC, start: "0 12 * * *", end: "0 13 * * *", minReplicas: 3, leadTime: 1m}
  - {name: night, timezone: UTC, start: "0 23 * * *", end: "0 6 * * *", maxReplicas: 1}
`)
	policies := store.New(store.Options{})
	leads := func() (all []time.Duration) {
		t.Helper()
		if report := policies.Load(f.path); len(report.Problems) > 0 {
			t.Fatalf("%s", policy.Render(report.Problems))
		}
		for _, s := range policies.Current()[0].Policy.Schedules {
			all = append(all, s.Lead)
		}
		return all
	}
	if got, want := leads(), []time.Duration{4 * time.Minute, time.Minute, 0}; !slices.Equal(got, want) {
		t.Errorf("lead times %v, want %v", got, want)
	}
	f.write("p.yaml", platform(strings.Replace(chatGroup, "leadTime: 4m", "leadTime: 9m", 1)))
	if got, want := leads(), []time.Duration{9 * time.Minute, time.Minute, 0}; !slices.Equal(got, want) {
		t.Errorf("after an edit of the group: %v, want %v", got, want)
	}
}

func TestTheDefaultOfReturnNodesPerHourIsInTheReference(t *testing.T) {
	f := newFolder(t)
	f.write("p.yaml", platform("capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodePools: {spot: l40s-spot, "+
		"on-demand: l40s-ondemand}}]"))
	policies := store.New(store.Options{})
	policies.Load(f.path)
	text, err := os.ReadFile("../../../config/schema/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	row := fmt.Sprintf("| `returnNodesPerHour` | how many nodes per hour return to spot | %d |", policies.Groups()[0].ReturnNodesPerHour)
	if !strings.Contains(string(text), row) {
		t.Errorf("the reference has no %q", row)
	}
}
