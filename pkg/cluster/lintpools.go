package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// What keeps NodePools from going to zero, or from standing in for one another. Each is stable.
const (
	NoZero     = "CannotReachZero"
	NoFallback = "CannotFallBack"
	NoSuchPool = "NodePoolMissing"
	NoTaint    = "GPUPoolWithoutTaint"
	SpotLast   = "SpotIsNotFirst"
)

// LintNodePools finds NodePools with GPUs that cannot reach zero, and groups that cannot fall back. groups holds the PlatformConfig's: the
// NodePools of each by capacity type; without any, fallback is judged over all GPU pools together.
func LintNodePools(pools []*unstructured.Unstructured, groups map[string]map[string]string) (found []ObjectFinding) {
	byName := map[string]*karpenter.NodePool{}
	var gpus []*karpenter.NodePool
	for _, u := range pools {
		f := karpenter.DecodeNodePool(u)
		byName[u.GetName()] = f
		if hasGPUs(f) {
			gpus = append(gpus, f)
		}
	}
	in := map[string]bool{}
	for _, pools := range groups {
		for _, name := range pools {
			in[name] = true
		}
	}
	for name, f := range byName {
		if in[name] || hasGPUs(f) {
			found = append(found, lintZero(f)...)
		}
	}
	for _, group := range sortedNames(groups) {
		found = append(found, fallback(group, groups[group], byName)...)
	}
	if len(groups) == 0 && len(gpus) > 0 && !slices.ContainsFunc(gpus, func(f *karpenter.NodePool) bool {
		return allowsCapacityType(f, "on-demand") || allowsCapacityType(f, "reserved")
	}) {
		found = append(found, poolFinding(gpus[0], NoFallback, "every NodePool with GPUs allows spot alone: when the market has none, pods wait",
			`let one allow karpenter.sh/capacity-type "on-demand", with a lower weight`))
	}
	slices.SortFunc(found, func(a, b ObjectFinding) int { return strings.Compare(a.Object+a.What+a.Why, b.Object+b.What+b.Why) })
	return found
}

func poolFinding(f *karpenter.NodePool, what, why, fix string) ObjectFinding {
	return ObjectFinding{Object: "NodePool " + f.Name(), Grave: grave[what], Finding: Finding{what, why, fix}}
}

// hasGPUs reports whether the nodes of a NodePool have GPUs, by its requirements, limits and resources.
func hasGPUs(f *karpenter.NodePool) bool {
	gpu := func(name string) bool {
		return strings.Contains(name, "gpu") || strings.Contains(name, "nvidia.com/mig")
	}
	for i := range f.Spec.Template.Spec.Requirements {
		r := &f.Spec.Template.Spec.Requirements[i]
		if gpu(r.Key) && r.Operator != corev1.NodeSelectorOpDoesNotExist {
			return true
		}
		if r.Operator == corev1.NodeSelectorOpIn && namesInstances(r.Key) && len(r.Values) > 0 &&
			!slices.ContainsFunc(r.Values, func(v string) bool { return !acceleratedFamily(v) }) {
			return true
		}
	}
	if slices.ContainsFunc(f.Limits(), func(l capacity.LimitView) bool { return gpu(l.Resource) }) {
		return true
	}
	return slices.ContainsFunc(f.UsedResources(), gpu)
}

// namesInstances reports whether the values of a label are instance types, families or categories.
func namesInstances(label string) bool {
	return strings.HasSuffix(label, "/instance-category") || strings.HasSuffix(label, "/instance-family") ||
		label == corev1.LabelInstanceTypeStable || label == corev1.LabelInstanceType
}

// acceleratedFamily tells AWS' families with GPUs by type, family or category: "g6e.xlarge", "p5", "gr6", "g".
func acceleratedFamily(v string) bool {
	rest, g := strings.CutPrefix(v, "g")
	if g {
		rest = strings.TrimPrefix(rest, "r") // a gr6 is a g6 with more memory
	} else if rest, g = strings.CutPrefix(v, "p"); !g {
		return false
	}
	return rest == "" || rest[0] >= '0' && rest[0] <= '9'
}

// allowsCapacityType reports whether the NodePool may launch a capacity type. Without a requirement it may launch every one.
func allowsCapacityType(f *karpenter.NodePool, kind string) bool {
	return f.Schedulability.Allows(karpv1.CapacityTypeLabelKey, kind)
}

