package capacity

import (
	"fmt"
	"strconv"
	"time"
)

var ruleNames = [numRules]string{
	RuleNone: "none", RuleDemand: "demand", RuleForeignEdit: "foreign edit", RuleSchedule: "schedule", RuleBase: "on-demand base",
	RuleFallback: "spot fallback", RuleProbe: "spot probe", RuleReturn: "return to spot", RuleMove: "move",
	RuleSpotWaitTimeout: "spot wait timeout", RuleZeroLimit: "zero limit", RuleNoZeroLimit: "no zero limit",
	RuleConsolidationFreeze: "consolidation freeze", RuleShield: "startup shield", RulePacking: "scale-in packing",
	RuleAtRisk: "nodes at risk", RuleConstrained: "CapacityConstrained", RuleBuffer: "buffer", RuleRelease: "release",
}

// String returns the name of the rule for messages and metric labels.
func (r Rule) String() string {
	if r < numRules {
		return ruleNames[r]
	}
	return "rule " + strconv.Itoa(int(r))
}

// String returns the name of the phase for messages and metric labels.
func (p Phase) String() string {
	return [...]string{"prefer spot", "fallback", "probing", "returning"}[min(p, Returning)]
}

// String returns the value of the label karpenter.sh/capacity-type, and "mixed" for several types.
func (c CapacityType) String() string {
	return [...]string{"mixed", "spot", "on-demand", "reserved"}[min(c, Reserved)]
}

// String returns the cause for messages.
func (c Cause) String() string {
	return [...]string{"", "launches refused", "nodes lost", "spot wait timeout expired", "NodePool at its limit", "NodePool not ready",
		"pods rejected by the API server (ResourceQuota, LimitRange or admission policy)", "probe failed"}[min(c, CauseProbe)]
}

// String returns the reason why the limit is not 0, for messages.
func (l LiftReason) String() string {
	return [...]string{"a policy requests units", "a pod is pending", "demand is unknown", "known demand starts soon", "pods are running",
		"no pod or policy requests units"}[min(l, NotLifted)]
}

// pool returns the name of a NodePool of the group, and the name of the group for an index without a NodePool.
func (g *Group) pool(i int8) string {
	if i < 0 || int(i) >= len(g.Pools) {
		return g.Name
	}
	return g.Pools[i].Name
}

// Text returns the message for users. Most messages have the form "cause: effect". The name of the rule is not part of the message.
func (r Reason) Text(g *Group) string {
	switch r.Rule {
	case RuleDemand:
		return fmt.Sprintf("%.0f %s requested: %.0f by policies, %.0f by other pods", r.A+r.B, g.Resource, r.A, r.B)
	case RuleForeignEdit:
		return fmt.Sprintf("another manager changed %s of %s%s: gpuscaler does not override it until %s",
			r.Name, g.pool(r.Pool), times(r.A), clock(r.Until))
	case RuleSchedule:
		return fmt.Sprintf("window %s is open: its settings apply until %s", r.Name, clock(r.Until))
	case RuleRelease:
		return "the overrides end: every field gets its owner's value"
	case RuleBase, RuleFallback, RuleProbe, RuleSpotWaitTimeout:
		return r.spotText(g)
	case RuleReturn, RuleMove:
		return r.returnText(g)
	case RuleZeroLimit, RuleNoZeroLimit, RuleConsolidationFreeze:
		return r.idleText(g)
	}
	return r.podText()
}

// spotText renders the rules that choose between spot and on-demand for new nodes.
func (r Reason) spotText(g *Group) string {
	pool := g.pool(r.Pool)
	switch r.Rule {
	case RuleBase:
		return fmt.Sprintf("the first %.0f units run on demand: %s is used first and has %.0f of them", r.A, pool, min(r.A, r.B))
	case RuleFallback:
		if r.Until.IsZero() {
			return fmt.Sprintf("on demand: %s: %s is not limited", r.Cause, pool)
		}
		evidence := ""
		if r.Cause == CauseRefused || r.Cause == CauseLost {
			evidence = fmt.Sprintf(" (%.0f of %.0f)", r.A, r.B)
		}
		return fmt.Sprintf("%s%s: %s is used before spot; next probe at %s", r.Cause, evidence, pool, clock(r.Until))
	case RuleProbe:
		if r.Until.IsZero() {
			return fmt.Sprintf("on demand: %s: %s is not limited", r.Cause, pool)
		}
		return fmt.Sprintf("the wait after the fallback is over: %s may grow to %.0f, one more node; the probe ends at %s",
			pool, r.A, clock(r.Until))
	}
	if r.Until.IsZero() {
		return fmt.Sprintf("no pod waits for spot: %s is capped at %.0f", pool, r.A)
	}
	return fmt.Sprintf("pods wait for spot: %s is capped at %.0f until %s", pool, r.A, clock(r.Until))
}

