package capacity

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var ruleNames = [numRules]string{
	RuleNone: "none", RuleDemand: "demand", RuleYield: "foreign edit", RuleSchedule: "schedule", RuleBase: "on-demand base", RuleFallback: "spot fallback",
	RuleProbe: "spot probe", RuleReturn: "return to spot", RuleMove: "move", RulePatience: "spot patience", RuleFence: "fence", RuleFenceLifted: "no fence",
	RuleHold: "consolidation hold", RuleShield: "startup shield", RulePacking: "scale-in packing", RuleAtRisk: "nodes at risk",
	RuleConstrained: "CapacityConstrained", RuleBuffer: "buffer", RuleRelease: "release",
}

// String names the rule for people.
func (r Rule) String() string {
	if r < numRules {
		return ruleNames[r]
	}
	return "rule " + strconv.Itoa(int(r))
}

// String names the phase for people and metrics.
func (p Phase) String() string {
	return [...]string{"prefer spot", "fallback", "probing", "returning"}[min(p, Returning)]
}

// String is the value of karpenter.sh/capacity-type.
func (c CapacityType) String() string {
	return [...]string{"mixed", "spot", "on-demand", "reserved"}[min(c, Reserved)]
}

// String says what happened, as it stands in a sentence.
func (c Cause) String() string {
	return [...]string{"", "launches refused", "nodes lost", "patience over", "at its limit", "not ready", "refused by a ResourceQuota", "probe failed"}[min(c, CauseProbe)]
}

// of is a cause as it stands behind a pool.
func (c Cause) of() string {
	if c == CauseRefused {
		return "refused"
	}
	return c.String()
}

// String says what keeps a fence away.
func (l Lift) String() string {
	return [...]string{"somebody wants some", "a pod is pending", "demand cannot be known", "demand is known to come", "pods still run", "nobody wants any"}[min(l, LiftQuiet)]
}

// pool names a pool of the group.
func (g *Group) pool(i int8) string {
	if i < 0 || int(i) >= len(g.Pools) {
		return g.Name
	}
	return g.Pools[i].Name
}

// Text says why, in a few words; the rule's name is not repeated.
func (r Reason) Text(g *Group) string {
	switch r.Rule {
	case RuleDemand:
		return fmt.Sprintf("%.0f of %s: %.0f for policies, %.0f for other pods", r.A+r.B, g.Resource, r.A, r.B)
	case RuleYield:
		return fmt.Sprintf("%s: somebody else's edit of %s stays, left alone until %s%s", g.pool(r.Pool), r.Name, clock(r.Until), times(r.A))
	case RuleSchedule:
		return fmt.Sprintf("%s until %s", r.Name, clock(r.Until))
	case RuleBase:
		return fmt.Sprintf("%.0f of the first %.0f on demand in %s", min(r.A, r.B), r.A, g.pool(r.Pool))
	case RuleFence:
		return "limit 0: nobody wants any"
	case RuleFenceLifted:
		if lift := Lift(r.A); lift != LiftQuiet {
			return lift.String()
		}
		return fmt.Sprintf("%s, the fence comes at %s", LiftQuiet, clock(r.Until))
	case RuleHold:
		empty := ""
		if r.A > 0 {
			empty = fmt.Sprintf("empty nodes stay until %s, ", clock(time.Unix(int64(r.A), 0).UTC()))
		}
		return fmt.Sprintf("%s: %sno replica is moved until %s, also if we die", g.pool(r.Pool), empty, clock(r.Until))
	default:
		if text := r.spotText(g); text != "" {
			return text
		}
		return r.podText()
	}
}

func (r Reason) spotText(g *Group) string {
	switch r.Rule {
	case RuleFallback:
		if r.Until.IsZero() {
			return fmt.Sprintf("%s is open all the same: on demand is %s", g.pool(r.Pool), r.Cause.of())
		}
		evidence := ""
		switch r.Cause {
		case CauseRefused:
			evidence = fmt.Sprintf(" (%.0f of %.0f launches)", r.A, r.B)
		case CauseLost:
			evidence = fmt.Sprintf(" (%.0f of %.0f)", r.A, r.B)
		}
		return fmt.Sprintf("%s%s: %s first, next probe %s", r.Cause, evidence, g.pool(r.Pool), clock(r.Until))
	case RuleProbe:
		if r.Until.IsZero() {
			return fmt.Sprintf("%s is open: on demand is %s", g.pool(r.Pool), r.Cause.of())
		}
		return fmt.Sprintf("%s up to %.0f, one node more, given up at %s", g.pool(r.Pool), r.A, clock(r.Until))
	case RuleReturn:
		if r.Cause == CauseLimit {
			return fmt.Sprintf("%.0f stay on %s: %s is at its limit of %s", r.A, g.pool(g.other(r.Pool)), g.pool(r.Pool), r.Name)
		}
		next := "next at once"
		if !r.Until.IsZero() {
			next = "next not before " + clock(r.Until)
		}
		return fmt.Sprintf("%.0f left on %s, %.0f %s an hour, %s", r.A, g.pool(r.Pool), r.B, plural(r.B, "node"), next)
	case RuleMove:
		return fmt.Sprintf("replicas of %s to %s: %.0f ready, %.0f needed", r.Name, g.pool(r.Pool), r.A, r.B)
	case RulePatience:
		if r.Until.IsZero() {
			return fmt.Sprintf("%s stays at %.0f while spot serves", g.pool(r.Pool), r.A)
		}
		return fmt.Sprintf("%s stays at %.0f, may grow at %s", g.pool(r.Pool), r.A, clock(r.Until))
	}
	return ""
}

