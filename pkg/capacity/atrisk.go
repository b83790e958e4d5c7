package capacity

import "time"

const (
	// burstWithin and burstLeast make a burst of losses: where two nodes went within minutes, more will.
	burstWithin = 5 * time.Minute
	burstLeast  = 2
)

// atRisk asks for successors of ready replicas on nodes with notice, and after a burst of losses for as many as were lost, at most
// half of those that are left on spot: a storm that takes everything at once is no reason to double everything.
func (t *tick) atRisk() {
	var noticed, expected float64
	burst := t.burst()
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		var risk, exposed int32
		for j := range w.Pods {
			p := &w.Pods[j]
			n := t.node(p)
			if n == nil || !p.Ready {
				continue
			}
			switch {
			case n.Notice && !n.Voluntary, n.Deleting && !n.Voluntary:
				risk++
			case t.spotNode(p):
				exposed++
			}
		}
		more := min(burst, (exposed+1)/2)
		noticed, expected = noticed+float64(risk), expected+float64(more)
		t.d.Advice[i].AtRisk = risk + more
	}
	if noticed+expected > 0 {
		t.because(Reason{Rule: RuleAtRisk, Pool: -1, A: noticed, B: expected})
	}
}

// spotNode tells whether a pod runs on a spot node, whatever its pool.
func (t *tick) spotNode(p *Pod) bool {
	n := t.node(p)
	return n != nil && n.Type == Spot
}

// burst is how many nodes were lost within minutes; 0 where that is no burst.
func (t *tick) burst() int32 {
	var seen [maxEvidence]string
	lost := 0
	for i := range t.views() {
		for j := range t.o.Pools[i].Losses {
			l := &t.o.Pools[i].Losses[j]
			if t.within(l.At, t.at-burstWithin.Milliseconds()) && once(&seen, lost, l.UID) {
				lost++
			}
		}
	}
	if lost < burstLeast {
		return 0
	}
	return int32(lost)
}
