package capacity

import (
	"slices"
	"time"
)

// moveStep is how far one replica's move has come.
type moveStep uint8

const (
	noMove    moveStep = iota
	surging            // the target is one higher; the successor is not ready on spot yet
	marking            // the successor is ready: the pod on demand is marked to go first
	shrinking          // the target is what it was; the marked pod goes
)

// move is one replica on its way from on-demand to spot. It is not part of a record: a leader that starts anew finds a target
// that falls back by one, and a mark that it clears.
type move struct {
	step     moveStep
	since    int64 // of the move; of the step where it shrinks
	workload string
	victim   string // UID
	node     string // that is being emptied; it stays until the next one is chosen
}

const (
	// arrives is how long a successor may take, on top of the group's lead time, before the move is given up.
	arrives = 20 * time.Minute
	// shrinks is how long the marked pod may take to go after the target fell.
	shrinks = 10 * time.Minute
	// lowestCost is what no other pod's cost lies below.
	lowestCost = "-2147483647"
)

// survey finds out what a surge could move: whole on-demand nodes above the base whose pods are all movable. A node shared with a
// Job would never come free, and a return that waited for it would hold consolidation for good.
func (t *tick) survey() {
	if !t.paired() {
		return
	}
	nodes := t.o.Pools[t.onDemand].Nodes
	t.d.movable = append(t.d.movable[:0], make([]int64, len(nodes))...)
	t.eachPod(func(w *Workload, p *Pod) {
		if p.Pool == t.onDemand && p.Node >= 0 && p.Node < len(nodes) && movable(w, p) {
			t.d.movable[p.Node] += units(p.GPUs)
		}
	})
	spare := t.aboveBase()
	for i := range nodes {
		if t.empties(i, spare) {
			t.left += units(nodes[i].Used)
		}
	}
	t.left = min(t.left, spare)
}

// empties tells whether moving what a node carries would free it without going below the base.
func (t *tick) empties(i int, spare int64) bool {
	n := &t.o.Pools[t.onDemand].Nodes[i]
	return !n.Deleting && n.Stage == Usable && n.Used > 0 && t.d.movable[i] == units(n.Used) && units(n.GPUs) <= spare
}

// movable tells pods that a surge can move: their controller makes the successor first and reads which one goes.
func movable(w *Workload, p *Pod) bool {
	return w != nil && p.Owner == OwnerReplicaSet && !w.Paused && !p.Pinned
}

// comeBack moves replicas from on-demand to spot one by one: the target rises by one; when the successor is Ready on spot, the pod
// on demand is marked to go first and the target falls by one; the empty node goes. Ready replicas never drop below demand.
func (t *tick) comeBack() {
	m, s := &t.s.move, &t.s.spot
	if !t.paired() || s.phase != Probing && s.phase != Returning || t.g.Advisory || t.leaving {
		*m = move{}
		return
	}
	if m.step != noMove {
		t.advance()
	}
	if m.step == noMove {
		t.pick()
	}
	if s.phase == Returning {
		t.because(Reason{Rule: RuleReturn, Pool: int8(t.onDemand), A: float64(t.left), B: float64(t.g.ReturnNodesPerHour), Until: t.ahead(t.nextMove())})
	}
	i := t.workload(m.workload)
	if m.step == noMove || i < 0 {
		return
	}
	if m.step != shrinking {
		t.d.Advice[i].Surge = 1
	}
	w := &t.o.Workloads[i]
	t.because(Reason{Rule: RuleMove, Pool: int8(t.spot), Name: w.Key, A: float64(t.ready(w)), B: float64(w.needs())})
}

// needs is what scaling wants of a workload, without what we added.
func (w *Workload) needs() int32 { return max(w.Uncapped-max(w.Extra, 0), 0) }

// ready counts ready pods on nodes that are not about to go.
func (t *tick) ready(w *Workload) (n int32) {
	for i := range w.Pods {
		if p := &w.Pods[i]; p.Ready && !t.endangered(p) {
			n++
		}
	}
	return n
}

func (t *tick) workload(key string) int {
	return slices.IndexFunc(t.o.Workloads, func(w Workload) bool { return w.Key == key })
}

// nextMove is when the next node may be chosen. A group that finds itself on demand without having failed waits first: Karpenter
// may just have had one bad launch.
func (t *tick) nextMove() int64 {
	s := &t.s.spot
	next := s.moved + time.Hour.Milliseconds()/max(t.g.ReturnNodesPerHour, 1)
	if s.moved == 0 {
		next = 0
	}
	if s.phase == Returning && s.cause == CauseNone {
		next = max(next, s.since+firstHold.Milliseconds())
	}
	return next
}

// ahead is a stamp as a Reason shows it: what is over has no time.
func (t *tick) ahead(at int64) time.Time {
	if at <= t.at {
		return time.Time{}
	}
	return instant(at)
}

