package capacity

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
)

// MaxSchedules is the maximum number of schedules of a group.
const MaxSchedules = 16

// DefaultReturn is the default pace of the return to spot, in nodes per hour. At this pace, the return is limited only by cold starts and
// by the capacity of spot. On the recorded spot markets, a pace of 4 increases the cost by 0.10 to 0.32 times the oracle's cost and
// improves availability by at most 0.25 percentage points. A pace above 30 does not change the results. At any pace, several replicas move
// at once only after the previous batch was completely ready on spot.
const DefaultReturn = 30

// CapacityType is a value of the label karpenter.sh/capacity-type.
type CapacityType uint8

// Values of CapacityType.
const (
	Mixed CapacityType = iota // a NodePool that may launch several capacity types; gpuscaler only observes it
	Spot
	OnDemand
	Reserved
)

// Pool is one NodePool of a group.
type Pool struct {
	Name string
	Type CapacityType
}

// FallbackMode determines how a group falls back to on-demand.
type FallbackMode uint8

// Values of FallbackMode.
const (
	Soft FallbackMode = iota // by weight: on-demand first, spot if on-demand has no capacity
	Hard                     // by weight and limit: no new spot node is launched
)

// Limit is one entry of spec.limits.
type Limit struct {
	Resource string
	Value    int64
}

// Schedule contains the values that gpuscaler sets on NodePools of a group while a time window is open. If two open windows set the same
// field, the later schedule in the list applies.
type Schedule struct {
	Window              calendar.Window
	Pools               []int // indexes in Group.Pools; empty: all
	Limits              []Limit
	Weight              int32 // 1..100; 0: not set
	ConsolidateAfter    string
	ConsolidationPolicy string
}

// Group is a validated capacity group: NodePools that can replace one another, and the rules that the platform team enabled for them. A
// group does not change after NewGroup, so several goroutines can share a pointer to it.
type Group struct {
	Name string
	// the resource that is counted: nvidia.com/gpu, nvidia.com/mig-1g.10gb, amd.com/gpu, or DeviceClassPrefix and the name of a DeviceClass
	Resource string
	Pools    []Pool // at most MaxPools
	Advisory bool   // decisions are made and explained, and overrides are restored, but no field is overridden

	OnDemandBase       int64         // units of the resource that run on on-demand nodes before any spot is used
	SpotWaitTimeout    time.Duration // how long pods wait for spot before on-demand may grow; 0: pods do not wait, as with Karpenter alone
	Fallback           FallbackMode
	ReturnNodesPerHour int64 // maximum pace of the return to spot, in nodes per hour; 0: DefaultReturn

	ZeroLimit           bool // set a limit of 0 while no demand exists
	ConsolidationFreeze bool // prevent consolidation while known demand arrives
	StartupShield       bool // prevent the disruption of loading pods
	EmptyWholeNodes     bool // in a scale-in, first delete the pods whose deletion makes whole nodes empty
	Buffer              bool // write CapacityBuffers before known demand, in clusters that support CapacityBuffers
	// how long before the start of known demand its replicas are requested; 0: the longest lead time learned for a workload of the group
	LeadTime  time.Duration
	Schedules []Schedule // at most MaxSchedules

	// NodeSelector contains the labels of the group's nodes, for a group without NodePools. Cluster Autoscaler, GKE or AKS adds such nodes,
	// or they are a static fleet. Pools then has one entry for all of these nodes, and nothing is overridden.
	NodeSelector map[string]string `json:",omitempty"`
	// MaxNodes and MaxCapacity limit the nodes that NodeSelector selects: the number of nodes, and the sum of their units of the resource;
	// 0: not set. If neither is set, no node can be added.
	MaxNodes    int64 `json:",omitempty"`
	MaxCapacity int64 `json:",omitempty"`

	limits []string // resources whose limits the group may set; the first is Resource
}

