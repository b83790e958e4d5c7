package capacity

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var ruleNames = [numRules]string{
	RuleNone: "none", RuleDemand: "demand", RuleForeignEdit: "foreign edit", RuleSchedule: "schedule", RuleBase: "on-demand base",
	RuleFallback: "spot fallback", RuleProbe: "spot probe", RuleReturn: "return to spot", RuleMove: "move",
	RuleSpotWaitTimeout: "spot wait timeout", RuleZeroLimit: "zero limit", RuleNoZeroLimit: "no zero limit",
	RuleConsolidationFreeze: "consolidation freeze", RuleShield: "startup shield", RulePacking: "scale-in packing",
	RuleAtRisk: "nodes at risk", RuleConstrained: "CapacityConstrained", RuleBuffer: "buffer", RuleRelease: "restore",
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

// text returns the cause as a clause about the NodePools that p names. resource is the resource of a limit, or "" if it is unknown.
func (c Cause) text(p phrase, resource string) string {
	switch c {
	case CauseRefused:
		return "launches in " + p.text + " failed for lack of capacity"
	case CauseLost:
		return "the provider took nodes of " + p.text
	case CauseSpotWaitTimeout:
		return "pods waited for " + p.text + " longer than spotWaitTimeout"
	case CauseLimit:
		if resource != "" && !p.several {
			return p.text + " has reached limits[" + resource + "]"
		}
		return p.text + p.verb(" has reached its limits", " have reached their limits")
	case CauseNotReady:
		return p.text + p.verb(" is not ready", " are not ready")
	case CauseProbe:
		return "the probe of " + p.text + " failed"
	}
	return "the cause is unknown"
}

// text returns the reason why the limit is not 0, as a clause.
func (l LiftReason) text(resource string) string {
	switch l {
	case LiftedByDemand:
		return "a policy requests " + resource
	case LiftedByPendingPod:
		return "a pod that may need " + resource + " is pending"
	case LiftedByUnknownDemand:
		return "the demand for " + resource + " is unknown"
	case LiftedByKnownDemand:
		return "known demand for " + resource + " starts soon"
	case LiftedByPods:
		return "pods that request " + resource + " run"
	}
	return "no pod or policy requests " + resource
}

// pool returns the name of a NodePool of the group, and the name of the group for an index without a NodePool.
func (g *Group) pool(i int8) string {
	if i < 0 || int(i) >= len(g.Pools) {
		return g.Name
	}
	return g.Pools[i].Name
}

// namesOf returns the names of the group's NodePools of a capacity type, in the order of the group.
func (g *Group) namesOf(kind CapacityType) (names []string) {
	for i := range g.Pools {
		if g.Pools[i].Type == kind {
			names = append(names, g.Pools[i].Name)
		}
	}
	return names
}

// enumerate joins names for a message, as in "a, b and c".
func enumerate(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// phrase names one or several NodePools in a message: "NodePool a", or "NodePools a and b".
type phrase struct {
	text    string
	several bool
}

// verb returns the form of a verb for the number of NodePools.
func (p phrase) verb(one, several string) string {
	if p.several {
		return several
	}
	return one
}

// one returns the phrase of a single NodePool.
func (g *Group) one(i int8) phrase { return phrase{text: "NodePool " + g.pool(i)} }

// side returns the phrase of all NodePools that have the capacity type of NodePool i.
func (g *Group) side(i int8) phrase {
	if i < 0 || int(i) >= len(g.Pools) {
		return g.one(i)
	}
	return g.ofType(g.Pools[i].Type, i)
}

// ofType returns the phrase of all NodePools of a capacity type. If the group has none, it returns the phrase of NodePool i.
func (g *Group) ofType(kind CapacityType, i int8) phrase {
	names := g.namesOf(kind)
	switch len(names) {
	case 0:
		return g.one(i)
	case 1:
		return phrase{text: "NodePool " + names[0]}
	}
	return phrase{text: "NodePools " + enumerate(names), several: true}
}

// limitName returns the name of the limit of the group's resource below spec.
func (g *Group) limitName() string { return FieldLimit.Name(g.Resource) }

// amount returns an amount of the group's resource, such as 3 GPUs. An amount of a resource other than whole GPUs has its name.
func (g *Group) amount(n float64) string {
	if strings.HasSuffix(g.Resource, "/gpu") {
		return fmt.Sprintf("%.0f %s", n, plural(n, "GPU"))
	}
	return fmt.Sprintf("%.0f %s", n, g.Resource)
}

// Text returns the message for users. Most messages have the form "cause: effect". The name of the rule is not part of the message.
func (r Reason) Text(g *Group) string {
	switch r.Rule {
	case RuleDemand:
		return fmt.Sprintf("pods and policies request %s: policies %.0f, other pods %.0f", g.amount(r.A+r.B), r.A, r.B)
	case RuleForeignEdit:
		return fmt.Sprintf("another field manager changed %s of NodePool %s%s: gpuscaler keeps this value and does not change it before %s",
			r.Name, g.pool(r.Pool), times(r.A), clock(r.Until))
	case RuleSchedule:
		return fmt.Sprintf("schedule %s of group %s is open: its NodePool settings apply until %s", r.Name, g.Name, clock(r.Until))
	case RuleRelease:
		return "the overrides of group " + g.Name + " end: gpuscaler restores the owner's value of every NodePool field"
	case RuleBase, RuleFallback, RuleProbe, RuleSpotWaitTimeout:
		return r.spotText(g)
	case RuleReturn, RuleMove:
		return r.returnText(g)
	case RuleZeroLimit, RuleNoZeroLimit, RuleConsolidationFreeze:
		return r.idleText(g)
	}
	return r.podText(g)
}

// spotText returns the text of the rules that choose between spot and on-demand for new nodes.
func (r Reason) spotText(g *Group) string {
	pool, all, spot := g.pool(r.Pool), g.side(r.Pool), g.ofType(Spot, -1)
	switch {
	case r.Rule == RuleBase:
		return fmt.Sprintf("onDemandBaseCapacity is %s: Karpenter uses %s first until %s this capacity; %s %s now",
			g.amount(r.A), all.text, all.verb("it has", "they have"), all.verb("it has", "they have"), g.amount(r.B))
	case r.Rule == RuleSpotWaitTimeout && r.Until.IsZero():
		return fmt.Sprintf("new pods use spot first: %s of NodePool %s is %.0f; no pod is waiting", g.limitName(), pool, r.A)
	case r.Rule == RuleSpotWaitTimeout:
		return fmt.Sprintf("pods wait for a spot node: %s of NodePool %s stays %.0f until spotWaitTimeout ends at %s",
			g.limitName(), pool, r.A, clock(r.Until))
	case r.Until.IsZero():
		return fmt.Sprintf("pods wait for a node, and %s: gpuscaler does not limit spot %s",
			r.Cause.text(g.ofType(g.alternative(), r.Pool), ""), all.text)
	case r.Rule == RuleProbe && r.A == 0:
		return fmt.Sprintf("the fallback is over: NodePool %s may grow, to test whether spot has capacity, until %s; no limit applies to the "+
			"devices of a DeviceClass", pool, clock(r.Until))
	case r.Rule == RuleProbe:
		return fmt.Sprintf("the fallback is over: NodePool %s may grow by one node to %s, to test whether spot has capacity, until %s",
			pool, g.amount(r.A), clock(r.Until))
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

func (r Reason) returnText(g *Group) string {
	pools := g.side(r.Pool)
	switch {
	case r.Rule == RuleMove:
		return fmt.Sprintf("replicas of %s move from on-demand to %s: %.0f %s ready, %.0f needed",
			r.Name, pools.text, r.A, plural(r.A, "replica is", "replicas are"), r.B)
	case r.Cause == CauseLimit:
		return fmt.Sprintf("%s: replicas with %s stay on %s; raise the limit to move them to spot",
			r.Cause.text(pools, r.Name), g.amount(r.A), g.ofType(g.alternative(), r.Pool).text)
	}
	next := "the next one now"
	if !r.Until.IsZero() {
		next = "the next one at " + clock(r.Until) + " or later"
	}
	return fmt.Sprintf("replicas with %s on %s can run on spot: gpuscaler moves at most %.0f %s per hour, %s",
		g.amount(r.A), pools.text, r.B, plural(r.B, "node"), next)
}

// idleText returns the text of the rules that keep or remove unused nodes.
func (r Reason) idleText(g *Group) string {
	switch r.Rule {
	case RuleZeroLimit:
		return fmt.Sprintf("%s: %s is 0 in every NodePool of group %s", NotLifted.text(g.Resource), g.limitName(), g.Name)
	case RuleNoZeroLimit:
		if lift := LiftReason(r.A); lift != NotLifted {
			return fmt.Sprintf("%s: gpuscaler does not set %s of group %s to 0", lift.text(g.Resource), g.limitName(), g.Name)
		}
		return fmt.Sprintf("%s: %s becomes 0 in every NodePool of group %s at %s", NotLifted.text(g.Resource), g.limitName(), g.Name,
			clock(r.Until))
	}
	pool, until := g.pool(r.Pool), clock(r.Until)
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
func (r Reason) podText(g *Group) string {
	switch r.Rule {
	case RuleShield:
		return fmt.Sprintf("%.0f %s not ready yet: Karpenter does not disrupt %s",
			r.A, plural(r.A, "pod has a node and is", "pods have a node and are"), plural(r.A, "it", "them"))
	case RulePacking:
		return fmt.Sprintf("emptyWholeNodes is true: a scale-in deletes %.0f annotated %s first, so that nodes become empty",
			r.A, plural(r.A, "pod"))
	case RuleAtRisk:
		return fmt.Sprintf("the provider takes nodes: %.0f ready %s about to be lost, %.0f more probably will be: %.0f %s added to the targets",
			r.A, plural(r.A, "replica is", "replicas are"), r.B, r.A+r.B, plural(r.A+r.B, "replica is", "replicas are"))
	case RuleConstrained:
		return r.constrainedText(g)
	case RuleBuffer:
		return fmt.Sprintf("known demand starts at %s: CapacityBuffers keep nodes for %.0f %s", clock(r.Until), r.A, plural(r.A, "replica"))
	}
	return ""
}

// constrainedText returns why requested replicas get no node. At most one of these replicas stays pending; the others are not created.
func (r Reason) constrainedText(g *Group) string {
	replicas := fmt.Sprintf("%.0f requested %s no node", r.A, plural(r.A, "replica has", "replicas have"))
	if r.Cause == CauseQuota {
		return "the API server rejects pods (ResourceQuota, LimitRange or admission policy): " + replicas +
			"; raise the limit or lower maxReplicas"
	}
	return fmt.Sprintf("no NodePool of group %s launches nodes (%s): %s, and the targets are capped until the next attempt at %s",
		g.Name, r.Cause.text(g.one(r.Pool), r.Name), replicas, clock(r.Until))
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
