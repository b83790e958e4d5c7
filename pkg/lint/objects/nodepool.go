package objects

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Checks of NodePools and capacity groups.
const (
	CannotReachZero = "CannotReachZero"
	NoFallback      = "CannotFallBack"
	NodePoolMissing = "NodePoolMissing"
	NoTaint         = "GPUPoolWithoutTaint"
	UnreadablePool  = "NodePoolUnreadable"
	SpotIsNotFirst  = "SpotIsNotFirst"
)

// CapacityTypeLabel is Karpenter's label for the capacity type of a node.
const CapacityTypeLabel = "karpenter.sh/capacity-type"

// NodePoolFacts contains the facts about a NodePool that the checks need.
type NodePoolFacts struct {
	Name         string
	Requirements []corev1.NodeSelectorRequirement // requirements of the node template
	Taints       []corev1.Taint                   // taints of the node template
	Limits       []string                         // resources in spec.limits
	Resources    []string                         // resources of the NodePool's existing nodes; empty if there are none
	ClosedLimits bool                             // a limit is 0, and gpuscaler did not set it
	Weight       int64
	Replicas     int64 // spec.replicas of a NodePool with a fixed number of nodes; otherwise 0
	// NeverConsolidates is true if spec.disruption.consolidateAfter is Never.
	NeverConsolidates bool
	Budgets           []Budget
	// Unreadable is the reason why the NodePool cannot be decoded, together with the fix. It is empty if the NodePool was decoded. If it is
	// not empty, no other check of this NodePool is run.
	Unreadable string
	// Allows reports whether the NodePool may launch nodes of a capacity type.
	Allows func(capacityType string) bool
}

// Budget is an entry of spec.disruption.budgets.
type Budget struct {
	Nodes     string
	Scheduled bool // the budget has a schedule
	Reasons   []string
}

// NodePools returns findings about two problems: NodePools with GPUs whose nodes cannot scale to zero, and capacity groups that cannot fall
// back from spot to another capacity type. groups contains the names of the NodePools of each capacity group, by capacity type. If groups
// is empty and all NodePools with GPUs allow only spot, NodePools returns one finding about this.
func NodePools(pools []NodePoolFacts, groups map[string]map[string][]string) (found []ObjectFinding) {
	byName := map[string]*NodePoolFacts{}
	var gpuPools []*NodePoolFacts
	for i := range pools {
		p := &pools[i]
		byName[p.Name] = p
		if p.hasGPUs() {
			gpuPools = append(gpuPools, p)
		}
	}
	inGroup := map[string]bool{}
	for _, members := range groups {
		for _, names := range members {
			for _, name := range names {
				inGroup[name] = true
			}
		}
	}
	for name, p := range byName {
		if p.Unreadable != "" {
			found = append(found, p.finding(UnreadablePool, "gpuscaler cannot read the NodePool, so it does not change it: "+p.Unreadable,
				"correct the field that the message names; gpuscaler then uses the NodePool again"))
			continue
		}
		if inGroup[name] || p.hasGPUs() {
			found = append(found, p.cannotReachZero()...)
		}
	}
	for group, members := range groups {
		found = append(found, groupFindings(group, members, byName)...)
	}
	others := func(p *NodePoolFacts) bool { return p.Allows("on-demand") || p.Allows("reserved") }
	if len(groups) == 0 && len(gpuPools) > 0 && !slices.ContainsFunc(gpuPools, others) {
		found = append(found, gpuPools[0].finding(NoFallback,
			"every NodePool with GPUs allows only spot: pods wait while no spot capacity is available",
			`let one allow karpenter.sh/capacity-type "on-demand", with a lower weight`))
	}
	slices.SortFunc(found, func(a, b ObjectFinding) int { return strings.Compare(a.Object+a.Check+a.What, b.Object+b.Check+b.What) })
	return found
}

func (p *NodePoolFacts) finding(check, what, fix string) ObjectFinding {
	return newFinding("NodePool "+p.Name, check, what, fix)
}

// hasGPUs reports whether the nodes of a NodePool have GPUs. It uses the requirements, the limits and the existing nodes.
func (p *NodePoolFacts) hasGPUs() bool {
	gpu := func(name string) bool {
		return strings.Contains(name, "gpu") || strings.Contains(name, "nvidia.com/mig")
	}
	for i := range p.Requirements {
		r := &p.Requirements[i]
		if gpu(r.Key) && r.Operator != corev1.NodeSelectorOpDoesNotExist {
			return true
		}
		if r.Operator == corev1.NodeSelectorOpIn && namesInstances(r.Key) && len(r.Values) > 0 &&
			!slices.ContainsFunc(r.Values, func(v string) bool { return !acceleratedFamily(v) }) {
			return true
		}
	}
	return slices.ContainsFunc(p.Limits, gpu) || slices.ContainsFunc(p.Resources, gpu)
}

