package capacity

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

const (
	// burstWindow and minBurst define a burst: at least minBurst nodes were lost within burstWindow. More losses usually follow a burst.
	burstWindow = 5 * time.Minute
	minBurst    = 2
	// rateWindow is the time over which the rate of losses is computed. One loss in this time is not sufficient to compute a rate.
	rateWindow = time.Hour
	// interruptionSpan is the duration of one interruption. When a provider needs capacity, it takes several nodes within seconds. Losses
	// that are less than interruptionSpan apart count as one interruption.
	interruptionSpan = 30 * time.Second
	// deviations is the number of standard deviations by which the reserve of replicas exceeds the expected losses. If losses are normally
	// distributed, they exceed the reserve in one of forty cold starts.
	deviations = 2
)

// exposure counts the ready replicas and pods on spot nodes without an interruption notice. The provider can take these nodes at any time.
type exposure struct {
	pods   int64   // ready pods of the group's workloads, including those of the reserve
	needed int32   // number of the ready replicas that are necessary for the demand
	nodes  float64 // spot nodes with these pods; of a node that also has other ready pods, only the share of these pods is added
}

// addAtRisk adds two numbers of replicas to the targets. The first replaces ready replicas on nodes that the provider is about to take. The
// second is the reserve for expected further losses. The provider gives notice only two minutes before it takes a node, and a cold start
// takes longer, so the reserve must be ready before a notice.
func (t *tick) addAtRisk() {
	var noticed, expected float64
	var all exposure
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		risk, replicas, needed := t.exposed(w)
		all.pods, all.needed = all.pods+int64(replicas)*int64(w.size()), all.needed+needed
		t.d.Advice[i].AtRisk = risk
		noticed += float64(risk)
	}
	lost := int32(0)
	if nodes := t.expectedLosses(); nodes > 0 {
		all.nodes = t.exposedNodes()
		lost = all.replicasLostWith(nodes)
	}
	if reserve := t.s.Reserve.Step(t.at, lost, t.s.Move.Step == statemachine.NoMove); reserve > 0 && all.needed > 0 {
		expected = t.addReserve(reserve, all.needed)
	}
	if noticed+expected > 0 {
		t.because(explain.Reason{Rule: explain.RuleAtRisk, Pool: -1, A: noticed, B: expected})
	}
}

// addReserve distributes the reserve over the workloads, in proportion to the number of their exposed replicas that are necessary for the
// demand. needed is the sum of these replicas over all workloads. It returns the number of replicas that were added, which can exceed the
// reserve, because each share is rounded up.
func (t *tick) addReserve(reserve, needed int32) (added float64) {
	for i := range t.o.Workloads {
		_, _, n := t.exposed(&t.o.Workloads[i])
		more := int32((int64(reserve)*int64(n) + int64(needed) - 1) / int64(needed))
		t.d.Advice[i].AtRisk += more
		added += float64(more)
	}
	return added
}

// replicasLostWith returns how many replicas are expected to be lost if the provider takes the given number of nodes. The result is at most
// half of the exposed replicas that are necessary for the demand. This bounds the cost if the provider takes all spot nodes.
func (e *exposure) replicasLostWith(nodes int32) int32 {
	if e.nodes <= 0 || e.needed == 0 {
		return 0
	}
	share := float64(float64(nodes) / e.nodes)
	// each lost pod counts as a lost replica, because each pod may belong to a different replica
	n := math.Ceil(float64(share*float64(e.pods)) - rounding)
	return int32(min(n, float64((e.needed+1)/2)))
}

// rounding is the tolerance for rounding errors when fractions are added.
const rounding = 1e-6

// exposedNodes returns the number of spot nodes with ready pods, as counted in exposure.nodes.
func (a *analysis) exposedNodes() (nodes float64) {
	a.eachPod(func(_ *Workload, p *Pod) {
		if n := a.node(p); n != nil && p.Ready && n.Type == Spot && !n.Notice && !n.Deleting {
			nodes += float64(nodepool.Units(p.GPUs)) / float64(max(nodepool.Units(n.Used), nodepool.Units(p.GPUs), 1))
		}
	})
	return nodes
}

