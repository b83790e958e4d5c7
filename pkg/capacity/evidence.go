package capacity

import "time"

// evidence is what a spot pool's NodeClaims say of the market.
type evidence struct {
	refused, attempts int  // launches that failed for lack of capacity, of all that were tried, in refusedWithin
	lost, nodes       int  // nodes that were taken, of all that stood, in lostWithin
	replaced          bool // on-demand grew meanwhile: what spot refused had to go there
}

const (
	refusedWithin = 5 * time.Minute
	lostWithin    = 15 * time.Minute
	// shortEnough is how long pods wait before refusals count: a single refusal hides one offering, and Karpenter tries the next.
	shortEnough  = time.Minute
	refusedLeast = 3
	lostLeast    = 2 // and half of the pool: three of sixty are a market as it is
	// maxEvidence bounds what is counted: Karpenter in trouble makes a hundred NodeClaims a minute, and three are proof.
	maxEvidence = 32
)

// evidence counts since an instant, each NodeClaim once: Events repeat themselves and are merged, identities do not.
func (t *tick) evidence(pool int, since int64) (e evidence) {
	v := &t.o.Pools[pool]
	from := max(since, t.at-refusedWithin.Milliseconds())
	var seen [maxEvidence]string
	for i := range v.Failures {
		f := &v.Failures[i]
		if f.Capacity && t.within(f.At, from) && once(&seen, e.refused, f.UID) {
			e.refused++
		}
	}
	e.attempts = e.refused
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Stage != Requested && t.within(n.Created, from) {
			e.attempts++
		}
	}
	e.replaced = t.onDemand >= 0 && stamp(t.facts[t.onDemand].newest) > from
	from = max(since, t.at-lostWithin.Milliseconds())
	for i := range v.Losses {
		if l := &v.Losses[i]; t.within(l.At, from) && once(&seen, e.lost, l.UID) {
			e.lost++
		}
	}
	e.nodes = t.facts[pool].nodes + e.lost
	return e
}

// within tells whether something happened after an instant, and not in the future: a clock of another machine may run ahead.
func (t *tick) within(when time.Time, from int64) bool {
	at := stamp(when)
	return at > from && at <= t.at+time.Minute.Milliseconds()
}

// once tells whether an identity is not among the first n, and adds it.
func once(seen *[maxEvidence]string, n int, uid string) bool {
	if n >= maxEvidence {
		return false
	}
	for _, s := range seen[:n] {
		if s == uid {
			return false
		}
	}
	seen[n] = uid
	return true
}

// fails tells whether the evidence is enough to leave spot, and why.
func (e evidence) fails(short time.Duration) Cause {
	switch {
	case (short >= shortEnough || e.replaced) && e.refused >= refusedLeast && 2*e.refused >= e.attempts:
		return CauseRefused
	case e.lost >= lostLeast && 2*e.lost >= e.nodes:
		return CauseLost
	}
	return CauseNone
}
