package explain

import (
	"fmt"
	"time"
)

// Text returns the message for users. Most messages have the form "cause: effect". The name of the rule is not part of the message.
func (r Reason) Text(names Names) string {
	switch r.Rule {
	case RuleDemand:
		return fmt.Sprintf("pods and policies request %s: policies %.0f, other pods %.0f", names.amount(r.A+r.B), r.A, r.B)
	case RuleForeignEdit:
		return fmt.Sprintf("another field manager changed %s of NodePool %s%s: gpuscaler keeps this value and does not change it before %s",
			r.Name, names.pool(r.Pool), times(r.A), clock(r.Until))
	case RuleSchedule:
		return fmt.Sprintf("schedule %s of group %s is open: its NodePool settings apply until %s", r.Name, names.Group, clock(r.Until))
	case RuleRelease:
		return "the overrides of group " + names.Group + " end: gpuscaler restores the owner's value of every NodePool field"
	case RuleBase, RuleFallback, RuleProbe, RuleSpotWaitTimeout:
		return r.spotText(names)
	case RuleReturn, RuleMove:
		return r.returnText(names)
	case RuleZeroLimit, RuleNoZeroLimit, RuleConsolidationFreeze:
		return r.idleText(names)
	}
	return r.podText(names)
}

// spotText returns the text of the rules that choose between spot and on-demand for new nodes.
func (r Reason) spotText(names Names) string {
	pool, all, spot := names.pool(r.Pool), names.side(r.Pool), names.phrase(names.Spot, -1)
	switch {
	case r.Rule == RuleBase:
		return fmt.Sprintf("onDemandBaseCapacity is %s: Karpenter uses %s first until %s this capacity; %s %s now",
			names.amount(r.A), all.text, all.verb("it has", "they have"), all.verb("it has", "they have"), names.amount(r.B))
	case r.Rule == RuleSpotWaitTimeout && r.Until.IsZero():
		return fmt.Sprintf("new pods use spot first: %s of NodePool %s is %.0f; no pod is waiting", names.limitName(), pool, r.A)
	case r.Rule == RuleSpotWaitTimeout:
		return fmt.Sprintf("pods wait for a spot node: %s of NodePool %s stays %.0f until spotWaitTimeout ends at %s",
			names.limitName(), pool, r.A, clock(r.Until))
	case r.Until.IsZero():
		return fmt.Sprintf("pods wait for a node, and %s: gpuscaler does not limit spot %s",
			r.Cause.text(names.phrase(names.Alternative, r.Pool), ""), all.text)
	case r.Rule == RuleProbe && r.A == 0:
		return fmt.Sprintf("the fallback is over: NodePool %s may grow, to test whether spot has capacity, until %s; no limit applies to the "+
			"devices of a DeviceClass", pool, clock(r.Until))
	case r.Rule == RuleProbe:
		return fmt.Sprintf("the fallback is over: NodePool %s may grow by one node to %s, to test whether spot has capacity, until %s",
			pool, names.amount(r.A), clock(r.Until))
	}
	evidence := ""
	switch r.Cause {
	case CauseRefused:
		evidence = fmt.Sprintf(" (%.0f of %.0f launches)", r.A, r.B)
	case CauseLost:
		evidence = fmt.Sprintf(" (%.0f of %.0f nodes)", r.A, r.B)
	}
	return fmt.Sprintf("%s%s: Karpenter uses %s first; the next test of spot is at %s",
		r.Cause.text(spot, ""), evidence, all.text, clock(r.Until))
}

func (r Reason) returnText(names Names) string {
	pools := names.side(r.Pool)
	switch {
	case r.Rule == RuleMove:
		return fmt.Sprintf("replicas of %s move from on-demand to %s: %.0f %s ready, %.0f needed",
			r.Name, pools.text, r.A, plural(r.A, "replica is", "replicas are"), r.B)
	case r.Cause == CauseLimit:
		limit := "the limit"
		if r.Name == StaticReplicas {
			limit = r.Name
		}
		return fmt.Sprintf("%s: replicas with %s stay on %s; raise %s to move them to spot",
			r.Cause.text(pools, r.Name), names.amount(r.A), names.phrase(names.Alternative, r.Pool).text, limit)
	}
	next := "the next one now"
	if !r.Until.IsZero() {
		next = "the next one at " + clock(r.Until) + " or later"
	}
	return fmt.Sprintf("replicas with %s on %s can run on spot: gpuscaler moves at most %.0f %s per hour, %s",
		names.amount(r.A), pools.text, r.B, plural(r.B, "node"), next)
}