func (r Reason) returnText(g *Group) string {
	pool := g.pool(r.Pool)
	switch {
	case r.Rule == RuleMove:
		return fmt.Sprintf("replicas of %s move to %s: %.0f ready, %.0f needed", r.Name, pool, r.A, r.B)
	case r.Cause == CauseLimit:
		return fmt.Sprintf("%s is at its limit of %s: %.0f units stay on %s", pool, r.Name, r.A, g.pool(g.other(r.Pool)))
	}
	next := "the next one now"
	if !r.Until.IsZero() {
		next = "the next one not before " + clock(r.Until)
	}
	return fmt.Sprintf("%.0f %s on %s can run on spot: at most %.0f %s per hour, %s",
		r.A, plural(r.A, "unit"), pool, r.B, plural(r.B, "node moves", "nodes move"), next)
}

// idleText renders the rules that keep or remove nodes without use.
func (r Reason) idleText(g *Group) string {
	switch r.Rule {
	case RuleZeroLimit:
		return fmt.Sprintf("no pod or policy requests %s: limit 0", g.Resource)
	case RuleNoZeroLimit:
		if lift := LiftReason(r.A); lift != NotLifted {
			return lift.String()
		}
		return fmt.Sprintf("%s: the limit becomes 0 at %s", NotLifted, clock(r.Until))
	}
	pool, until := g.pool(r.Pool), clock(r.Until)
	switch {
	case r.B == 2:
		return fmt.Sprintf("no rule needs the freeze any more: consolidation of %s starts again at %s", pool, until)
	case r.A > 0:
		empty := clock(time.Unix(int64(r.A), 0).UTC())
		return fmt.Sprintf("known demand: %s keeps empty nodes until %s and all nodes in use until %s", pool, empty, until)
	case r.B > 0:
		return fmt.Sprintf("replicas return to spot: consolidation of %s moves no replica until %s", pool, until)
	}
	return fmt.Sprintf("known demand: %s keeps all nodes in use until %s", pool, until)
}

// podText renders the rules about replicas and their pods.
func (r Reason) podText() string {
	switch r.Rule {
	case RuleShield:
		return fmt.Sprintf("%.0f %s not disrupted until ready", r.A, plural(r.A, "pod is loading: it is", "pods are loading: they are"))
	case RulePacking:
		return fmt.Sprintf("a scale-in frees whole nodes: it deletes %.0f %s first", r.A, plural(r.A, "pod"))
	case RuleAtRisk:
		return fmt.Sprintf("%.0f ready %s on nodes that are about to be lost, %.0f more expected: %.0f more requested",
			r.A, plural(r.A, "replica"), r.B, r.A+r.B)
	case RuleConstrained:
		next := "tried again all the time"
		if !r.Until.IsZero() {
			next = "next try at " + clock(r.Until)
		}
		cause := r.Cause.String()
		if r.Name != "" {
			cause += " of " + r.Name
		}
		return fmt.Sprintf("%s: %.0f %s no node; %s", cause, r.A, plural(r.A, "replica gets", "replicas get"), next)
	case RuleBuffer:
		return fmt.Sprintf("known demand at %s: a CapacityBuffer keeps nodes for %.0f %s", clock(r.Until), r.A, plural(r.A, "replica"))
	}
	return ""
}

func times(n float64) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" %.0f times", n)
}

// plural returns forms[0] if n is 1, and otherwise forms[1]. If forms has one element, the plural is that element with an s.
func plural(n float64, forms ...string) string {
	switch {
	case n == 1:
		return forms[0]
	case len(forms) > 1:
		return forms[1]
	}
	return forms[0] + "s"
}

// clock returns the time of day of t with the name of its zone. The end of a window is in the zone of the window, and every other time is
// in UTC. For the zero time it returns "further notice".
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
