package capacity

import "time"

const (
	firstTargetCap = 2 * time.Minute
	maxTargetCap   = 30 * time.Minute
)

// targetCap is the state machine that stops targets from requesting replicas for which no NodePool provides a node:
//
//	state       event         next        action
//	uncapped    shortage      capped      doubles the time of the cap, from firstTargetCap to maxTargetCap
//	capped      nodesArrive   uncapped    keeps the level
//	capped      demandMet     uncapped    resets the level
//	capped      retryDue      uncapped    keeps the level: the full target is tried once
//	uncapped    demandMet     uncapped    resets the level
//	any other combination                 nothing
//
// It is not part of a record: a new leader starts without a cap.
type targetCap struct {
	On    bool  `json:"on"`
	Level uint8 `json:"level,omitempty"`
	Since int64 `json:"since,omitempty"` // start or end of the cap
	Until int64 `json:"until,omitempty"`
}

type targetCapEvent uint8

const (
	targetCapUnchanged targetCapEvent = iota
	shortage                          // every NodePool is closed, and pods have waited for shortageMinimum
	nodesArrive                       // a NodePool provides nodes again
	demandMet                         // no pod waits for a node; without a cap: for maxTargetCap
	retryDue                          // the time of the cap is over
	numTargetCapEvents
)

// targetCapInput is everything that the state machine reads.
type targetCapInput struct {
	at      int64
	group   string
	closed  bool          // no NodePool provides a node
	waiting bool          // pods wait for which no node is being launched
	short   time.Duration // how long they have waited
}

// event returns the event that the input causes in the current state.
func (c *targetCap) event(in targetCapInput) targetCapEvent {
	switch {
	case !in.waiting && (c.On || c.Level > 0 && in.at-c.Since > maxTargetCap.Milliseconds()):
		return demandMet
	case !in.waiting:
		return targetCapUnchanged
	case !in.closed && c.On:
		return nodesArrive
	case !in.closed:
		return targetCapUnchanged
	case c.On && in.at >= c.Until:
		return retryDue
	case !c.On && in.short >= shortageMinimum:
		return shortage
	}
	return targetCapUnchanged
}

// apply changes the state as the table of targetCap defines. An event that the table does not list for the current state has no effect.
func (c *targetCap) apply(event targetCapEvent, in targetCapInput) {
	switch {
	case event == demandMet:
		*c = targetCap{Since: in.at}
	case event == nodesArrive && c.On:
		*c = targetCap{Level: c.Level, Since: in.at}
	case event == retryDue && c.On:
		c.On, c.Since = false, in.at
	case event == shortage && !c.On:
		c.On, c.Since, c.Level = true, in.at, min(c.Level+1, maxLevel)
		c.Until = in.at + jittered(min(firstTargetCap<<(c.Level-1), maxTargetCap), in.group, c.Level).Milliseconds()
	}
}

// capTargets caps the targets of the group's workloads while no NodePool provides a node. The cap is one replica above the number of
// replicas that have nodes. The additional replica stays pending, so that Karpenter tries to launch a node for it. The result of these
// launches is the evidence for a fallback.
func (t *tick) capTargets() {
	c := &t.s.TargetCap
	closed := t.allClosed()
	in := targetCapInput{t.at, t.g.Name, closed.cause != CauseNone, t.s.ShortSince != 0, t.short}
	c.apply(c.event(in), in)
	var missing float64
	reason := Reason{Rule: RuleConstrained, Pool: closed.pool, Name: closed.resource, Cause: closed.cause, Until: instant(c.Until)}
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		if !c.On && !w.Quota {
			continue
		}
		limit := w.placed() + 1
		if !c.On {
			reason.Pool, reason.Cause, reason.Name = -1, CauseQuota, ""
		}
		t.d.Advice[i].Cap = limit
		missing += float64(max(w.Uncapped-limit+1, 0))
	}
	if missing > 0 || c.On {
		reason.A = missing
		t.because(reason)
	}
}

// placed returns the number of replicas of which all pods exist and are on nodes. If the API server rejects further pods of the
// workload, replicas with pending pods also count.
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

// closedGroup is the reason why no NodePool of a group provides a node. It names the first NodePool.
type closedGroup struct {
	pool     int8
	cause    Cause  // CauseNone: some NodePool may provide a node
	resource string // resource of a CauseLimit
}

// allClosed returns why no NodePool of the group provides a node. Limits that gpuscaler itself sets are ignored, because gpuscaler removes
// them when they are no longer needed.
func (t *tick) allClosed() (closed closedGroup) {
	closed.pool = -1
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue // it is unknown which nodes it would provide
		}
		why := t.closedBy(i)
		if why == CauseNone {
			return closedGroup{pool: -1}
		}
		if closed.cause == CauseNone {
			closed.pool, closed.cause = int8(i), why
			if why == CauseLimit {
				closed.resource = t.pools[i].full
			}
		}
	}
	return closed
}

// closedBy returns why a NodePool provides no node for the smallest waiting pod, and CauseNone if it may provide one. During a target cap,
// every recent refused launch counts. Without a cap, only refused launches since the end of the last cap count, so that the full target is
// tried once.
func (t *tick) closedBy(pool int) Cause {
	since := t.s.TargetCap.Since
	if t.s.TargetCap.On {
		since = 0
	}
	switch {
	case !t.o.Pools[pool].Ready:
		return CauseNotReady
	case t.pools[pool].room < max(t.smallestWait, 1):
		return CauseLimit
	case t.refusedSince(pool, since):
		return CauseRefused
	}
	return CauseNone
}

// refusedSince reports whether a launch of the NodePool was refused for lack of capacity after the stamp since, within refusalWindow, and
// after its newest node was created.
func (a *analysis) refusedSince(pool int, since int64) bool {
	from := max(since, stamp(a.pools[pool].newest), a.at-refusalWindow.Milliseconds())
	for i := range a.o.Pools[pool].Failures {
		if f := &a.o.Pools[pool].Failures[i]; f.Capacity && a.within(f.At, from) {
			return true
		}
	}
	return false
}
