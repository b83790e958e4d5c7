package cluster

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// landing says whether Karpenter could give a pod a node of a NodePool.
type landing uint8

const (
	never  landing = iota
	unsure         // some rule is not one that we can judge
	lands
)

// and is the weaker of two answers, or the stronger.
func (l landing) and(other landing) landing { return min(l, other) }
func (l landing) or(other landing) landing  { return max(l, other) }

// landsIn compares what a pod demands of its node with what a NodePool's nodes will be: node selector, required node affinity and
// taints. A label that a NodePool leaves open is one that Karpenter fills in where it is well known, one that no node has where it
// has no domain, and anybody's guess otherwise: a Job must not starve below a fence for a label that we do not know.
func (p *poolFacts) landsIn(g *gpupods.Facts) landing {
	if !p.tolerated(g.Tolerations) {
		return never
	}
	answer := lands
	for key, value := range g.NodeSelector {
		answer = answer.and(p.has(key, corev1.NodeSelectorOpIn, []string{value}))
	}
	if g.NodeAffinity == nil || len(g.NodeAffinity.NodeSelectorTerms) == 0 || answer == never {
		return answer
	}
	best := never
	for i := range g.NodeAffinity.NodeSelectorTerms {
		best = best.or(p.matches(&g.NodeAffinity.NodeSelectorTerms[i]))
	}
	return answer.and(best)
}

func (p *poolFacts) matches(term *corev1.NodeSelectorTerm) landing {
	if len(term.MatchFields) > 0 {
		return never // one node by name, which a new one is not
	}
	answer := lands
	for i := range term.MatchExpressions {
		e := &term.MatchExpressions[i]
		answer = answer.and(p.has(e.Key, e.Operator, e.Values))
	}
	return answer
}

func (p *poolFacts) tolerated(by []corev1.Toleration) bool {
	for i := range p.taints {
		t := &p.taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(by, func(x corev1.Toleration) bool { return tolerates(&x, t) }) {
			return false
		}
	}
	return true
}

// tolerates is the scheduler's own rule; the library's needs a logger and knows no other.
func tolerates(x *corev1.Toleration, t *corev1.Taint) bool {
	if x.Effect != "" && x.Effect != t.Effect || x.Key != "" && x.Key != t.Key {
		return false
	}
	return x.Operator == corev1.TolerationOpExists || x.Key != "" && (x.Operator == "" || x.Operator == corev1.TolerationOpEqual) && x.Value == t.Value
}

// requirement is one of a NodePool's.
type requirement struct {
	key      string
	operator corev1.NodeSelectorOperator
	values   []string
}

// has tells whether a node of the pool can satisfy one demand.
func (p *poolFacts) has(key string, operator corev1.NodeSelectorOperator, values []string) landing {
	key = stableName(key)
	if value, fixed := p.labels[key]; fixed {
		return decided(satisfies(value, operator, values))
	}
	answer, said := lands, false
	for i := range p.requirements {
		if r := &p.requirements[i]; r.key == key {
			said = true
			answer = answer.and(r.allows(operator, values))
		}
	}
	switch {
	case said:
		return answer
	case operator == corev1.NodeSelectorOpDoesNotExist, operator == corev1.NodeSelectorOpNotIn:
		return decided(operator == corev1.NodeSelectorOpNotIn || !wellKnown(key))
	case wellKnown(key):
		return lands // Karpenter chooses it
	case strings.Contains(key, "/"):
		return unsure // somebody's domain: a provider, a device plugin or an operator may put it on any node
	}
	return never
}

func decided(yes bool) landing {
	if yes {
		return lands
	}
	return never
}

// allows tells whether some value of the requirement satisfies a demand.
func (r *requirement) allows(operator corev1.NodeSelectorOperator, values []string) landing {
	switch r.operator {
	case corev1.NodeSelectorOpIn:
		return decided(slices.ContainsFunc(r.values, func(v string) bool { return satisfies(v, operator, values) }))
	case corev1.NodeSelectorOpDoesNotExist:
		return decided(operator == corev1.NodeSelectorOpDoesNotExist || operator == corev1.NodeSelectorOpNotIn)
	case corev1.NodeSelectorOpNotIn:
		if operator == corev1.NodeSelectorOpIn {
			return decided(slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(r.values, v) }))
		}
	}
	return unsure // ranges against ranges
}

// satisfies tells whether a label's value satisfies a demand.
func satisfies(value string, operator corev1.NodeSelectorOperator, values []string) bool {
	switch operator {
	case corev1.NodeSelectorOpIn:
		return slices.Contains(values, value)
	case corev1.NodeSelectorOpNotIn:
		return !slices.Contains(values, value)
	case corev1.NodeSelectorOpExists:
		return true
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(values) != 1 {
			return false
		}
		have, err := strconv.ParseInt(value, 10, 64)
		bound, err2 := strconv.ParseInt(values[0], 10, 64)
		return err == nil && err2 == nil && (operator == corev1.NodeSelectorOpGt && have > bound || operator == corev1.NodeSelectorOpLt && have < bound)
	}
	return false
}

// oldNames are labels that the cloud providers still put on nodes and that Karpenter reads as their successors.
var oldNames = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
	"beta.kubernetes.io/arch":           corev1.LabelArchStable,
	"beta.kubernetes.io/os":             corev1.LabelOSStable,
}

func stableName(key string) string { return cmp.Or(oldNames[key], key) }

// wellKnown tells labels that Karpenter or a cloud's provider puts on a node by itself.
func wellKnown(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	return found && (domain == "kubernetes.io" || domain == "node.kubernetes.io" || domain == "topology.kubernetes.io" ||
		domain == "karpenter.sh" || strings.HasPrefix(domain, "karpenter.") || strings.HasPrefix(domain, "topology."))
}
