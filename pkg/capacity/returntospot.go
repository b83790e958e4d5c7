package capacity

import (
	"slices"
	"time"
)

const (
	// maxBatch bounds the replicas that move at once. surgeShare is the part of a workload that does: that of a Deployment's rollout.
	maxBatch   = 16
	surgeShare = 4
)

// pace controls how the return continues after a batch. It is not part of a record: a new leader begins with one replica.
type pace struct {
	Width uint8 `json:"width,omitempty"` // greatest size of the next batch: doubled after each batch that arrived completely
	Level uint8 `json:"level,omitempty"` // batches in a row that did not fit on spot
	Until int64 `json:"until,omitempty"` // the next batch starts then
}

// findReturnable finds what a surge could move: complete on-demand nodes above the base whose pods are all movable. A node that a Job
// shares would not become empty, and a return that waited for it would freeze consolidation for ever.
func (a *analysis) findReturnable() {
	if !a.paired() {
		return
	}
	nodes := a.o.Pools[a.onDemand].Nodes
	a.movable = append(a.movable[:0], make([]int64, len(nodes))...)
	a.eachPod(func(w *Workload, p *Pod) {
		if p.Pool == a.onDemand && p.Node >= 0 && p.Node < len(nodes) && movable(w, p) {
			a.movable[p.Node] += units(p.GPUs)
			if size := units(p.GPUs); a.smallestMove == 0 || size < a.smallestMove {
				a.smallestMove = size
			}
		}
	})
	spare := a.aboveBase()
	for i := range nodes {
		if a.canEmpty(i, spare) {
			a.returnable += units(nodes[i].Used)
		}
	}
	a.returnable = min(a.returnable, spare)
}

// canEmpty reports whether moving the pods of a node would free it without going below the base. A node of a capacity reservation
// stays: it is paid for in any case.
func (a *analysis) canEmpty(i int, spare int64) bool {
	n := &a.o.Pools[a.onDemand].Nodes[i]
	return !n.Deleting && n.Type != Reserved && n.Stage == Usable && n.Used > 0 && a.movable[i] == units(n.Used) && units(n.GPUs) <= spare
}

// movable reports whether a surge can move a pod: its controller creates the successor first and reads which pod to delete.
func movable(w *Workload, p *Pod) bool {
	return w != nil && p.Owner == OwnerReplicaSet && !w.Paused && !p.Pinned
}

// returnToSpot moves replicas from on-demand to spot in batches, see move. Ready replicas never drop below demand.
func (t *tick) returnToSpot() {
	m, s := &t.s.Move, &t.s.Spot
	if !t.paired() || s.Phase != Probing && s.Phase != Returning || t.g.Advisory || t.leaving {
		*m = move{}
		t.explainNoReturn()
		return
	}
	if m.Step != noMove {
		t.advanceMove()
	}
	if m.Step == noMove {
		t.startMove()
	}
	if s.Phase == Returning {
		t.because(Reason{Rule: RuleReturn, Pool: int8(t.onDemand), A: float64(t.returnable), B: float64(t.g.ReturnNodesPerHour),
			Until: t.future(t.nextNode())})
	}
	i := t.workload(m.Workload)
	if m.Step == noMove || i < 0 {
		return
	}
	if m.Step != shrinking {
		t.d.Advice[i].Surge = m.Count
	}
	w := &t.o.Workloads[i]
	t.because(Reason{Rule: RuleMove, Pool: int8(t.spot), Name: w.Key, A: float64(t.ready(w)), B: float64(w.needs())})
}

// nextNode returns when the next node may be chosen. A return that follows no probe waits first: Karpenter may have had one failed
// launch.
func (t *tick) nextNode() int64 {
	s := &t.s.Spot
	next := s.Moved + t.nodeInterval()
	if s.Moved == 0 {
		next = 0
	}
	if s.Phase == Returning && s.Cause == CauseNone {
		next = max(next, s.Since+firstFallback.Milliseconds())
	}
	return max(next, t.s.Pace.Until)
}

// nodeInterval returns the time between two nodes, in milliseconds.
func (a *analysis) nodeInterval() int64 {
	return time.Hour.Milliseconds() / max(a.g.ReturnNodesPerHour, 1)
}

