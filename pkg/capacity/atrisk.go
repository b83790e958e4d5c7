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
	// reserveFalls is how long fewer must do before the reserve falls by one: a replica that comes and goes is a cold start each time.
	reserveFalls = burstWithin
)

// reserve is how many replicas stand by against losses. It is not part of a record: a new leader reads the last hour's losses again.
type reserve struct {
	size int32
	at   int64 // when so many were wanted last
}

// stake is what is ready on spot nodes that nobody takes at present.
type stake struct {
	pods   int64   // of the replicas of our workloads, those that stand by included
	needed int32   // of them: those that stand by on demand go first, so these are what stays
	nodes  float64 // that carry them and everybody else's ready pods: a node half full of them is half a node
}

// atRisk asks for successors of ready replicas on nodes with notice, and ahead of any notice for as many as are expected to be missing:
// a notice is two minutes and a cold start is longer, so what is to serve in between has to stand before.
func (t *tick) atRisk() {
	var noticed, expected float64
	all := t.stake()
	reserve := t.standBy(all.lose(t.losses()))
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

// lose is how many replicas go with so many nodes: half of those that are needed at the most, for a storm that takes everything at
// once is no reason to double everything.
func (s *stake) lose(nodes int32) int32 {
	if s.nodes <= 0 || s.needed == 0 {
		return 0
	}
	share := float64(float64(nodes) / s.nodes)
	n := math.Ceil(float64(share*float64(s.pods)) - rounding) // each may take another replica with it
	return int32(min(n, float64((s.needed+1)/2)))
}

// rounding is what a sum of shares may be off by.
const rounding = 1e-6

// stake adds up what there is to lose.
func (t *tick) stake() (all stake) {
	for i := range t.o.Workloads {
		_, replicas, needed := t.exposed(&t.o.Workloads[i])
		all.pods, all.needed = all.pods+int64(replicas)*int64(t.o.Workloads[i].size()), all.needed+needed
	}
	t.eachPod(func(_ *Workload, p *Pod) {
		if n := t.node(p); n != nil && p.Ready && n.Type == Spot && !n.Notice && !n.Deleting {
			all.nodes += float64(units(p.GPUs)) / float64(max(units(n.Used), units(p.GPUs), 1))
		}
	})
	return all
}

// exposed counts a workload's ready replicas with a pod on a node that is about to go, those with one on another spot node, and how many of
// these are needed.
func (t *tick) exposed(w *Workload) (risk, exposed, needed int32) {
	w.eachReplica(func(pods []Pod) {
		ready, goes, spot := w.whole(pods), false, false
		for j := range pods {
			p := &pods[j]
			switch n := t.node(p); {
			case n == nil || !p.Ready:
				ready = false
			case n.Notice && !n.Voluntary, n.Deleting && !n.Voluntary:
				goes = true
			case n.Type == Spot && !n.Notice && !n.Deleting: // what Karpenter replaces by itself is not for the market to take
				spot = true
			}
		}
		switch {
		case !ready:
		case goes:
			risk++
		case spot:
			exposed++
		}
	})
	return risk, exposed, min(exposed, w.needs())
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
	case want >= r.size:
		r.size, r.at = want, t.at
	case t.s.move.step == noMove && t.at-r.at >= reserveFalls.Milliseconds():
		r.size, r.at = r.size-1, t.at
	}
	return r.size
}