// NewGroup returns a copy of g with its defaults set, for use by Decide. It returns an error if the group exceeds the bounds of this
// package. Package policy validates what users write and reports problems with file and line.
func NewGroup(g Group) (*Group, error) {
	if g.SelectsNodes() {
		g.Pools = []Pool{{Name: g.Selector(), Type: OnDemand}}
	}
	switch {
	case g.Resource == "":
		return nil, errors.New("a capacity group needs a resource")
	case len(g.Pools) == 0 || len(g.Pools) > nodepool.MaxPools:
		return nil, fmt.Errorf("a capacity group has 1 to %d NodePools", nodepool.MaxPools)
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
			return nil, fmt.Errorf("schedule %s: a NodePool index that the group does not have", s.Window.Name)
		}
	}
	if len(g.limits) > nodepool.MaxLimits {
		return nil, fmt.Errorf("a capacity group limits at most %d resources, including its own", nodepool.MaxLimits)
	}
	return &g, nil
}

// Orphan returns a group with which Release restores a NodePool that has a record annotation but no longer belongs to a group. The
// parameter text is the value of the annotation. Release must start with a zero State. If the annotation cannot be read, ok is false, and
// Release restores only the fields that gpuscaler's field manager owns.
func Orphan(pool, text string) (g *Group, ok bool) {
	name, resource := override.GroupOf(text)
	if resource == "" {
		return nil, false
	}
	g, err := NewGroup(Group{Name: name, Resource: resource, Pools: []Pool{{Name: pool}}})
	return g, err == nil
}

// SelectsNodes reports whether the group finds its nodes by their labels and has no NodePools.
func (g *Group) SelectsNodes() bool { return len(g.NodeSelector) > 0 }

// Selector returns NodeSelector as a label selector of kubectl: key=value,key=value, sorted by key.
func (g *Group) Selector() string {
	terms := make([]string, 0, len(g.NodeSelector))
	for _, key := range slices.Sorted(maps.Keys(g.NodeSelector)) {
		terms = append(terms, key+"="+g.NodeSelector[key])
	}
	return strings.Join(terms, ",")
}

// Matches reports whether the given labels of a node contain all labels of the group's NodeSelector.
func (g *Group) Matches(labels map[string]string) bool {
	for key, value := range g.NodeSelector {
		if label, has := labels[key]; !has || label != value {
			return false
		}
	}
	return g.SelectsNodes()
}

// FirstMatch returns the group to which a node with the given labels belongs: the first group whose NodeSelector matches, or nil.
func FirstMatch(groups []*Group, labels map[string]string) *Group {
	if i := slices.IndexFunc(groups, func(g *Group) bool { return g.Matches(labels) }); i >= 0 {
		return groups[i]
	}
	return nil
}

// DeviceClassPrefix begins the resource of a group that counts the devices of a DeviceClass, which pods claim by dynamic resource
// allocation: deviceclass.resource.kubernetes.io/gpu.nvidia.com. Karpenter's limits do not count such devices, so gpuscaler sets no limit
// for them.
const DeviceClassPrefix = "deviceclass.resource.kubernetes.io/"

// countsDevices reports whether the group counts the devices of a DeviceClass.
func (g *Group) countsDevices() bool { return strings.HasPrefix(g.Resource, DeviceClassPrefix) }

// Limits returns the resources whose limits the group may set. The first is the group's own resource.
func (g *Group) Limits() []string { return g.limits }

// alternative returns the capacity type that is used instead of spot: on-demand, or reserved in a group without an on-demand NodePool.
func (g *Group) alternative() CapacityType {
	if slices.ContainsFunc(g.Pools, func(p Pool) bool { return p.Type == OnDemand }) {
		return OnDemand
	}
	return Reserved
}

// String returns the value of the label karpenter.sh/capacity-type, and "mixed" for several types.
func (c CapacityType) String() string {
	return [...]string{"mixed", "spot", "on-demand", "reserved"}[min(c, Reserved)]
}

// Names returns the names of the group and its NodePools, for the texts of reasons and findings.
func (g *Group) Names() explain.Names {
	n := explain.Names{Group: g.Name, Resource: g.Resource, Devices: g.countsDevices()}
	if g.SelectsNodes() {
		n.Selector, n.MaxNodes = g.Selector(), g.MaxNodes
	}
	alternative := g.alternative()
	for _, p := range g.Pools {
		n.Pools = append(n.Pools, p.Name)
		switch p.Type {
		case Spot:
			n.Spot = append(n.Spot, p.Name)
		case alternative:
			n.Alternative = append(n.Alternative, p.Name)
		}
	}
	return n
}