// pick chooses the next replica: another of the node that is being emptied, or the first of the least used node, at the set pace.
func (t *tick) pick() {
	m, s := &t.s.move, &t.s.spot
	if !t.known || t.peaks() || t.s.shortSince != 0 || t.left == 0 || t.emptied() {
		return
	}
	nodes, best := t.o.Pools[t.onDemand].Nodes, -1
	spare := t.aboveBase()
	for i := range nodes {
		if !t.empties(i, spare) {
			continue
		}
		if nodes[i].Name == m.node {
			best = i
			break
		}
		if best < 0 || nodes[i].Used < nodes[best].Used || nodes[i].Used == nodes[best].Used && nodes[i].Name < nodes[best].Name {
			best = i
		}
	}
	if best < 0 || nodes[best].Name != m.node && t.at < t.nextMove() {
		return
	}
	w, p := t.victim(best)
	if p == nil {
		return
	}
	if nodes[best].Name != m.node {
		s.moved = t.at
		t.s.touch()
	}
	*m = move{step: surging, since: t.at, workload: w.Key, victim: p.UID, node: nodes[best].Name}
}

// emptied tells whether an empty on-demand node is still there: the next successor would land on it, and not on spot.
func (t *tick) emptied() bool {
	for i := range t.o.Pools[t.onDemand].Nodes {
		if n := &t.o.Pools[t.onDemand].Nodes[i]; n.Used == 0 && n.GPUs > 0 && n.Stage == Usable && n.takes(t.now) {
			return true
		}
	}
	return false
}

// victim is the pod of a node that goes first: of a workload that is whole and at rest.
func (t *tick) victim(node int) (of *Workload, victim *Pod) {
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		if !w.Known || w.Paused || t.ready(w) < w.needs() || w.needs() == 0 {
			continue
		}
		for j := range w.Pods {
			p := &w.Pods[j]
			if p.Pool == t.onDemand && p.Node == node && movable(w, p) && (victim == nil || p.Name < victim.Name) {
				of, victim = w, p
			}
		}
	}
	return of, victim
}

// advance moves a replica's move on, and gives it up where its ground is gone.
func (t *tick) advance() {
	m := &t.s.move
	i := t.workload(m.workload)
	if i < 0 || !t.o.Workloads[i].Known || t.o.Workloads[i].Paused {
		t.end()
		return
	}
	w := &t.o.Workloads[i]
	j := slices.IndexFunc(w.Pods, func(p Pod) bool { return p.UID == m.victim })
	if j < 0 {
		t.end() // gone: as planned, or by itself
		return
	}
	spare := t.ready(w) > w.needs()
	mark := w.Pods[j].DeletionCost
	age := time.Duration(t.at-m.since) * time.Millisecond
	switch {
	case mark.Value != "" && !mark.Ours:
		t.find(Finding{Kind: FindForeignMark, Pool: -1, Name: w.Pods[j].Namespace + "/" + w.Pods[j].Name, Rule: RuleMove})
		t.end()
	case m.step == surging && t.s.spot.phase == Returning && spare && t.successor(w):
		m.step = marking
	case m.step == surging && t.landedOnDemand(w):
		// Karpenter put the successor on demand: spot was asked, and refused.
		t.fallBack(CauseProbe, t.evidence(t.spot, m.since))
		t.giveUp()
	case m.step == surging && age > arrives+t.g.LeadTime:
		t.giveUp()
	case m.step == marking && spare && mark.Value == lowestCost:
		m.step, m.since = shrinking, t.at
	case m.step == shrinking && age > shrinks:
		t.end() // demand rose into the surge: the replica is needed, and nothing is lost
	}
}

// end ends a move; the node stays chosen.
func (t *tick) end() { t.s.move = move{node: t.s.move.node} }

// giveUp ends a move that led nowhere; the next one waits as if it were another node's.
func (t *tick) giveUp() {
	t.s.move = move{}
	t.s.spot.moved = t.at
	t.s.touch()
}

// successor tells whether a pod of the workload that was born in the move is Ready on spot.
func (t *tick) successor(w *Workload) bool {
	return slices.ContainsFunc(w.Pods, func(p Pod) bool {
		return p.Ready && p.Pool == t.spot && t.bornInMove(p.Since) && !t.endangered(&p)
	})
}

// bornInMove tells what was created since the move began. The API server cuts a creation to whole seconds: a successor that comes
// within the second of the move seems older than it.
func (t *tick) bornInMove(at time.Time) bool {
	return stamp(at) >= t.s.move.since-t.s.move.since%time.Second.Milliseconds()
}

// landedOnDemand tells whether a pod that was born in the move runs on an on-demand node that was, too: one that found room on a node
// of before says nothing of spot.
func (t *tick) landedOnDemand(w *Workload) bool {
	return slices.ContainsFunc(w.Pods, func(p Pod) bool {
		n := t.node(&p)
		return n != nil && p.Pool == t.onDemand && t.bornInMove(p.Since) && t.bornInMove(n.Created)
	})
}

// endangered tells pods on a node that is about to be lost, or goes already.
func (t *tick) endangered(p *Pod) bool {
	n := t.node(p)
	return n != nil && (n.Notice || n.Deleting)
}