func namesInstances(key string) bool {
	return strings.HasSuffix(key, "/instance-category") || strings.HasSuffix(key, "/instance-family") ||
		key == corev1.LabelInstanceTypeStable
}

// acceleratedFamily reports whether an AWS instance type, family or category has GPUs, such as "g6e.xlarge", "p5", "gr6" or "g".
func acceleratedFamily(v string) bool {
	rest, g := strings.CutPrefix(v, "g")
	if g {
		rest = strings.TrimPrefix(rest, "r") // for example, gr6 is g6 with more memory
	} else if rest, g = strings.CutPrefix(v, "p"); !g {
		return false
	}
	return rest == "" || rest[0] >= '0' && rest[0] <= '9'
}

// cannotReachZero returns why nodes of the NodePool remain although no pod uses them.
func (p *NodePoolFacts) cannotReachZero() (found []ObjectFinding) {
	add := func(check, what, fix string) { found = append(found, p.finding(check, what, fix)) }
	if p.Replicas > 0 {
		add(CannotReachZero, fmt.Sprintf("spec.replicas keeps %d nodes whether pods use them or not", p.Replicas),
			"remove spec.replicas, or accept that they are paid for")
	}
	if p.NeverConsolidates {
		add(CannotReachZero, "consolidateAfter: Never: empty nodes stay",
			"set spec.disruption.consolidateAfter, such as 5m; a group's schedule can set Never for hours of the day")
	}
	for i, b := range p.Budgets {
		if (b.Nodes == "0" || b.Nodes == "0%") && !b.Scheduled && (len(b.Reasons) == 0 || slices.Contains(b.Reasons, "Empty")) {
			add(CannotReachZero, fmt.Sprintf("budget %d never allows a node to be removed: empty nodes stay", i),
				`let spec.disruption.budgets allow {nodes: "100%", reasons: [Empty]}, and remove this one or give it a schedule`)
		}
	}
	if !slices.ContainsFunc(p.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}) {
		add(NoTaint, "its nodes have no taint: pods without a GPU are scheduled on them and keep them",
			"add the taint nvidia.com/gpu:NoSchedule to spec.template.spec.taints (pods that request GPUs get a toleration from the "+
				"ExtendedResourceToleration admission plugin, or declare one)")
	}
	return found
}

// groupFindings returns the problems of one capacity group: a missing NodePool, a NodePool that cannot launch its capacity type, no
// fallback from spot, and weights in the wrong order. members contains the names of its NodePools by capacity type.
func groupFindings(group string, members map[string][]string, byName map[string]*NodePoolFacts) (found []ObjectFinding) {
	add := func(check, what, fix string) {
		found = append(found, newFinding("capacityGroup "+group, check, what, fix))
	}
	for capacityType, names := range members {
		for _, name := range names {
			p := byName[name]
			switch {
			case p == nil:
				add(NodePoolMissing, fmt.Sprintf("its %s NodePool %s does not exist", capacityType, name),
					"correct the name in the PlatformConfig, or create the NodePool")
			case p.Unreadable != "":
			case !p.Allows(capacityType):
				add(NoFallback, fmt.Sprintf("NodePool %s is the group's %s NodePool and does not allow that capacity type", name, capacityType),
					fmt.Sprintf("let its requirement %s contain %q", CapacityTypeLabel, capacityType))
			case p.ClosedLimits:
				add(NoFallback, fmt.Sprintf("NodePool %s has a limit of 0 that gpuscaler did not set: it launches no node", name),
					"remove the limit, or let gpuscaler override it with gpuscaler.io/nudge: limits")
			}
		}
	}
	if len(members["spot"]) > 0 && len(members["on-demand"]) == 0 && len(members["reserved"]) == 0 {
		add(NoFallback, "it has a spot NodePool and no other: pods wait while no spot capacity is available",
			"add an on-demand NodePool to the group")
	}
	for _, spotName := range members["spot"] {
		for _, onDemandName := range members["on-demand"] {
			spot, onDemand := byName[spotName], byName[onDemandName]
			if spot != nil && onDemand != nil && spot != onDemand && spot.Weight < onDemand.Weight {
				add(SpotIsNotFirst, fmt.Sprintf("NodePool %s (weight %d) has precedence over %s (weight %d): Karpenter never tries spot first",
					onDemandName, onDemand.Weight, spotName, spot.Weight),
					"give the spot NodePool the greater spec.weight, or let gpuscaler override it with gpuscaler.io/nudge: weight")
			}
		}
	}
	return found
}
