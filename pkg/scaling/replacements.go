package scaling

import "fmt"

// blockedReplacements returns a text if the replacements for replicas on nodes that are about to be interrupted cannot start before these
// replicas end, because a rule after RuleAtRisk limits the target. It returns "" if no replacement is blocked. A replacement never makes
// the target exceed a bound.
func (d *Decision) blockedReplacements(p *Policy) string {
	all := d.Reasons.All()
	for i := range all {
		r := &all[i]
		if r.Rule != RuleAtRisk || d.Replicas >= r.To {
			continue
		}
		n := min(float64(r.To-d.Replicas), r.A)
		text := fmt.Sprintf("a replacement for %.0f ready replica on a node that is about to be interrupted cannot start early", n)
		if n != 1 {
			text = fmt.Sprintf("replacements for %.0f ready replicas on nodes that are about to be interrupted cannot start early", n)
		}
		for _, later := range all[i:] {
			if later.Rule == RuleBounds && d.Binding == RuleBounds {
				text += ": " + p.maximumText(later.B) + " is reached"
			}
		}
		return text
	}
	return ""
}

// maximumText returns the name and value of the maximum that applies: that of the managed HPA if it is less than that of the policy.
func (p *Policy) maximumText(most float64) string {
	text := fmt.Sprintf("maxReplicas %.0f", most)
	if most < float64(p.MaxReplicas) {
		text += " of the HPA"
	}
	return text
}
