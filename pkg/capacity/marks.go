package capacity

import (
	"strconv"
	"time"
)

// marksAtOnce bounds what one tick writes to pods; the rest follows in the next ticks.
const marksAtOnce = 16

// shieldLeast is how long a loading pod is shielded where the group has no lead time: most models load within it. The duration
// counts from the pod's start, so a shield ends by itself.
const shieldLeast = 30 * time.Minute

// doomedCost is below every cost of packing.
const doomedCost = "-100"

// marks keeps the annotations of the workloads' pods: the startup shield, and which pod goes first in a scale-in.
func (t *tick) marks() {
	loading, first, written := 0, 0, 0
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		for j := range w.Pods {
			p := &w.Pods[j]
			shield, cost, rule := t.shield(p), "", RulePacking
			if cost, rule = t.cost(w, p); cost != "" && rule == RulePacking {
				first++
			}
			if shield != "" {
				loading++
			}
			for _, m := range [...]PodAnnotation{
				{p.UID, p.Namespace, p.Name, DoNotDisrupt, shield, RuleShield},
				{p.UID, p.Namespace, p.Name, DeletionCost, cost, rule},
			} {
				if written < marksAtOnce && t.mark(p, m) {
					written++
				}
			}
		}
	}
	if loading > 0 {
		t.because(Reason{Rule: RuleShield, Pool: -1, A: float64(loading)})
	}
	if first > 0 {
		t.because(Reason{Rule: RulePacking, Pool: -1, A: float64(first)})
	}
}

// mark writes one annotation where it differs and is nobody else's.
func (t *tick) mark(p *Pod, m PodAnnotation) bool {
	have := p.DoNotDisrupt
	if m.Kind == DeletionCost {
		have = p.DeletionCost
	}
	if have.Value == m.Value && (m.Value != "" || !have.Ours) || have.Value != "" && !have.Ours || have.Value == "" && m.Value == "" {
		return false
	}
	if t.s.repeats(&m) {
		return false
	}
	t.d.Actions = append(t.d.Actions, m)
	return true
}

// shield is what a pod's do-not-disrupt should be: only while it loads, and only where this Karpenter reads a duration. "true"
// would hold the node for as long as the pod lives.
func (t *tick) shield(p *Pod) string {
	if !t.g.StartupShield || t.g.Advisory || t.releasing || !t.o.Shields || !p.Loading {
		return ""
	}
	return strconv.Itoa(int(max(2*t.g.LeadTime, shieldLeast)/time.Minute)) + "m"
}

// cost is what a pod's deletion cost should be, and by which rule. A ReplicaSet takes the lowest first.
func (t *tick) cost(w *Workload, p *Pod) (string, Rule) {
	if m := &t.s.move; (m.step == marking || m.step == shrinking) && m.has(p.UID) {
		return lowestCost, RuleMove
	}
	n := t.node(p)
	if n == nil || t.g.Advisory || t.releasing || p.Owner != OwnerReplicaSet || w.Paused {
		return "", RulePacking
	}
	if n.Notice && !n.Voluntary {
		return doomedCost, RuleAtRisk // its successor is asked for: no scale-in should take that one instead
	}
	// What stands by on demand goes first when it is no longer needed, but for replicas that do nothing.
	rule, standing := RulePacking, t.s.reserve.size > 0 && t.paired() && t.aboveBase() > 0
	switch {
	case t.g.EmptyWholeNodes:
	case standing:
		rule = RuleAtRisk
	default:
		return "", rule
	}
	class := 0
	if p.Idle {
		class += 4
	}
	if t.paired() && p.Pool == t.onDemand && t.aboveBase() > 0 {
		class += 2
	}
	if t.g.EmptyWholeNodes && n.Used == p.GPUs && n.GPUs > p.GPUs {
		class++ // the last one on a greater node
	}
	if class == 0 {
		return "", rule
	}
	return strconv.Itoa(-10 * class), rule
}
