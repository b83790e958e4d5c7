package capacity

import (
	"fmt"
	"strings"
)

// Text returns the message for users: the problem, its price if known, and what to do about it.
func (f Finding) Text(g *Group) string {
	pool, field := g.pool(f.Pool), f.Field.Name(f.Resource)
	switch f.Kind {
	case FindMissing:
		return "NodePool " + pool + " does not exist"
	case FindMixed:
		return fmt.Sprintf("%s launches several capacity types: gpuscaler only observes it, %d %s on demand%s",
			pool, f.Count, plural(float64(f.Count), "node"), f.price())
	case FindWeights:
		return fmt.Sprintf("the weight of %s is above the weight of spot: nothing returns to spot; raise the weight of the spot NodePool", pool)
	case FindUnmovable:
		return fmt.Sprintf("%s: %d %s", pool, f.Count, f.unmovable())
	case FindForeignAnnotation:
		return fmt.Sprintf("pod %s has a deletion cost of another manager: gpuscaler does not change it and does not move the pod", f.Name)
	case FindClaims:
		more := ""
		if f.Count > 1 {
			more = fmt.Sprintf(" and %d more", f.Count-1)
		}
		return fmt.Sprintf("%s%s claim devices by dynamic resource allocation (resourceClaims), which are not counted: "+
			"demand is unknown, and no limit is lowered", f.Name, more)
	case FindRecord:
		return pool + ": the annotation with the original values cannot be read: the overridden fields are removed"
	case FindNever, FindZeroBudget, FindDoNotDisrupt, FindBlockingPods, FindBuffered:
		nodes := fmt.Sprintf("%d empty %s", f.Count, plural(float64(f.Count), "node"))
		return fmt.Sprintf("%s: %s kept by %s%s", pool, nodes, f.keeper(), f.price())
	}
	return f.fieldText(pool, field)
}

// fieldText returns the message of a finding about one field of a NodePool.
func (f Finding) fieldText(pool, field string) string {
	switch f.Kind {
	case FindNotConsented:
		return fmt.Sprintf("%s: the annotation gpuscaler.io/nudge does not list %s: the rule %s cannot override %s",
			pool, f.Field.Consent(), f.Rule, field)
	case FindUnsupported:
		switch f.Rule {
		case RuleBuffer:
			return "buffer: no CapacityBuffer is written: the role does not allow it (karpenter.capacityBuffers in the chart), " +
				"or no autoscaler in this cluster serves CapacityBuffers"
		case RuleShield:
			return "startup shield: this Karpenter does not read a duration in karpenter.sh/do-not-disrupt"
		}
		return fmt.Sprintf("%s: this Karpenter has no field %s: the rule %s cannot override it", pool, field, f.Rule)
	case FindUnreadable:
		return fmt.Sprintf("%s: the value of %s cannot be read: it is not overridden", pool, field)
	case FindContested:
		return fmt.Sprintf("%s: %s was overwritten %d times: it is not overridden until %s", pool, field, f.Count, clock(f.Until))
	case FindPermanentLimit:
		return fmt.Sprintf("%s: the rule %s overrides %s: if gpuscaler is killed and does not start again, the limit stays", pool, f.Rule, field)
	}
	return fmt.Sprintf("%s: %s stays overridden (rule %s; its owner's value: %s) because gpuscaler.io/nudge no longer lists %s: "+
		"list it again together with the word restore, or set the value yourself", pool, field, f.Rule, f.Name, f.Field.Consent())
}

// unmovable returns the part of the message that explains why pods do not move to spot and what a user can do.
func (f Finding) unmovable() string {
	n := float64(f.Count)
	switch f.Blocker {
	case BlockedByNoOwner:
		it := plural(n, "it", "them")
		return fmt.Sprintf("%s of %s without a Deployment %s on demand until %s: run %s by a Deployment to have %s moved",
			plural(n, "pod"), f.Name, plural(n, "stays", "stay"), plural(n, "it ends", "they end"), it, it)
	case BlockedByLabels:
		return fmt.Sprintf("%s of %s %s on demand: it is unknown whether nodes of the spot NodePool have the labels that the %s; "+
			"name the labels in its template or requirements",
			plural(n, "pod"), f.Name, plural(n, "stays", "stay"), plural(n, "pod requests", "pods request"))
	case BlockedByDoNotDisrupt:
		return fmt.Sprintf("%s of %s %s on demand because of karpenter.sh/do-not-disrupt: "+
			"remove the annotation, or restart the %s when spot is available",
			plural(n, "pod"), f.Name, plural(n, "stays", "stay"), plural(n, "pod"))
	case BlockedByUnmanagedPod:
		return fmt.Sprintf("%s without a policy %s nodes on demand: write a policy for %s, or use a separate NodePool",
			plural(n, "pod"), plural(n, "keeps", "keep"), plural(n, "it", "them"))
	}
	return fmt.Sprintf("%s of %s on demand %s to spot only at a restart", plural(n, "pod"), f.Name, plural(n, "moves", "move"))
}

// keeper returns the part of the message that names the cause that keeps empty nodes.
func (f Finding) keeper() string {
	switch f.Kind {
	case FindNever:
		return "consolidateAfter: Never"
	case FindZeroBudget:
		return "a disruption budget of 0"
	case FindDoNotDisrupt:
		return "pods with karpenter.sh/do-not-disrupt"
	case FindBlockingPods:
		return "pods that request no GPU"
	}
	return "a CapacityBuffer"
}

func (f Finding) price() string {
	if !(f.Hourly > 0) { // NaN is no price
		return ""
	}
	return fmt.Sprintf(", $%.2f/h", f.Hourly)
}

// String returns the words of the consent as in the annotation gpuscaler.io/nudge, separated by commas.
func (c Fields) String() string {
	var words []string
	for i, word := range fieldWords {
		if c&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, ",")
}
