package compile

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var poolTypes = map[string]capacity.CapacityType{"spot": capacity.Spot, "on-demand": capacity.OnDemand, "reserved": capacity.Reserved}

// nodes compiles a capacity group for package capacity. In mode hold or advisory, the compiled group is advisory: gpuscaler restores the
// values that it has overridden, so that Karpenter uses the values of the NodePools' owner.
func (c *platformCompiler) nodes(group *policy.Group, p *decode.Path) {
	if group.Resource == "" || len(group.NodePools)+len(group.NodeSelector) == 0 {
		return // the missing fields were reported as problems
	}
	out := capacity.Group{
		Name: group.Name, Resource: group.Resource, Advisory: group.Mode != scaling.Auto,
		OnDemandBase: group.OnDemandBaseCapacity, SpotWaitTimeout: time.Duration(group.SpotWaitTimeout),
		ReturnNodesPerHour: group.ReturnNodesPerHour,
		ZeroLimit:          group.ZeroLimit, ConsolidationFreeze: group.ConsolidationFreeze == nil ||
			*group.ConsolidationFreeze, StartupShield: group.StartupShield,
		NodeSelector: group.NodeSelector, MaxNodes: group.MaxNodes, MaxCapacity: group.MaxCapacity,
		EmptyWholeNodes: group.EmptyWholeNodes, Buffer: group.Buffer, LeadTime: time.Duration(group.LeadTime),
	}
	if group.Fallback == "hard" {
		out.Fallback = capacity.Hard
	}
	for _, kind := range slices.Sorted(maps.Keys(group.NodePools)) {
		for _, name := range group.NodePools[kind] {
			out.Pools = append(out.Pools, capacity.Pool{Name: name, Type: poolTypes[kind]})
		}
	}
	for i := range group.Windows {
		out.Schedules = append(out.Schedules, scheduleOf(&group.Windows[i], out.Pools))
	}
	if len(out.Pools) == 0 && !out.SelectsNodes() {
		return // the missing NodePools were reported as problems
	}
	compiled, err := capacity.NewGroup(out)
	if err != nil {
		c.Reject(p, "exceeds the limits of a group: "+err.Error(), "two groups")
		return
	}
	c.out.NodeGroups = append(c.out.NodeGroups, compiled)
}

// scheduleOf converts a window of a group to a capacity.Schedule, in which NodePools are identified by their index in pools.
func scheduleOf(w *policy.GroupWindow, pools []capacity.Pool) capacity.Schedule {
	out := capacity.Schedule{Window: w.Window, ConsolidateAfter: w.Disruption.ConsolidateAfter,
		ConsolidationPolicy: w.Disruption.ConsolidationPolicy}
	if w.Weight != nil {
		out.Weight = *w.Weight
	}
	for _, kind := range w.NodePools {
		for i := range pools {
			if pools[i].Type == poolTypes[kind] {
				out.Pools = append(out.Pools, i)
			}
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(w.Limits)) {
		out.Limits = append(out.Limits, capacity.Limit{Resource: resource, Value: w.Limits[resource]})
	}
	return out
}
