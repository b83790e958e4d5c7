package capacity

import "time"

// cappedState is the memory of the capacity cap.
type cappedState struct {
	on           bool
	level        uint8
	since, until int64 // of the cap, or of its end
}

const (
	firstCap = 2 * time.Minute
	maxCap   = 30 * time.Minute
)

// constrain stops targets from asking for what cannot come, once every pool of the group is closed. One replica beyond what runs
// stays pending: it is Karpenter's probe and the fallback's evidence. The whole ask is tried again with backoff.
func (t *tick) constrain() {
	c := &t.s.capped
	cause, resource, closed := t.closed()
	switch {
	case !closed || t.s.shortSince == 0:
		if c.on || t.s.shortSince == 0 && c.level > 0 && t.at-c.since > maxCap.Milliseconds() {
			*c = cappedState{level: c.level, since: t.at}
			if t.s.shortSince == 0 {
				c.level = 0
			}
		}
	case c.on && t.at >= c.until:
		c.on, c.since = false, t.at
	case !c.on && t.short >= shortEnough:
		c.on, c.since, c.level = true, t.at, min(c.level+1, maxLevel)
		c.until = t.at + jittered(min(firstCap<<(c.level-1), maxCap), t.g.Name, c.level).Milliseconds()
	}
	var missing float64
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		if !c.on && !w.Quota {
			continue
		}
		limit := t.served(w) + 1
		if !c.on {
			cause, resource = CauseQuota, ""
		}
		t.d.Advice[i].Cap = limit
		missing += float64(max(w.Uncapped-limit+1, 0))
	}
	if missing > 0 || c.on {
		t.because(Reason{Rule: RuleConstrained, Pool: -1, Name: resource, Cause: cause, A: missing, Until: instant(c.until)})
	}
}

// served is how many replicas of a workload exist with all of their pods: each with a node, or, where a quota is in the way, at all.
func (t *tick) served(w *Workload) (n int32) {
	w.eachReplica(func(pods []Pod) {
		if !w.whole(pods) {
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

// closed reports whether no pool of the group brings a node, why the first does not, and whose limit is the cause. A limit that this
// package sets is not one of the reasons: patience ends by itself.
func (t *tick) closed() (cause Cause, resource string, all bool) {
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue // nothing is known of what it would bring
		}
		why := t.shut(i)
		if why == CauseNone {
			return CauseNone, "", false
		}
		if cause == CauseNone {
			cause = why
			if why == CauseLimit {
				resource = t.facts[i].full
			}
		}
	}
	return cause, resource, cause != CauseNone
}

func (t *tick) shut(pool int) Cause {
	switch {
	case !t.o.Pools[pool].Ready:
		return CauseNotReady
	case t.facts[pool].room < max(t.leastWait, 1):
		return CauseLimit
	case t.refused(pool):
		return CauseRefused
	}
	return CauseNone
}

// refused tells whether the pool's last launches were refused: since its newest node, and since the cap was lifted for a try.
func (t *tick) refused(pool int) bool {
	if t.s.capped.on {
		return t.refusedSince(pool, 0)
	}
	return t.refusedSince(pool, t.s.capped.since)
}

// refusedSince tells whether a launch was refused lately, after an instant and after the pool's newest node.
func (t *tick) refusedSince(pool int, since int64) bool {
	from := max(since, stamp(t.facts[pool].newest), t.at-refusedWithin.Milliseconds())
	for i := range t.o.Pools[pool].Failures {
		if f := &t.o.Pools[pool].Failures[i]; f.Capacity && t.within(f.At, from) {
			return true
		}
	}
	return false
}