// startMove chooses the next batch: first what is left on the node that is being emptied, then the least used nodes, as many as the
// pace allows since the last one.
func (t *tick) startMove() {
	m := &t.s.Move
	if !t.known || t.peak() || t.s.ShortSince != 0 || !t.canReturn() || t.hasEmptyNode() || t.at < t.s.Pace.Until {
		return
	}
	allowed := int64(0) // further nodes
	if next := t.nextNode(); t.at >= next {
		allowed = 1 + (t.at-next)/t.nodeInterval()
	}
	nodes, spare := t.o.Pools[t.onDemand].Nodes, t.aboveBase()
	batch := move{Step: surging, Since: t.at}
	for i := t.nextToEmpty(-1, spare); i >= 0; i = t.nextToEmpty(i, spare) {
		n := &nodes[i]
		if n.Name != m.Node && allowed == 0 {
			break
		}
		if !t.fillBatch(&batch, i) {
			continue
		}
		if n.Name != m.Node {
			allowed--
			t.s.Spot.Moved = t.at
			t.s.encodeRecords()
		}
		batch.Node, spare = n.Name, spare-units(n.GPUs)
	}
	if batch.Count > 0 {
		*m = batch
	}
}

// nextToEmpty returns the node that follows another one, or the first for -1: the node that is being emptied, then by use and name.
func (t *tick) nextToEmpty(after int, spare int64) int {
	nodes, best := t.o.Pools[t.onDemand].Nodes, -1
	for i := range nodes {
		if t.canEmpty(i, spare) && (after < 0 || t.before(after, i)) && (best < 0 || t.before(i, best)) {
			best = i
		}
	}
	return best
}

// before reports whether node i is emptied before node j.
func (t *tick) before(i, j int) bool {
	a, b := &t.o.Pools[t.onDemand].Nodes[i], &t.o.Pools[t.onDemand].Nodes[j]
	if x, y := a.Name == t.s.Move.Node, b.Name == t.s.Move.Node; x != y {
		return x
	}
	return a.Used < b.Used || a.Used == b.Used && a.Name < b.Name
}

// fillBatch adds as many pods of a node to a batch as it may still have, and reports whether it added any.
func (t *tick) fillBatch(batch *move, node int) bool {
	before := batch.Count
	for {
		w, p := t.victim(batch, node)
		if p == nil || batch.Count >= t.batchWidth(w) {
			return batch.Count > before
		}
		batch.Workload, batch.Victims[batch.Count] = w.Key, p.UID
		batch.Count++
	}
}

// batchWidth returns how many replicas of a workload move at once: one at first, twice as many after each batch that arrived
// completely, and at most as many as fit on spot and below the bounds of the workload.
func (t *tick) batchWidth(w *Workload) int32 {
	n := int32(1)
	if t.s.Spot.Phase == Returning {
		n = max(1, min(int32(t.s.Pace.Width), w.needs()/surgeShare, maxBatch))
	}
	if w.Bounded {
		n = min(n, max(w.Room, 0))
	}
	return int32(min(int64(n), t.spareOnSpot()/max(units(w.GPUs), 1)))
}

// hasEmptyNode reports whether an empty on-demand node exists: the next successor would be scheduled there, and not on spot.
func (a *analysis) hasEmptyNode() bool {
	for i := range a.o.Pools[a.onDemand].Nodes {
		if n := &a.o.Pools[a.onDemand].Nodes[i]; n.Used == 0 && n.GPUs > 0 && n.Stage == Usable && n.acceptsPods(a.now) {
			return true
		}
	}
	return false
}

// victim returns the pod of a node that moves next: of a workload with all replicas ready, and of the batch's workload if it has one.
func (a *analysis) victim(batch *move, node int) (of *Workload, victim *Pod) {
	for i := range a.o.Workloads {
		w := &a.o.Workloads[i]
		if !w.Known || w.Paused || a.ready(w) < w.needs() || w.needs() == 0 || batch.Count > 0 && w.Key != batch.Workload {
			continue
		}
		for j := range w.Pods {
			p := &w.Pods[j]
			onNode := p.Pool == a.onDemand && p.Node == node
			if onNode && movable(w, p) && !batch.has(p.UID) && (victim == nil || p.Name < victim.Name) {
				of, victim = w, p
			}
		}
	}
	return of, victim
}

// has reports whether a pod is one of the victims.
func (m *move) has(uid string) bool {
	return slices.Contains(m.Victims[:min(max(m.Count, 0), maxBatch)], uid)
}
