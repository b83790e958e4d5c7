package capacity

import (
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

const (
	// maxAnnotationsPerTick is the maximum number of pod annotations that one tick writes. The next ticks write the remaining ones.
	maxAnnotationsPerTick = 16
	// minShield is the shortest duration that karpenter.sh/do-not-disrupt gets on a loading pod. It applies to groups without a lead time or
	// with a lead time below 15 minutes. Most models are loaded within this time. Karpenter counts the duration from the start of the pod,
	// so the protection also ends if gpuscaler does not remove the annotation.
	minShield = 30 * time.Minute
	// noticeCost is the deletion cost of a pod on a node with an interruption notice. It is lower than the costs that the rule
	// EmptyWholeNodes sets, so a ReplicaSet deletes this pod first. Only pods that are replaced in a return to spot have a lower cost.
	noticeCost = "-100"
	// lowestCost is lower than every other deletion cost.
	lowestCost = "-2147483647"
)

// differs reports whether the annotation does not have the needed value. If needed is "", the annotation must be absent.
func (a Annotation) differs(needed string) bool {
	return statemachine.CompareAnnotation(a.Value, a.Ours, needed).NeedsWrite(needed)
}

// annotatePods writes and removes two annotations of the workloads' pods: do-not-disrupt for pods that load a model, and the deletion
// cost, which determines the pods that a scale-in deletes first.
func (t *tick) annotatePods() {
	loading, packed, written := 0, 0, 0
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		for j := range w.Pods {
			p := &w.Pods[j]
			shield := t.shield(p)
			cost, rule := t.deletionCost(w, p)
			if cost != "" && rule == explain.RulePacking {
				packed++
			}
			if shield != "" && p.Loading {
				loading++
			}
			if written < maxAnnotationsPerTick && p.DoNotDisrupt.differs(shield) &&
				t.annotate(PodAnnotation{p.UID, p.Namespace, p.Name, DoNotDisrupt, shield, explain.RuleShield}) {
				written++
			}
			if written < maxAnnotationsPerTick && p.DeletionCost.differs(cost) &&
				t.annotate(PodAnnotation{p.UID, p.Namespace, p.Name, DeletionCost, cost, rule}) {
				written++
			}
		}
	}
	if loading > 0 {
		t.because(explain.Reason{Rule: explain.RuleShield, Pool: -1, A: float64(loading)})
	}
	if packed > 0 {
		t.because(explain.Reason{Rule: explain.RulePacking, Pool: -1, A: float64(packed)})
	}
}

// annotate adds an action that sets or removes an annotation, unless the same action was added within RepeatInterval. It reports whether
// it added the action.
func (t *tick) annotate(m PodAnnotation) bool {
	if t.s.Sent.Recently(m.UID, uint8(m.Kind), m.Value, t.at) {
		return false
	}
	t.d.Actions = append(t.d.Actions, m)
	return true
}

// shield returns the value of karpenter.sh/do-not-disrupt that a pod needs. The value is a duration if the pod loads a model, or if a
// successor of the pod loads a model. For every other pod, and if the cluster's Karpenter does not support durations, the value is "". The
// value "true" is never used, because it would protect the node until the pod is deleted.
func (t *tick) shield(p *Pod) string {
	if !t.g.StartupShield || t.g.Advisory || t.releasing || !t.o.Shields {
		return ""
	}
	if until := t.surgeEnd(p); until != 0 {
		return strconv.FormatInt((until-statemachine.Stamp(p.Since))/time.Minute.Milliseconds()+1, 10) + "m"
	}
	if !p.Loading {
		return ""
	}
	return strconv.Itoa(int(max(2*t.lead(), minShield)/time.Minute)) + "m"
}

// deletionCost returns the value of pod-deletion-cost that a pod needs, or "", and the rule that sets the value. A ReplicaSet deletes the
// pod with the lowest cost first.
func (t *tick) deletionCost(w *Workload, p *Pod) (string, explain.Rule) {
	if m := &t.s.Move; (m.Step == statemachine.Annotating || m.Step == statemachine.Shrinking) && m.Has(p.UID) {
		return lowestCost, explain.RuleMove
	}
	n := t.node(p)
	if n == nil || t.g.Advisory || t.releasing || p.Owner != OwnerReplicaSet || w.Paused {
		return "", explain.RulePacking
	}
	if t.isReplaced(p) {
		return surgeCost, explain.RuleSurge
	}
	if n.Notice && !n.Voluntary {
		// a replacement for this pod is already requested, so a scale-in must delete this pod and not the replacement
		return noticeCost, explain.RuleAtRisk
	}
	// Without EmptyWholeNodes, pods need a deletion cost only while two conditions are met: there are additional replicas for expected
	// losses, and more on-demand nodes run than the on-demand base requires. A scale-in then deletes idle replicas first, and then replicas
	// on on-demand nodes.
	rule := explain.RulePacking
	if !t.g.EmptyWholeNodes {
		if t.s.Reserve.Size == 0 || !t.paired() || t.aboveBase() == 0 {
			return "", rule
		}
		rule = explain.RuleAtRisk
	}
	if class := t.deletionClass(p, n); class > 0 {
		return strconv.Itoa(-10 * class), rule
	}
	return "", rule
}

// deletionClass returns how early a scale-in should delete a pod. Pods of a higher class are deleted first. 0 means no preference.
func (t *tick) deletionClass(p *Pod, n *Node) (class int) {
	if p.Idle {
		class += 4
	}
	if t.paired() && t.onDemand.has(p.Pool) && n.Type != Reserved && t.aboveBase() > 0 {
		class += 2
	}
	if t.g.EmptyWholeNodes && n.Used == p.GPUs && n.GPUs > p.GPUs {
		class++ // the last pod on a node with several units, whose deletion makes the node empty
	}
	return class
}