func (r Reason) podText() string {
	switch r.Rule {
	case RuleShield:
		return fmt.Sprintf("%.0f loading %s must not be disrupted", r.A, plural(r.A, "pod"))
	case RulePacking:
		return fmt.Sprintf("%.0f %s first in a scale-in", r.A, plural(r.A, "pod goes", "pods go"))
	case RuleAtRisk:
		return fmt.Sprintf("%.0f ready %s on nodes about to be lost, %.0f more expected", r.A, plural(r.A, "replica"), r.B)
	case RuleConstrained:
		next := "tried again all the time"
		if !r.Until.IsZero() {
			next = "next try " + clock(r.Until)
		}
		cause := r.Cause.String()
		if r.Name != "" {
			cause += " of " + r.Name
		}
		return fmt.Sprintf("%.0f %s cannot come: %s, %s", r.A, plural(r.A, "replica"), cause, next)
	case RuleBuffer:
		return fmt.Sprintf("nodes for %.0f %s held ready, wanted at %s", r.A, plural(r.A, "replica"), clock(r.Until))
	case RuleRelease:
		return "everything goes back"
	}
	return ""
}

// Text says what is wrong and what it costs.
func (f Finding) Text(g *Group) string {
	pool, field := g.pool(f.Pool), f.Field.Name(f.Resource)
	nodes := fmt.Sprintf("%d empty %s", f.Count, plural(float64(f.Count), "node"))
	switch f.Kind {
	case FindMissing:
		return "NodePool " + pool + " does not exist"
	case FindNotConsented:
		return fmt.Sprintf("%s: %s needs %s, which gpuscaler.io/nudge does not hand over (%s)", pool, f.Rule, field, f.Field.Consent())
	case FindUnsupported:
		if f.Rule == RuleBuffer {
			return fmt.Sprintf("%s: none is written: the roles do not allow it (karpenter.capacityBuffers in the chart), or no autoscaler here heeds one", f.Rule)
		}
		if f.Pool < 0 {
			return fmt.Sprintf("%s: this Karpenter does not do it", f.Rule)
		}
		return fmt.Sprintf("%s: %s wants %s, which this Karpenter does not have", pool, f.Rule, field)
	case FindUnreadable:
		return fmt.Sprintf("%s: %s holds what cannot be read; left alone", pool, field)
	case FindContested:
		return fmt.Sprintf("%s: %s was overwritten %d times; left alone until %s", pool, field, f.Count, clock(f.Until))
	case FindMixed:
		return fmt.Sprintf("%s launches several capacity types: observed only, %d %s on demand%s", pool, f.Count, plural(float64(f.Count), "node"), f.price())
	case FindWeights:
		return fmt.Sprintf("%s comes before spot by weight: nothing returns by itself", pool)
	case FindUnmovable:
		return fmt.Sprintf("%s: %d %s", pool, f.Count, f.stays())
	case FindForeignMark:
		return fmt.Sprintf("%s has a deletion cost of its own; left alone", f.Name)
	case FindOutlives:
		return fmt.Sprintf("%s: %s stands for %s; it stays if this controller is killed and never comes back", pool, field, f.Rule)
	case FindWithdrawn:
		return fmt.Sprintf("%s: %s stays overridden (%s; its owner's value: %s) because gpuscaler.io/nudge no longer lists %s: "+
			"list it again together with the word restore, or set the value yourself", pool, field, f.Rule, f.Name, f.Field.Consent())
	case FindClaims:
		more := ""
		if f.Count > 1 {
			more = fmt.Sprintf(" and %d more", f.Count-1)
		}
		return fmt.Sprintf("%s%s claim devices by dynamic resource allocation (resourceClaims), which are not counted: demand is unknown, and no limit is lowered", f.Name, more)
	case FindRecord:
		return pool + ": the annotation cannot be read; what is ours goes back to absent"
	}
	return fmt.Sprintf("%s: %s kept by %s%s", pool, nodes, f.keeper(), f.price())
}

