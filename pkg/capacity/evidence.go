package capacity

import "time"

// evidence counts the NodeClaims of one or several spot NodePools that failed or were lost recently. It shows whether the provider has spot
// capacity.
type evidence struct {
	refused, attempts int  // launches that were refused for lack of capacity, and all launches, within refusalWindow
	lost, nodes       int  // nodes that the provider took, and all nodes, within lossWindow
	replaced          bool // an on-demand NodePool has grown in this time: it runs the pods that spot had no capacity for
	open              bool // one of several NodePools may launch nodes and has not failed: spot may have capacity
}

const (
	refusalWindow = 5 * time.Minute
	lossWindow    = 15 * time.Minute
	// shortageMinimum is how long pods must have waited before refused launches count as a failure. After one refusal, Karpenter excludes
	// only that offering (instance type and zone) and tries the next one.
	shortageMinimum = time.Minute
	minRefusals     = 3
	minLosses       = 2 // minimum of lost nodes; half of the NodePool must also be lost, because 3 of 60 nodes are normal
	// maxEvidence is the maximum number of NodeClaims that are counted. Karpenter can create a hundred NodeClaims per minute, and three
	// refusals are sufficient evidence.
	maxEvidence = 32
)

// evidence returns the evidence for a NodePool since the stamp since. Each NodeClaim counts once, identified by its UID, because Kubernetes
// repeats and merges Events.
func (a *analysis) evidence(pool int, since int64) (e evidence) {
	v := &a.o.Pools[pool]
	from := max(since, a.at-refusalWindow.Milliseconds())
	var counted [maxEvidence]string
	for i := range v.Failures {
		f := &v.Failures[i]
		if f.Capacity && a.within(f.At, from) && countOnce(&counted, e.refused, f.UID) {
			e.refused++
		}
	}
	e.attempts = e.refused
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Stage != Requested && a.within(n.Created, from) {
			e.attempts++
		}
	}
	e.replaced = a.paired() && stamp(a.onDemand.newest) > from
	from = max(since, a.at-lossWindow.Milliseconds())
	for i := range v.Losses {
		if l := &v.Losses[i]; a.within(l.At, from) && countOnce(&counted, e.lost, l.UID) {
			e.lost++
		}
	}
	e.nodes = a.pools[pool].nodes + e.lost
	return e
}

// spotEvidence returns the sum of the evidence of all spot NodePools since the stamp since. A NodePool that failed does not close the
// others: spot as a whole is open until each NodePool has failed or cannot launch a node. In a probe, a NodePool fails with the first lost
// node, or with the first refused launch if it launched no node.
func (a *analysis) spotEvidence(since int64, probing bool) (sum evidence) {
	for _, i := range a.spot.all() {
		e := a.evidence(int(i), since)
		sum.refused, sum.attempts = sum.refused+e.refused, sum.attempts+e.attempts
		sum.lost, sum.nodes = sum.lost+e.lost, sum.nodes+e.nodes
		sum.replaced = e.replaced
		failed := e.refused > 0 && 2*e.refused >= e.attempts || e.manyLost()
		if probing {
			failed = e.lost > 0 || e.refused > 0 && stamp(a.pools[i].newest) <= since
		}
		sum.open = sum.open || !failed && a.mayLaunch(int(i))
	}
	return sum
}

// countOnce adds uid to counted, whose first n entries are in use. It returns false if uid is already counted or the list is full.
func countOnce(counted *[maxEvidence]string, n int, uid string) bool {
	if n >= maxEvidence {
		return false
	}
	for _, s := range counted[:n] {
		if s == uid {
			return false
		}
	}
	counted[n] = uid
	return true
}

// failure returns the cause if the evidence is sufficient to stop using spot, and otherwise CauseNone. short is how long pods have waited
// without a node that will take them.
func (e evidence) failure(short time.Duration) Cause {
	switch {
	case e.open:
		return CauseNone
	case (short >= shortageMinimum || e.replaced) && e.refused >= minRefusals && 2*e.refused >= e.attempts:
		return CauseRefused
	case e.manyLost():
		return CauseLost
	}
	return CauseNone
}

// manyLost reports whether the provider took at least half of the nodes, and at least minLosses.
func (e *evidence) manyLost() bool { return e.lost >= minLosses && 2*e.lost >= e.nodes }
