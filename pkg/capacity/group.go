package capacity

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// MaxPools, MaxLimits and MaxSchedules bound a group, so that State is a plain value of fixed size.
const (
	MaxPools     = 4 // NodePools of a group
	MaxLimits    = 4 // resources whose limits a group may set, its own included
	MaxSchedules = 16
)

// DefaultReturn is the pace of the way back to spot, in nodes an hour, where none is given: no slower than cold starts and what spot
// has room for allow. On the recorded spot markets 4 costs 0.10 to 0.32 more of an omniscient plan's cost for at most 0.25 points of
// availability, and beyond 30 nothing changes. A batch of more than one still needs one before it that arrived whole.
const DefaultReturn = 30

// CapacityType is what a provider sells a node as: the values of karpenter.sh/capacity-type.
type CapacityType uint8

const (
	Mixed CapacityType = iota // a pool that may launch several types; it is observed and reported, never nudged for spot
	Spot
	OnDemand
	Reserved
)

// Pool is one NodePool of a group.
type Pool struct {
	Name string
	Type CapacityType
}

// FallbackMode says how a group turns away from spot.
type FallbackMode uint8

const (
	Soft FallbackMode = iota // by weight: on-demand first, spot as the last resort
	Hard                     // by weight and limit: no new spot node at all
)

// Limit is one entry of spec.limits.
type Limit struct {
	Resource string
	Value    int64
}

// Schedule is what a group's NodePools look like within a window of time. Where two open windows set one field, the later in the
// list wins.
type Schedule struct {
	Window              calendar.Window
	Pools               []int // indexes in Group.Pools; empty: all
	Limits              []Limit
	Weight              int32 // 1..100; 0: not set
	ConsolidateAfter    string
	ConsolidationPolicy string
}

// Group is a capacity group, compiled: NodePools that stand for one another, and what the platform team allowed on them. It is
// shared by pointer and never written after NewGroup.
type Group struct {
	Name     string
	Resource string // what is counted: nvidia.com/gpu, nvidia.com/mig-1g.10gb, amd.com/gpu
	Pools    []Pool // at most MaxPools
	Advisory bool   // decide, explain and put back; nudge nothing

	OnDemandBase       int64         // units of the resource that are on demand before any spot
	SpotWaitTimeout    time.Duration // how long pods wait for spot before on-demand may grow; 0: Karpenter's own fallback
	Fallback           FallbackMode
	ReturnNodesPerHour int64 // the pace of the way back to spot; 0: DefaultReturn

	ZeroLimit           bool // a limit of 0 while nobody wants anything
	ConsolidationFreeze bool // no consolidation while known demand arrives
	StartupShield       bool // pods that load are not disrupted
	EmptyWholeNodes     bool // scale-in picks the pods that free whole nodes
	Buffer              bool // a CapacityBuffer ahead of known demand, where served
	LeadTime            time.Duration
	Schedules           []Schedule // at most MaxSchedules

	limits []string // resources whose limits are looked at: Resource first
}

// NewGroup checks a group against the bounds of this package and makes it ready for Decide. What people may write is checked by
// package policy, with better words; an error here is a group that Decide could not hold.
func NewGroup(g Group) (*Group, error) {
	switch {
	case g.Resource == "":
		return nil, errors.New("a capacity group counts a resource")
	case len(g.Pools) == 0 || len(g.Pools) > MaxPools:
		return nil, fmt.Errorf("a capacity group has 1 to %d NodePools", MaxPools)
	case len(g.Schedules) > MaxSchedules:
		return nil, fmt.Errorf("a capacity group has at most %d schedules", MaxSchedules)
	}
	if g.ReturnNodesPerHour <= 0 {
		g.ReturnNodesPerHour = DefaultReturn
	}
	g.limits = []string{g.Resource}
	for _, s := range g.Schedules {
		for _, l := range s.Limits {
			if !slices.Contains(g.limits, l.Resource) {
				g.limits = append(g.limits, l.Resource)
			}
		}
		if slices.ContainsFunc(s.Pools, func(i int) bool { return i < 0 || i >= len(g.Pools) }) {
			return nil, fmt.Errorf("schedule %s names a pool that the group does not have", s.Window.Name)
		}
	}
	if len(g.limits) > MaxLimits {
		return nil, fmt.Errorf("a capacity group limits at most %d resources, its own included", MaxLimits)
	}
	return &g, nil
}

// Limits lists the resources whose limits the group may set; its own comes first.
func (g *Group) Limits() []string { return g.limits }

// only returns the index of the pool of a type, or -1 where there is none or more than one.
func (g *Group) only(kind CapacityType) int {
	found := -1
	for i := range g.Pools {
		if g.Pools[i].Type != kind {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}

// other returns the on-demand side of the pair whose spot pool is given.
func (g *Group) other(spot int8) int8 {
	if i := g.only(OnDemand); i >= 0 {
		return int8(i)
	}
	if i := g.only(Reserved); i >= 0 {
		return int8(i)
	}
	return spot
}
