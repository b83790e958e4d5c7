package capacity

import (
	"strconv"
	"time"
)

const (
	// maxAnnotationsPerTick bounds the writes to pods of one tick. The rest follows in the next ticks.
	maxAnnotationsPerTick = 16
	// minShield is how long a loading pod is protected in a group without a lead time: most models load within it. The duration counts
	// from the start of the pod, so the protection ends by itself.
	minShield = 30 * time.Minute
	// noticeCost is lower than every cost of scale-in packing.
	noticeCost = "-100"
	// repeatInterval is how long an observation may take to show a write before the write is repeated.
	repeatInterval = 10 * time.Second
	// shutdownRepeatInterval replaces repeatInterval during Shutdown, which has only seconds: a repeated patch costs less than a limit
	// that stays.
	shutdownRepeatInterval = 500 * time.Millisecond
)

// annotationState is the state of one annotation of a pod compared with the value that the rules need:
//
//	state                needed  action
//	annotationAbsent     none    nothing
//	annotationAbsent     a value set, unless it was written within repeatInterval
//	annotationForeign    any     nothing: the value of another manager stays
//	annotationEqual      a value nothing
//	annotationDifferent  a value set, unless it was written within repeatInterval
//	annotationDifferent  none    clear, unless it was written within repeatInterval
type annotationState uint8

const (
	annotationAbsent    annotationState = iota // no value, and none of ours
	annotationForeign                          // a value of another manager
	annotationEqual                            // ours, as needed
	annotationDifferent                        // ours, with another value
	numAnnotationStates
)

// compare returns the state of an annotation for a needed value; "" needs none.
func (a Annotation) compare(needed string) annotationState {
	switch {
	case a.Value == "":
		return annotationAbsent
	case !a.Ours:
		return annotationForeign
	case a.Value == needed:
		return annotationEqual
	}
	return annotationDifferent
}

// needsWrite reports whether an annotation in this state must be written.
func (s annotationState) needsWrite(needed string) bool {
	return s == annotationDifferent || s == annotationAbsent && needed != ""
}

// sentAnnotation is an annotation that was written, as a hash of the pod, the kind and the value.
type sentAnnotation struct {
	Key uint64 `json:"key,omitempty"`
	At  int64  `json:"at,omitempty"`
}

// sentRecently reports whether the same annotation was written within repeatInterval, and remembers it otherwise.
func (s *State) sentRecently(m *PodAnnotation) bool {
	key := hash(m.UID, string(rune('a'+m.Kind)), m.Value)
	for i := range s.Sent {
		if s.Sent[i].Key == key && s.Sent[i].At != 0 && s.At-s.Sent[i].At < repeatInterval.Milliseconds() {
			return true
		}
	}
	s.Sent[s.SentNext%uint8(len(s.Sent))] = sentAnnotation{key, s.At}
	s.SentNext++
	return false
}

// repeatDue reports whether a write of the given time is repeated because no observation shows it.
func (t *tick) repeatDue(at int64) bool {
	interval := repeatInterval
	if t.leaving {
		interval = shutdownRepeatInterval
	}
	return t.at-at >= interval.Milliseconds()
}

// annotatePods keeps the annotations of the workloads' pods: the startup shield, and the order of a scale-in.
func (t *tick) annotatePods() {
	loading, packed, written := 0, 0, 0
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		for j := range w.Pods {
			p := &w.Pods[j]
			shield := t.shield(p)
			cost, rule := t.deletionCost(w, p)
			if cost != "" && rule == RulePacking {
				packed++
			}
			if shield != "" {
				loading++
			}
			for _, m := range [...]PodAnnotation{
				{p.UID, p.Namespace, p.Name, DoNotDisrupt, shield, RuleShield},
				{p.UID, p.Namespace, p.Name, DeletionCost, cost, rule},
			} {
				if written < maxAnnotationsPerTick && t.annotate(p, m) {
					written++
				}
			}
		}
	}
	if loading > 0 {
		t.because(Reason{Rule: RuleShield, Pool: -1, A: float64(loading)})
	}
	if packed > 0 {
		t.because(Reason{Rule: RulePacking, Pool: -1, A: float64(packed)})
	}
}

// annotate writes one annotation where it must, and reports whether it did.
func (t *tick) annotate(p *Pod, m PodAnnotation) bool {
	current := p.DoNotDisrupt
	if m.Kind == DeletionCost {
		current = p.DeletionCost
	}
	if !current.compare(m.Value).needsWrite(m.Value) || t.s.sentRecently(&m) {
		return false
	}
	t.d.Actions = append(t.d.Actions, m)
	return true
}

// shield returns the value of karpenter.sh/do-not-disrupt that a pod needs: a duration while it loads, if this Karpenter reads one.
// The value "true" would keep the node for as long as the pod exists.
func (t *tick) shield(p *Pod) string {
	if !t.g.StartupShield || t.g.Advisory || t.releasing || !t.o.Shields || !p.Loading {
		return ""
	}
	return strconv.Itoa(int(max(2*t.g.LeadTime, minShield)/time.Minute)) + "m"
}

// deletionCost returns the deletion cost that a pod needs, and the rule that needs it. A ReplicaSet deletes the pod with the lowest cost
// first.
func (t *tick) deletionCost(w *Workload, p *Pod) (string, Rule) {
	if m := &t.s.Move; (m.Step == annotating || m.Step == shrinking) && m.has(p.UID) {
		return lowestCost, RuleMove
	}
	n := t.node(p)
	if n == nil || t.g.Advisory || t.releasing || p.Owner != OwnerReplicaSet || w.Paused {
		return "", RulePacking
	}
	if n.Notice && !n.Voluntary {
		return noticeCost, RuleAtRisk // its successor is requested: a scale-in must not delete that one instead
	}
	// The reserve on demand is deleted first when it is not needed any more, after replicas that do nothing.
	rule := RulePacking
	if !t.g.EmptyWholeNodes {
		if t.s.Reserve.Size == 0 || !t.paired() || t.aboveBase() == 0 {
			return "", rule
		}
		rule = RuleAtRisk
	}
	if class := t.deletionClass(p, n); class > 0 {
		return strconv.Itoa(-10 * class), rule
	}
	return "", rule
}

// deletionClass returns how early a scale-in should delete a pod: higher classes first, 0 without a preference.
func (t *tick) deletionClass(p *Pod, n *Node) (class int) {
	if p.Idle {
		class += 4
	}
	if t.paired() && p.Pool == t.onDemand && t.aboveBase() > 0 {
		class += 2
	}
	if t.g.EmptyWholeNodes && n.Used == p.GPUs && n.GPUs > p.GPUs {
		class++ // the last pod on a larger node
	}
	return class
}
