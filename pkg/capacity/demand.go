package capacity

import "time"

// count adds up what is asked of the group's nodes. Nothing here looks at our policies alone: a Job that runs in the same pool
// counts as much.
func (t *tick) count() {
	d := &t.d.Demand
	d.Unknown = t.o.Lost
	var waiting, greatest int64
	wait := func(p *Pod) {
		if p.Pending {
			waiting, greatest = min(waiting+units(p.GPUs), maxUnits), max(greatest, units(p.GPUs))
			if size := units(p.GPUs); t.leastWait == 0 || size < t.leastWait {
				t.leastWait = size
			}
		}
	}
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		replicas := max(w.Uncapped, 0)
		if !w.Known || w.Paused {
			replicas = max(w.Current, 0)
		}
		if !w.Known && !w.Paused {
			// Unknown is not zero: it is at least what it has, and no rule that takes away may act on it.
			d.Unknown = true
			replicas = max(replicas, w.Uncapped)
		}
		if w.Claims && (replicas > 0 || len(w.Pods) > 0) {
			t.claims(w.Key)
		}
		// Pods that a scale-in has not ended yet are still there.
		asked := min(int64(replicas)*units(w.GPUs), maxUnits)
		var have int64
		for j := range w.Pods {
			have += units(w.Pods[j].GPUs)
			wait(&w.Pods[j])
		}
		d.Policies = min(d.Policies+max(asked, have), maxUnits)
		t.pods += len(w.Pods)
	}
	for i := range t.o.UnmanagedPods {
		p := &t.o.UnmanagedPods[i]
		if p.UnknownPlacement {
			continue
		}
		if p.Claims {
			t.claims(p.Namespace + "/" + p.Name)
		}
		d.UnmanagedPods = min(d.UnmanagedPods+units(p.GPUs), maxUnits)
		wait(p)
		t.pods++
	}
	if t.known = !d.Unknown; !t.known {
		t.s.knownSince, t.s.doubtedAt = t.at, t.at
	}
	if waiting > 0 {
		waiting -= t.room(max(greatest, 1))
	}
	d.Pending = max(waiting, 0)
	t.shortage()
	t.because(Reason{Rule: RuleDemand, Pool: -1, A: float64(d.Policies), B: float64(d.UnmanagedPods)})
}

// claims makes demand unknown: GPUs that are claimed by dynamic resource allocation are not counted yet, and a limit that does not count
// them starves their pods. One finding names the first of them.
func (t *tick) claims(name string) {
	t.d.Demand.Unknown = true
	for i := range t.d.Findings {
		if f := &t.d.Findings[i]; f.Kind == FindClaims {
			f.Count++
			return
		}
	}
	t.find(Finding{Kind: FindClaims, Pool: -1, Name: name, Count: 1})
}

// bootsWithin is how long a launched instance counts as a node on its way; Karpenter itself gives up after 15 minutes.
const bootsWithin = 15 * time.Minute

// room is what nodes that came or are on their way can still take, in pieces of a size: 8 nodes with a free GPU each are no room
// for a pod of 8.
func (t *tick) room(size int64) (free int64) {
	for i := range t.views() {
		free += t.roomOn(i, size)
	}
	return free
}

// roomOn is room of one pool.
func (t *tick) roomOn(pool int, size int64) (free int64) {
	if !t.o.Pools[pool].Exists {
		return 0
	}
	for j := range t.o.Pools[pool].Nodes {
		if n := &t.o.Pools[pool].Nodes[j]; n.takes(t.now) {
			free += max(units(n.GPUs)-units(n.Used), 0) / size * size
		}
	}
	return free
}

// takes tells nodes that take pods now or soon. A claim that no provider has answered yet is none of them.
func (n *Node) takes(now time.Time) bool {
	switch {
	case n.Deleting || n.Stage == Requested:
		return false
	case n.Stage == Usable:
		return n.Ready
	}
	return now.Sub(n.Created) < bootsWithin
}

// shortage follows for how long pods have waited that no node on its way will take. A pod that waits for a node which boots is no
// shortage, or every cold start would count against spot.
func (t *tick) shortage() {
	s := t.s
	switch {
	case t.d.Demand.Pending == 0:
		s.shortSince = 0
	case s.shortSince == 0:
		s.shortSince = t.at
	}
	if s.shortSince != 0 {
		t.short = time.Duration(t.at-s.shortSince) * time.Millisecond
	}
}