// stays says why pods do not move to spot, and what a person can do.
func (f Finding) stays() string {
	n := float64(f.Count)
	switch f.Why {
	case HinderedBare:
		return fmt.Sprintf("%s of %s without a Deployment %s on demand until %s: run %s by a Deployment to have %s moved", plural(n, "pod"), f.Name,
			plural(n, "stays", "stay"), plural(n, "it ends", "they end"), plural(n, "it", "them"), plural(n, "it", "them"))
	case HinderedByLabels:
		return fmt.Sprintf("%s of %s %s on demand: nobody can tell whether the spot NodePool gives the labels asked for; name them in its template or requirements",
			plural(n, "pod"), f.Name, plural(n, "stays", "stay"))
	case HinderedByMark:
		return fmt.Sprintf("%s of %s %s on demand by karpenter.sh/do-not-disrupt: remove it, or restart once spot holds", plural(n, "pod"), f.Name, plural(n, "stays", "stay"))
	case HinderedForeign:
		return fmt.Sprintf("%s of no policy %s nodes on demand: give a policy or a NodePool of their own", plural(n, "pod"), plural(n, "keeps", "keep"))
	}
	return fmt.Sprintf("%s of %s on demand move only when they restart", plural(n, "pod"), f.Name)
}

// keeper says what keeps empty nodes.
func (f Finding) keeper() string {
	switch f.Kind {
	case FindNever:
		return "consolidateAfter: Never"
	case FindZeroBudget:
		return "a budget of 0"
	case FindUndisrupted:
		return "pods with do-not-disrupt"
	case FindSquatters:
		return "pods that ask for no GPU"
	}
	return "a CapacityBuffer"
}

func (f Finding) price() string {
	if !(f.Hourly > 0) {
		return ""
	}
	return fmt.Sprintf(", $%.2f/h", f.Hourly)
}

// String lists what is handed over, as the annotation does.
func (c Fields) String() string {
	var words []string
	for i, word := range fieldWords {
		if c&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, ",")
}

// Text is a patch as a diff: one line for each field.
func (p NodePoolPatch) Text() string {
	var b strings.Builder
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "%s %s: %s -> %s  (%s)\n", p.Pool, c.Path(), c.From, c.To, c.Why())
	}
	if len(p.Changes) == 0 {
		fmt.Fprintf(&b, "%s: record only\n", p.Pool)
	}
	return b.String()
}

// String is the value as it stands in a diff.
func (v Value) String() string {
	if v == "" {
		return "(absent)"
	}
	return string(v)
}

// Name is the field as a path below spec.
func (c Change) Name() string { return c.Field.Name(c.Resource) }

// Path returns the path of the field in the NodePool.
func (c Change) Path() Path { return c.Field.Path(c.Resource) }

// Why returns the rule that sets the field, or that the owner's value is restored.
func (c Change) Why() string {
	if c.Restore {
		return "owner's value restored"
	}
	return c.Rule.String()
}

// String returns the key of the annotation.
func (k MarkKind) String() string {
	return [...]string{"karpenter.sh/do-not-disrupt", "controller.kubernetes.io/pod-deletion-cost"}[min(k, DeletionCost)]
}

// Text is a mark as a diff.
func (m PodMark) Text() string {
	return fmt.Sprintf("%s/%s %s: %s  (%s)\n", m.Namespace, m.Name, m.Kind, Value(m.Value), m.Rule)
}

// Text is a buffer as a diff.
func (b Buffer) Text() string {
	return fmt.Sprintf("%s CapacityBuffer: %d %s\n", b.Workload, b.Replicas, plural(float64(b.Replicas), "replica"))
}

func times(n float64) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" (%.0f times)", n)
}

// plural is the word for n, with an s unless another form is given.
func plural(n float64, forms ...string) string {
	switch {
	case n == 1:
		return forms[0]
	case len(forms) > 1:
		return forms[1]
	}
	return forms[0] + "s"
}

// clock prints an instant in its own zone: those of windows in the window's, all others in UTC.
func clock(t time.Time) string {
	if t.IsZero() {
		return "further notice"
	}
	layout := "15:04"
	if t.Second() != 0 {
		layout += ":05"
	}
	return t.Format(layout) + " " + t.Location().String()
}
