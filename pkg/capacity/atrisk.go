package capacity

import (
	"math"
	"time"
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
	// deviations is the number of standard deviations by which the reserve exceeds the expected losses. If losses are normally distributed,
	// they exceed the reserve in one of forty cold starts.
	deviations = 2
	// reserveDecay is how long a smaller reserve must be sufficient before the reserve decreases by one replica. A reserve that decreased
	// too early would cost a cold start for each replica that is added again.
	reserveDecay = burstWindow
)

// reserve is the number of additional replicas that compensate for expected losses of spot nodes. It is not part of the record on a
// NodePool: a new leader computes it from the observed losses of the last hour.
type reserve struct {
	Size int32 `json:"size,omitempty"`
	At   int64 `json:"at,omitempty"` // when a reserve of this size was last needed
}

// exposure counts the ready replicas and pods on spot nodes without an interruption notice. The provider can take these nodes at any time.
type exposure struct {
	pods   int64   // ready pods of the group's workloads, including those of the reserve
	needed int32   // number of these replicas that demand needs
	nodes  float64 // spot nodes with these pods and other ready pods; a node counts by the share of these pods among its ready pods
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
	if reserve := t.s.Reserve.step(t.at, lost, t.s.Move.Step == noMove); reserve > 0 && all.needed > 0 {
		expected = t.addReserve(reserve, all.needed)
	}
	if noticed+expected > 0 {
		t.because(Reason{Rule: RuleAtRisk, Pool: -1, A: noticed, B: expected})
	}
}

// addReserve distributes the reserve over the workloads, in proportion to their exposed replicas that demand needs. needed is the sum of
// these replicas over all workloads. The result is the number of replicas that were added. It can exceed the reserve, because each share
// is rounded up.
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
// half of the replicas that demand needs. This bounds the cost if the provider takes all spot nodes.
func (e *exposure) replicasLostWith(nodes int32) int32 {
	if e.nodes <= 0 || e.needed == 0 {
		return 0
	}
	share := float64(float64(nodes) / e.nodes)
	n := math.Ceil(float64(share*float64(e.pods)) - rounding) // each pod may belong to a different replica
	return int32(min(n, float64((e.needed+1)/2)))
}

// rounding is the tolerance for rounding errors when fractions are added.
const rounding = 1e-6

// exposedNodes returns the number of spot nodes with ready pods, as counted in exposure.nodes.
func (a *analysis) exposedNodes() (nodes float64) {
	a.eachPod(func(_ *Workload, p *Pod) {
		if n := a.node(p); n != nil && p.Ready && n.Type == Spot && !n.Notice && !n.Deleting {
			nodes += float64(units(p.GPUs)) / float64(max(units(n.Used), units(p.GPUs), 1))
		}
	})
	return nodes
}

// exposed returns three numbers of ready replicas of a workload:
//
//   - risk: replicas with a pod on a node that the provider is about to take.
//   - exposed: other replicas with a pod on a spot node.
//   - needed: how many of the exposed replicas demand needs.
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
			case n.Type == Spot && !n.Notice && !n.Deleting: // without nodes that Karpenter disrupts, because Karpenter replaces these itself
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
	var counted [maxEvidence]string
	var at [maxEvidence]int64
	lost, burst, squares := 0, 0, 0
	for i := range a.views() {
		for j := range a.o.Pools[i].Losses {
			l := &a.o.Pools[i].Losses[j]
			if !a.within(l.At, a.at-rateWindow.Milliseconds()) || !countOnce(&counted, lost, l.UID) {
				continue
			}
			at[lost] = stamp(l.At)
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

// step updates the size of the reserve and returns it. The reserve increases immediately and decreases by at most one replica per
// reserveDecay. mayDecrease is false while a batch of replicas moves to spot: if the target decreased then, the ReplicaSet would delete the
// new replicas first.
func (r *reserve) step(at int64, needed int32, mayDecrease bool) int32 {
	switch {
	case needed >= r.Size:
		r.Size, r.At = needed, at
	case mayDecrease && at-r.At >= reserveDecay.Milliseconds():
		r.Size, r.At = r.Size-1, at
	}
	return r.Size
}
