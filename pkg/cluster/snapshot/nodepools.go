package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
)

// nodePoolFacts returns the data about NodePools that the checks need.
func nodePoolFacts(pools []*unstructured.Unstructured) (all []objects.NodePoolFacts) {
	for _, u := range pools {
		all = append(all, factsOfNodePool(karpenter.DecodeNodePool(u)))
	}
	return all
}

func factsOfNodePool(p *karpenter.NodePool) objects.NodePoolFacts {
	f := objects.NodePoolFacts{
		Name: p.Name(), Taints: p.Spec.Template.Spec.Taints, Resources: p.UsedResources(),
		NeverConsolidates: p.ConsolidateAfter() == `"`+karpv1.Never+`"`,
		Allows: func(capacityType string) bool {
			return p.Schedulability.Allows(karpv1.CapacityTypeLabelKey, capacityType)
		},
	}
	if p.Err != nil {
		f.Unreadable = p.Err.Error()
	}
	if p.Spec.Weight != nil {
		f.Weight = int64(*p.Spec.Weight)
	}
	if p.Spec.Replicas != nil {
		f.Replicas = *p.Spec.Replicas
	}
	for i := range p.Spec.Template.Spec.Requirements {
		r := &p.Spec.Template.Spec.Requirements[i]
		f.Requirements = append(f.Requirements, corev1.NodeSelectorRequirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	for _, l := range p.Limits() {
		f.Limits = append(f.Limits, l.Resource)
	}
	f.ClosedLimits = slices.ContainsFunc(p.Limits(), func(l nodepool.LimitView) bool {
		return !l.Ours && (l.Value == `"0"` || l.Value == "0")
	})
	for i := range p.Spec.Disruption.Budgets {
		b := &p.Spec.Disruption.Budgets[i]
		budget := objects.Budget{Nodes: b.Nodes, Scheduled: b.Schedule != nil}
		for _, r := range b.Reasons {
			budget.Reasons = append(budget.Reasons, string(r))
		}
		f.Budgets = append(f.Budgets, budget)
	}
	return f
}

// Room returns the sum of the limits of the named NodePools for a resource: the greatest amount of the resource that their nodes may have
// together. known is false if a NodePool does not exist, has no limit of the resource, or has a limit that gpuscaler currently overrides.
func (s *Snapshot) Room(names []string, resource string) (sum int64, known bool) {
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		limit, known := s.limit(name, resource)
		if !known {
			return 0, false
		}
		sum += limit
	}
	return sum, len(names) > 0
}

func (s *Snapshot) limit(nodePool, resource string) (amount int64, known bool) {
	for _, u := range s.pools {
		p := karpenter.DecodeNodePool(u)
		if p.Name() != nodePool {
			continue
		}
		overridden := slices.ContainsFunc(p.Limits(), func(l nodepool.LimitView) bool { return l.Resource == resource && l.Ours })
		q, limited := p.Spec.Limits[corev1.ResourceName(resource)]
		return q.Value(), limited && !overridden
	}
	return 0, false
}