// exposed returns three numbers of ready replicas of a workload:
//
//   - risk: replicas with a pod on a node that the provider is about to take.
//   - exposed: other replicas with a pod on a spot node.
//   - needed: how many of the exposed replicas are necessary for the demand.
func (a *analysis) exposed(w *Workload) (risk, exposed, needed int32) {
	w.eachReplica(func(pods []Pod) {
		ready, leaving, spot := w.complete(pods), false, false
		for j := range pods {
			p := &pods[j]
			switch n := a.node(p); {
			case n == nil || !p.Ready:
				ready = false
			case n.Notice && !n.Voluntary, n.Deleting && !n.Voluntary:
				leaving = true
			// a node that Karpenter is deleting is not included, because Karpenter replaces it
			case n.Type == Spot && !n.Notice && !n.Deleting:
				spot = true
			}
		}
		switch {
		case !ready:
		case leaving:
			risk++
		case spot:
			exposed++
		}
	})
	return risk, exposed, min(exposed, w.needs())
}

// expectedLosses returns the number of nodes that the provider is expected to take during one cold start, or 0 if fewer than minBurst nodes
// were lost in the last hour. It is the mean for this time, computed from the losses of the last hour, plus two standard deviations of a
// compound Poisson process, in which an interruption of n nodes adds n squared to the variance. In a burst, it is at least the number of
// nodes lost in the burst.
func (a *analysis) expectedLosses() int32 {
	var counted [statemachine.MaxEvidence]string
	var at [statemachine.MaxEvidence]int64
	lost, burst, squares := 0, 0, 0
	for i := range a.views() {
		for j := range a.o.Pools[i].Losses {
			l := &a.o.Pools[i].Losses[j]
			if !a.within(l.At, a.at-rateWindow.Milliseconds()) || !countOnce(&counted, lost, l.UID) {
				continue
			}
			at[lost] = statemachine.Stamp(l.At)
			squares++
			for _, other := range at[:lost] {
				if max(other-at[lost], at[lost]-other) < interruptionSpan.Milliseconds() {
					squares += 2
				}
			}
			if lost++; a.within(l.At, a.at-burstWindow.Milliseconds()) {
				burst++
			}
		}
	}
	if lost < minBurst {
		return 0
	}
	share := float64(max(a.g.LeadTime, burstWindow)) / float64(rateWindow)
	mean := float64(float64(lost) * share)
	n := int32(math.Round(mean + float64(deviations*math.Sqrt(float64(squares)*share))))
	if burst >= minBurst {
		n = max(n, int32(burst))
	}
	return n
}

// capTargets caps the targets of the group's workloads while no NodePool provides a node. The cap is one replica above the number of
// replicas that have nodes. The additional replica stays pending, so that Karpenter tries to launch a node for it. The result of these
// launches is the evidence for a fallback.
func (t *tick) capTargets() {
	c := &t.s.TargetCap
	closed := t.allClosed()
	in := statemachine.TargetCapInput{At: t.at, Group: t.g.Name, Closed: closed.cause != explain.CauseNone, Waiting: t.s.ShortSince != 0,
		Short: t.short}
	c.Apply(c.Event(in), in)
	var missing float64
	reason := explain.Reason{Rule: explain.RuleConstrained, Pool: closed.pool, Name: closed.resource, Cause: closed.cause,
		Until: statemachine.Instant(c.Until)}
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		if !c.On && !w.Quota {
			continue
		}
		limit := w.placed() + 1
		if !c.On {
			reason.Pool, reason.Cause, reason.Name = -1, explain.CauseQuota, ""
		}
		t.d.Advice[i].Cap = limit
		missing += float64(max(w.Uncapped-limit+1, 0))
	}
	if c.On {
		t.listClosed()
	}
	if missing > 0 || c.On {
		reason.A = missing
		t.because(reason)
	}
}

// placed returns the number of replicas of which all pods exist and are on nodes. If the API server rejects further pods of the workload,
// replicas with pending pods are also included.
func (w *Workload) placed() (n int32) {
	w.eachReplica(func(pods []Pod) {
		if !w.complete(pods) {
			return
		}
		for i := range pods {
			if !w.Quota && pods[i].Pending {
				return
			}
		}
		n++
	})
	return n
}
