package capacity

import (
	"math"
	"time"
)

const (
	// burstWithin and burstLeast make a burst of losses: where two nodes went within minutes, more will.
	burstWithin = 5 * time.Minute
	burstLeast  = 2
	// rateWithin is how long losses count towards their rate; one alone is no rate.
	rateWithin = time.Hour
	// atOnce is what one interruption takes: the nodes of a market that fills go within seconds of one another.
	atOnce = 30 * time.Second
	// deviations is how far above the mean the reserve stands: one cold start in forty loses more, were losses normal.
	deviations = 2
	// reserveFalls is how long the reserve stands before it falls by one: a replica that comes and goes is a cold start each time.
	reserveFalls = burstWithin
)

// reserve is how many replicas stand by against losses. It is not part of a record: a new leader reads the last hour's losses again.
type reserve struct {
	size int32
	at   int64 // when it changed last
}

// atRisk asks for successors of ready replicas on nodes with notice, and ahead of any notice for as many as are expected to be missing:
// a notice is two minutes and a cold start is longer, so what is to serve in between has to stand before.
func (t *tick) atRisk() {
	var noticed, expected float64
	var all int32
	for i := range t.o.Workloads {
		_, exposed := t.exposed(&t.o.Workloads[i])
		all += exposed
	}
	reserve := t.standBy(min(t.losses(), (all+1)/2)) // a storm that takes everything at once is no reason to double everything
	for i := range t.o.Workloads {
		risk, exposed := t.exposed(&t.o.Workloads[i])
		more := int32(0)
		if all > 0 {
			more = int32((int64(reserve)*int64(exposed) + int64(all) - 1) / int64(all))
		}
		noticed, expected = noticed+float64(risk), expected+float64(more)
		t.d.Advice[i].AtRisk = risk + more
	}
	if noticed+expected > 0 {
		t.because(Reason{Rule: RuleAtRisk, Pool: -1, A: noticed, B: expected})
	}
}

// exposed counts a workload's ready replicas on nodes that are about to go, and those on other spot nodes.
func (t *tick) exposed(w *Workload) (risk, exposed int32) {
	for j := range w.Pods {
		p := &w.Pods[j]
		switch n := t.node(p); {
		case n == nil || !p.Ready:
		case n.Notice && !n.Voluntary, n.Deleting && !n.Voluntary:
			risk++
		case n.Type == Spot:
			exposed++
		}
	}
	return risk, exposed
}

// losses is how many nodes one cold start may lose: in a burst as many as it took; otherwise the last hour's mean and two standard
// deviations of a compound Poisson process, in which an interruption of n nodes adds n squared to the variance.
func (t *tick) losses() int32 {
	var seen [maxEvidence]string
	var at [maxEvidence]int64
	lost, burst, squares := 0, 0, 0
	for i := range t.views() {
		for j := range t.o.Pools[i].Losses {
			l := &t.o.Pools[i].Losses[j]
			if !t.within(l.At, t.at-rateWithin.Milliseconds()) || !once(&seen, lost, l.UID) {
				continue
			}
			at[lost] = stamp(l.At)
			squares++
			for _, other := range at[:lost] {
				if max(other-at[lost], at[lost]-other) < atOnce.Milliseconds() {
					squares += 2
				}
			}
			if lost++; t.within(l.At, t.at-burstWithin.Milliseconds()) {
				burst++
			}
		}
	}
	if lost < burstLeast {
		return 0
	}
	share := float64(max(t.g.LeadTime, burstWithin)) / float64(rateWithin)
	mean := float64(float64(lost) * share)
	n := int32(math.Round(mean + float64(deviations*math.Sqrt(float64(squares)*share))))
	if burst >= burstLeast {
		n = max(n, int32(burst))
	}
	return n
}

// standBy lets the reserve rise at once and fall slowly, and never under a batch: a ReplicaSet would take its successors first.
func (t *tick) standBy(want int32) int32 {
	r := &t.s.reserve
	switch {
	case want > r.size:
		r.size, r.at = want, t.at
	case want < r.size && t.s.move.step == noMove && t.at-r.at >= reserveFalls.Milliseconds():
		r.size, r.at = r.size-1, t.at
	}
	return r.size
}
