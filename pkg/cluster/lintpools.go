package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
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
	byName := map[string]*poolFacts{}
	var gpus []*poolFacts
	for _, u := range pools {
		f := poolOf(u)
		byName[u.GetName()] = f
		if f.hasGPUs() {
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
		if in[name] || f.hasGPUs() {
			found = append(found, f.zero()...)
		}
	}
	for _, group := range sortedNames(groups) {
		found = append(found, fallback(group, groups[group], byName)...)
	}
	if len(groups) == 0 && len(gpus) > 0 && !slices.ContainsFunc(gpus, func(f *poolFacts) bool { return f.allows("on-demand") || f.allows("reserved") }) {
		found = append(found, poolFinding(gpus[0], NoFallback, "every NodePool with GPUs allows spot alone: when the market has none, pods wait",
			`let one allow karpenter.sh/capacity-type "on-demand", with a lower weight`))
	}
	slices.SortFunc(found, func(a, b ObjectFinding) int { return strings.Compare(a.Object+a.What+a.Why, b.Object+b.What+b.Why) })
	return found
}

func poolFinding(f *poolFacts, what, why, fix string) ObjectFinding {
	return ObjectFinding{Object: "NodePool " + f.object.GetName(), Grave: grave[what], Finding: Finding{what, why, fix}}
}

// hasGPUs tells a pool whose nodes have GPUs, by what it requires, limits, taints or has.
func (f *poolFacts) hasGPUs() bool {
	gpu := func(name string) bool {
		return strings.Contains(name, "gpu") || strings.Contains(name, "nvidia.com/mig")
	}
	for i := range f.requirements {
		r := &f.requirements[i]
		if gpu(r.key) && r.operator != "DoesNotExist" {
			return true
		}
		if r.operator == "In" && (strings.HasSuffix(r.key, "/instance-category") || strings.HasSuffix(r.key, "/instance-family") || r.key == "node.kubernetes.io/instance-type") &&
			len(r.values) > 0 && !slices.ContainsFunc(r.values, func(v string) bool { return !acceleratedFamily(v) }) {
			return true
		}
	}
	if slices.ContainsFunc(f.view.Limits, func(l capacity.LimitView) bool { return gpu(l.Resource) }) {
		return true
	}
	for name, n := range f.usage {
		if gpu(name) && n > 0 {
			return true
		}
	}
	return false
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

// allows tells whether the pool may launch a capacity type. One that does not say may launch all.
func (f *poolFacts) allows(kind string) bool {
	for i := range f.requirements {
		if r := &f.requirements[i]; r.key == capacityTypeLabel && !r.fits(kind) {
			return false
		}
	}
	return true
}

// zero finds what keeps nodes that nobody uses.
func (f *poolFacts) zero() (found []ObjectFinding) {
	add := func(what, why, fix string) { found = append(found, poolFinding(f, what, why, fix)) }
	if f.static {
		if n, _, _ := unstructured.NestedInt64(f.object.Object, "spec", "replicas"); n > 0 {
			add(NoZero, fmt.Sprintf("spec.replicas keeps %d nodes whether anybody uses them or not", n), "remove spec.replicas, or accept that they are paid for")
		}
	}
	if after, _, _ := unstructured.NestedString(f.object.Object, "spec", "disruption", "consolidateAfter"); after == "Never" {
		add(NoZero, "consolidateAfter: Never: empty nodes stay", "set spec.disruption.consolidateAfter, such as 5m; a group's schedule can say Never for hours of the day")
	}
	budgets, _, _ := unstructured.NestedSlice(f.object.Object, "spec", "disruption", "budgets")
	for i, raw := range budgets {
		b, _ := raw.(map[string]any)
		nodes, _ := b["nodes"].(string)
		_, scheduled := b["schedule"]
		reasons, _, _ := unstructured.NestedStringSlice(b, "reasons")
		if (nodes == "0" || nodes == "0%") && !scheduled && (len(reasons) == 0 || slices.Contains(reasons, "Empty")) {
			add(NoZero, fmt.Sprintf("budget %d allows no node to go, at any time: empty nodes stay", i), `let spec.disruption.budgets allow {nodes: "100%", reasons: [Empty]}, and remove this one or give it a schedule`)
		}
	}
	if !slices.ContainsFunc(f.taints, func(t corev1.Taint) bool { return t.Effect == "NoSchedule" || t.Effect == "NoExecute" }) {
		add(NoTaint, "its nodes have no taint: pods without a GPU land on them, and keep them", "add the taint nvidia.com/gpu:NoSchedule to spec.template.spec.taints (pods that ask for GPUs tolerate it by the ExtendedResourceToleration admission plugin, or say so)")
	}
	return found
}

// fallback judges one group of NodePools.
func fallback(group string, names map[string]string, byName map[string]*poolFacts) (found []ObjectFinding) {
	about := "capacityGroup " + group
	add := func(what, why, fix string) {
		found = append(found, ObjectFinding{Object: about, Grave: grave[what], Finding: Finding{what, why, fix}})
	}
	for _, kind := range sortedNames(names) {
		f := byName[names[kind]]
		switch {
		case f == nil:
			add(NoSuchPool, fmt.Sprintf("its %s NodePool %s is not there", kind, names[kind]), "correct the name in the PlatformConfig, or create the NodePool")
		case !f.allows(kind):
			add(NoFallback, fmt.Sprintf("NodePool %s stands for %s and does not allow it", names[kind], kind), fmt.Sprintf("let its requirement %s contain %q", capacityTypeLabel, kind))
		case f.limitIsZero():
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

func weightOf(f *poolFacts) int64 {
	n, _, _ := unstructured.NestedInt64(f.object.Object, "spec", "weight")
	return n
}

// limitIsZero tells a NodePool that its owner closed. Ours is a fence, which opens again.
func (f *poolFacts) limitIsZero() bool {
	return slices.ContainsFunc(f.view.Limits, func(l capacity.LimitView) bool { return !l.Ours && (l.Value == `"0"` || l.Value == "0") })
}
