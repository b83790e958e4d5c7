package capacity

import (
	"math"
	"time"
)

const (
	// burstWindow and minBurst define a burst of losses: where two nodes were lost within minutes, more losses follow.
	burstWindow = 5 * time.Minute
	minBurst    = 2
	// rateWindow is how long losses count towards their rate. One loss is no rate.
	rateWindow = time.Hour
	// interruptionSpan is the length of one interruption: the provider takes the nodes of a full market within seconds.
	interruptionSpan = 30 * time.Second
	// deviations is how far above the mean the reserve is: with normally distributed losses, one cold start of forty loses more.
	deviations = 2
	// reserveDecay is how long fewer must suffice before the reserve falls by one: each replica that is added again is a cold start.
	reserveDecay = burstWindow
)

// reserve is the number of additional replicas against losses. It is not part of a record: a new leader reads the losses of the last
// hour again.
type reserve struct {
	Size int32 `json:"size,omitempty"`
	At   int64 `json:"at,omitempty"` // when so many were last needed
}

// exposure is what is ready on spot nodes without an interruption notice.
type exposure struct {
	pods   int64   // of the replicas of our workloads, the reserve included
	needed int32   // replicas of these that demand needs
	nodes  float64 // that carry them and other ready pods: a node whose pods are half of them counts half
}

// addAtRisk requests successors for ready replicas on nodes with an interruption notice, and further replicas for expected losses: the
// notice is two minutes and a cold start takes longer, so a replica must exist before the loss.
func (t *tick) addAtRisk() {
	var noticed, expected float64
	all := t.exposure()
	reserve := t.s.Reserve.step(t.at, all.replicasLostWith(t.expectedLosses()), t.s.Move.Step == noMove)
	for i := range t.o.Workloads {
		risk, _, needed := t.exposed(&t.o.Workloads[i])
		more := int32(0)
		if all.needed > 0 {
			more = int32((int64(reserve)*int64(needed) + int64(all.needed) - 1) / int64(all.needed))
		}
		noticed, expected = noticed+float64(risk), expected+float64(more)
		t.d.Advice[i].AtRisk = risk + more
	}
	if noticed+expected > 0 {
		t.because(Reason{Rule: RuleAtRisk, Pool: -1, A: noticed, B: expected})
	}
}

// replicasLostWith returns how many replicas are lost with so many nodes: at most half of those that demand needs, because an
// interruption of everything is no reason to double everything.
func (e *exposure) replicasLostWith(nodes int32) int32 {
	if e.nodes <= 0 || e.needed == 0 {
		return 0
	}
	share := float64(float64(nodes) / e.nodes)
	n := math.Ceil(float64(share*float64(e.pods)) - rounding) // each pod may belong to another replica
	return int32(min(n, float64((e.needed+1)/2)))
}

// rounding is the tolerance for a sum of shares.
const rounding = 1e-6

// exposure adds up what can be lost.
func (a *analysis) exposure() (all exposure) {
	for i := range a.o.Workloads {
		_, replicas, needed := a.exposed(&a.o.Workloads[i])
		all.pods, all.needed = all.pods+int64(replicas)*int64(a.o.Workloads[i].size()), all.needed+needed
	}
	a.eachPod(func(_ *Workload, p *Pod) {
		if n := a.node(p); n != nil && p.Ready && n.Type == Spot && !n.Notice && !n.Deleting {
			all.nodes += float64(units(p.GPUs)) / float64(max(units(n.Used), units(p.GPUs), 1))
		}
	})
	return all
}

// exposed counts the ready replicas of a workload with a pod on a node that the provider takes, those with a pod on another spot node,
// and how many of the latter demand needs.
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
			case n.Type == Spot && !n.Notice && !n.Deleting: // Karpenter itself replaces what it disrupts
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

// expectedLosses returns how many nodes one cold start may lose: in a burst as many as the burst lost; otherwise the mean of the last
// hour and two standard deviations of a compound Poisson process, in which an interruption of n nodes adds n squared to the variance.
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

// step lets the reserve rise at once and fall by one in each reserveDecay. It does not fall during a batch: a ReplicaSet would delete the
// successors first.
func (r *reserve) step(at int64, needed int32, mayFall bool) int32 {
	switch {
	case needed >= r.Size:
		r.Size, r.At = needed, at
	case mayFall && at-r.At >= reserveDecay.Milliseconds():
		r.Size, r.At = r.Size-1, at
	}
	return r.Size
}
