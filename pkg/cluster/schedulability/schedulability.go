// Package schedulability determines whether Karpenter could launch a node of a NodePool for a pod: it compares the node selector, the
// required node affinity and the tolerations of the pod with the labels, requirements and taints of the NodePool.
package schedulability

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// Answer is the answer to the question whether a pod could be scheduled on a node of a NodePool. The values are ordered No < Unknown <
// Yes. The minimum of two answers is the answer to whether both conditions are met, and the maximum to whether at least one is met.
type Answer uint8

// Values of Answer.
const (
	No      Answer = iota
	Unknown        // the pod requires a label that may exist on any node, because a provider, a device plugin or an operator can add it
	Yes
)

// NodePool contains the labels, requirements and taints of a NodePool, which determine which pods its nodes can run. For the zero value,
// every answer is Unknown.
type NodePool struct {
	decoded      bool
	requirements scheduling.Requirements // requirements and labels of the template
	taints       []corev1.Taint          // taints that prevent pods from being scheduled
}

// Of returns the labels, requirements and taints of the NodePool with the given name and template.
func Of(name string, template *karpv1.NodeClaimTemplate) NodePool {
	p := NodePool{decoded: true}
	for _, t := range template.Spec.Taints {
		// a taint with the effect PreferNoSchedule prevents no scheduling: the scheduler only prefers other nodes
		if t.Effect != corev1.TaintEffectPreferNoSchedule {
			p.taints = append(p.taints, t)
		}
	}
	p.requirements = scheduling.NewLabelRequirements(template.Labels)
	p.requirements.Add(scheduling.NewRequirement(karpv1.NodePoolLabelKey, corev1.NodeSelectorOpIn, name))
	for i := range template.Spec.Requirements {
		r := &template.Spec.Requirements[i]
		p.requirements.Add(requirement(r.Key, r.Operator, r.Values))
	}
	return p
}

// Allows reports whether a node of the NodePool may have a label with the value. A label that the NodePool does not define may have any
// value.
func (p *NodePool) Allows(label, value string) bool {
	r, found := p.requirements[label]
	return !found || r.Has(value)
}

// Mentions reports whether the labels or the requirements of the NodePool restrict the values of a label.
func (p *NodePool) Mentions(label string) bool { return p.requirements.Has(label) }

// Accepts returns whether Karpenter could launch a node of the NodePool for a pod. If the pod has several terms of required node affinity,
// the node must match only one of them.
func (p *NodePool) Accepts(pod *gpupods.Facts) Answer {
	if !p.decoded {
		return Unknown
	}
	if !p.tolerated(pod.Tolerations) {
		return No
	}
	if pod.NodeAffinity == nil || len(pod.NodeAffinity.NodeSelectorTerms) == 0 {
		if len(pod.NodeSelector) == 0 {
			return Yes
		}
		return p.satisfies(scheduling.NewLabelRequirements(pod.NodeSelector))
	}
	best := No
	for i := range pod.NodeAffinity.NodeSelectorTerms {
		term := &pod.NodeAffinity.NodeSelectorTerms[i]
		if len(term.MatchFields) > 0 {
			continue // skip a term that selects an existing node by its name, because no new node matches it
		}
		required := scheduling.NewLabelRequirements(pod.NodeSelector)
		for j := range term.MatchExpressions {
			e := &term.MatchExpressions[j]
			required.Add(requirement(e.Key, e.Operator, e.Values))
		}
		best = max(best, p.satisfies(required))
	}
	return best
}

// tolerated reports whether the tolerations match every taint of the NodePool.
func (p *NodePool) tolerated(tolerations []corev1.Toleration) bool {
	_, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), p.taints, tolerations, nil, false)
	return !untolerated
}

// satisfies returns whether nodes of the NodePool can have all labels that a pod requires: the minimum of the answers for each label.
func (p *NodePool) satisfies(required scheduling.Requirements) Answer {
	answer := Yes
	for label, r := range required {
		if answer = min(answer, p.allows(label, r)); answer == No {
			break
		}
	}
	return answer
}

// allows returns whether nodes of the NodePool can satisfy one required label of a pod. For a label that the NodePool does not define, it
// applies Karpenter's rules with one exception. For a label of an unknown domain, Karpenter launches no node, but allows returns Unknown,
// because a provider, a device plugin or an operator may add the label to any node. A pending pod with such a label counts as demand, so
// that a zero limit does not block the pod forever.
func (p *NodePool) allows(label string, r *scheduling.Requirement) Answer {
	operator := r.Operator()
	if offered, found := p.requirements[label]; found {
		absentInBoth := acceptsAbsence(operator) && acceptsAbsence(offered.Operator())
		return yesIf(offered.HasIntersection(r) || absentInBoth)
	}
	switch {
	case operator == corev1.NodeSelectorOpNotIn:
		return Yes
	case operator == corev1.NodeSelectorOpDoesNotExist:
		return yesIf(!wellKnown(label))
	case wellKnown(label):
		return Yes // Karpenter can choose a value that satisfies the pod
	case strings.Contains(label, "/"):
		return Unknown
	}
	return No
}

func acceptsAbsence(operator corev1.NodeSelectorOperator) bool {
	return operator == corev1.NodeSelectorOpNotIn || operator == corev1.NodeSelectorOpDoesNotExist
}

func yesIf(condition bool) Answer {
	if condition {
		return Yes
	}
	return No
}

// requirement converts one requirement to Karpenter's type. A comparison (Gt, Lt) without a value becomes the requirement that the label
// exists. Such a comparison can only be in a file, because the API server rejects it.
func requirement(label string, operator corev1.NodeSelectorOperator, values []string) *scheduling.Requirement {
	comparisons := []corev1.NodeSelectorOperator{
		corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, karpv1.NodeSelectorOpGte, karpv1.NodeSelectorOpLte,
	}
	if len(values) == 0 && slices.Contains(comparisons, operator) {
		operator = corev1.NodeSelectorOpExists
	}
	return scheduling.NewRequirement(label, operator, values...)
}

// wellKnown reports whether Karpenter or a cloud provider sets a label on every node. The domain of the label determines the result.
func wellKnown(label string) bool {
	domain, _, found := strings.Cut(label, "/")
	return found && (domain == "kubernetes.io" || domain == "node.kubernetes.io" || domain == "topology.kubernetes.io" ||
		domain == "karpenter.sh" || strings.HasPrefix(domain, "karpenter.") || strings.HasPrefix(domain, "topology."))
}