// idleText returns the text of the rules that keep or remove unused nodes.
func (r Reason) idleText(names Names) string {
	switch r.Rule {
	case RuleZeroLimit:
		return fmt.Sprintf("%s: %s is 0 in every NodePool of group %s", NotLifted.text(names.Resource), names.limitName(), names.Group)
	case RuleNoZeroLimit:
		if lift := LiftReason(r.A); lift != NotLifted {
			return fmt.Sprintf("%s: gpuscaler does not set %s of group %s to 0", lift.text(names.Resource), names.limitName(), names.Group)
		}
		return fmt.Sprintf("%s: %s becomes 0 in every NodePool of group %s at %s", NotLifted.text(names.Resource), names.limitName(), names.Group,
			clock(r.Until))
	}
	pool, until := names.pool(r.Pool), clock(r.Until)
	switch {
	case r.B == 2:
		return fmt.Sprintf("the reason for the freeze has ended: Karpenter may consolidate NodePool %s again from %s", pool, until)
	case r.A > 0:
		empty := clock(time.Unix(int64(r.A), 0).UTC())
		return fmt.Sprintf("known demand arrives: Karpenter keeps the empty nodes of NodePool %s until %s and its nodes with pods until %s",
			pool, empty, until)
	case r.B > 0:
		return fmt.Sprintf("gpuscaler itself moves replicas to spot in batches: Karpenter replaces no node with pods in NodePool %s until %s",
			pool, until)
	}
	return fmt.Sprintf("known demand has arrived: Karpenter replaces no node with pods in NodePool %s until %s", pool, until)
}

// podText returns the text of the rules about replicas and their pods.
func (r Reason) podText(names Names) string {
	switch r.Rule {
	case RuleShield:
		return fmt.Sprintf("%.0f %s not ready yet: Karpenter does not disrupt %s",
			r.A, plural(r.A, "pod has a node and is", "pods have a node and are"), plural(r.A, "it", "them"))
	case RulePacking:
		return fmt.Sprintf("emptyWholeNodes is true: a scale-in deletes %.0f annotated %s first, so that nodes become empty",
			r.A, plural(r.A, "pod"))
	case RuleAtRisk:
		return fmt.Sprintf("the provider takes nodes: %.0f ready %s about to be lost, and %.0f more %s expected to be lost: "+
			"%.0f %s added to the targets", r.A, plural(r.A, "replica is", "replicas are"), r.B, plural(r.B, "is", "are"),
			r.A+r.B, plural(r.A+r.B, "replica is", "replicas are"))
	case RuleSurge:
		return r.surgeText()
	case RuleConstrained:
		return r.constrainedText(names)
	case RuleBuffer:
		return fmt.Sprintf("known demand starts at %s: CapacityBuffers keep nodes for %.0f %s", clock(r.Until), r.A, plural(r.A, "replica"))
	}
	return ""
}

// surgeText returns why a workload has one more replica before Karpenter evicts one of its replicas.
func (r Reason) surgeText() string {
	cause := "Karpenter has chosen node " + r.Node + " for disruption"
	if r.Cause == CauseDrifted {
		cause = "Karpenter replaces node " + r.Node + ", which has drifted"
	}
	switch r.A {
	case 0:
		return fmt.Sprintf("%s: %s gets one more replica before its replica on this node is evicted, until %s at the latest",
			cause, r.Name, clock(r.Until))
	case 1:
		return fmt.Sprintf("%s: the successor of the replica of %s is ready on another node, and the replica on this node is deleted first",
			cause, r.Name)
	}
	return fmt.Sprintf("%s: no successor of the replica of %s was ready on another node in time, and the additional replica is removed; "+
		"the next attempt is after %s", cause, r.Name, clock(r.Until))
}

// constrainedText returns why requested replicas get no node. At most one of these replicas stays pending. The pods of the remaining
// replicas are not created.
func (r Reason) constrainedText(names Names) string {
	replicas := fmt.Sprintf("%.0f requested %s no node", r.A, plural(r.A, "replica has", "replicas have"))
	if r.Cause == CauseQuota {
		return "the API server rejects pods (ResourceQuota, LimitRange or admission policy): " + replicas +
			"; raise the limit or lower maxReplicas"
	}
	if r.Cause == CauseInfeasible {
		return "the autoscaler reports Infeasible for a CapacityBuffer, that is, no node that it may add has space for a replica: " + replicas +
			"; lower the requests of the pods, or let the autoscaler add larger nodes"
	}
	if names.Selector != "" {
		return fmt.Sprintf("no node is added to group %s (%s): %s, and the targets are capped until the next attempt at %s", names.Group,
			names.fleetCause(r), replicas, clock(r.Until))
	}
	return fmt.Sprintf("no NodePool of group %s launches nodes (%s): %s, and the targets are capped until the next attempt at %s",
		names.Group, r.Cause.text(names.one(r.Pool), r.Name), replicas, clock(r.Until))
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