// zero finds what keeps nodes that nobody uses.
func lintZero(f *karpenter.NodePool) (found []ObjectFinding) {
	add := func(what, why, fix string) { found = append(found, poolFinding(f, what, why, fix)) }
	if f.Static() {
		if n := *f.Spec.Replicas; n > 0 {
			add(NoZero, fmt.Sprintf("spec.replicas keeps %d nodes whether anybody uses them or not", n), "remove spec.replicas, or accept that they are paid for")
		}
	}
	if f.ConsolidateAfter() == `"`+karpv1.Never+`"` {
		add(NoZero, "consolidateAfter: Never: empty nodes stay", "set spec.disruption.consolidateAfter, such as 5m; a group's schedule can say Never for hours of the day")
	}
	for i := range f.Spec.Disruption.Budgets {
		b := &f.Spec.Disruption.Budgets[i]
		blocksEmpty := len(b.Reasons) == 0 || slices.Contains(b.Reasons, karpv1.DisruptionReasonEmpty)
		if (b.Nodes == "0" || b.Nodes == "0%") && b.Schedule == nil && blocksEmpty {
			add(NoZero, fmt.Sprintf("budget %d allows no node to go, at any time: empty nodes stay", i), `let spec.disruption.budgets allow {nodes: "100%", reasons: [Empty]}, and remove this one or give it a schedule`)
		}
	}
	if !slices.ContainsFunc(f.Spec.Template.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == "NoSchedule" || t.Effect == "NoExecute" }) {
		add(NoTaint, "its nodes have no taint: pods without a GPU land on them, and keep them", "add the taint nvidia.com/gpu:NoSchedule to spec.template.spec.taints (pods that ask for GPUs tolerate it by the ExtendedResourceToleration admission plugin, or say so)")
	}
	return found
}

// fallback judges one group of NodePools.
func fallback(group string, names map[string]string, byName map[string]*karpenter.NodePool) (found []ObjectFinding) {
	about := "capacityGroup " + group
	add := func(what, why, fix string) {
		found = append(found, ObjectFinding{Object: about, Grave: grave[what], Finding: Finding{what, why, fix}})
	}
	for _, kind := range sortedNames(names) {
		f := byName[names[kind]]
		switch {
		case f == nil:
			add(NoSuchPool, fmt.Sprintf("its %s NodePool %s is not there", kind, names[kind]), "correct the name in the PlatformConfig, or create the NodePool")
		case !allowsCapacityType(f, kind):
			add(NoFallback, fmt.Sprintf("NodePool %s stands for %s and does not allow it", names[kind], kind), fmt.Sprintf("let its requirement %s contain %q", karpv1.CapacityTypeLabelKey, kind))
		case limitIsZero(f):
			add(NoFallback, fmt.Sprintf("NodePool %s has a limit of 0 that is not ours: it launches nothing", names[kind]), "remove the limit, or hand it over with gpuscaler.io/nudge: limits")
		}
	}
	spot, demand := byName[names["spot"]], byName[names["on-demand"]]
	if names["spot"] != "" && names["on-demand"] == "" && names["reserved"] == "" {
		add(NoFallback, "it has a spot NodePool and nothing beside it: when the market has none, pods wait", "add an on-demand NodePool to the group")
	}
	if spot != nil && demand != nil && names["spot"] != names["on-demand"] && weightOf(spot) < weightOf(demand) {
		add(SpotLast, fmt.Sprintf("NodePool %s (weight %d) comes before %s (weight %d): spot is never tried first", names["on-demand"], weightOf(demand), names["spot"], weightOf(spot)),
			"give the spot NodePool the greater spec.weight, or hand weight over with gpuscaler.io/nudge: weight")
	}
	return found
}

func weightOf(f *karpenter.NodePool) int32 {
	if f.Spec.Weight == nil {
		return 0
	}
	return *f.Spec.Weight
}

// limitIsZero tells a NodePool that its owner closed. Ours is a fence, which opens again.
func limitIsZero(f *karpenter.NodePool) bool {
	return slices.ContainsFunc(f.Limits(), func(l capacity.LimitView) bool { return !l.Ours && (l.Value == `"0"` || l.Value == "0") })
}
