package capacity

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// surgeShare limits how many replicas of a workload may move to spot at once: the workload's replicas divided by surgeShare. A quarter is
// also the default surge of a Deployment's rolling update.
const surgeShare = 4

// onDemandNode is a node of an on-demand NodePool whose replicas may move to spot.
type onDemandNode struct {
	pool, node int   // index in Observation.Pools, and index in the Nodes of that NodePool
	movable    int64 // units of the movable pods on the node
}

// findReturnable computes how many units of the on-demand NodePools become free if all movable replicas move to spot. It includes only
// nodes whose pods are all movable, and only as many units as the group has above its on-demand base (Group.OnDemandBase). For example, a
// node with the pod of a Job would not become empty. If a return waited for such a node, consolidation would stay frozen forever.
func (a *analysis) findReturnable() {
	a.returning = a.returning[:0]
	if !a.paired() {
		return
	}
	var first [nodepool.MaxPools]int // for each on-demand NodePool, the index of its first node in a.returning
	for _, pool := range a.onDemand.all() {
		first[pool] = len(a.returning)
		for node := range a.o.Pools[pool].Nodes {
			a.returning = append(a.returning, onDemandNode{pool: int(pool), node: node})
		}
	}
	a.eachPod(func(w *Workload, p *Pod) {
		if a.onDemand.has(p.Pool) && p.Node >= 0 && p.Node < len(a.o.Pools[p.Pool].Nodes) && movable(w, p) {
			a.returning[first[p.Pool]+p.Node].movable += nodepool.Units(p.GPUs)
			if size := nodepool.Units(p.GPUs); a.smallestMove == 0 || size < a.smallestMove {
				a.smallestMove = size
			}
		}
	})
	spare := a.aboveBase()
	for i := range a.returning {
		if a.canEmpty(i, spare) {
			a.returnable += nodepool.Units(a.returningNode(i).Used)
		}
	}
	a.returnable = min(a.returnable, spare)
}

// returningNode returns the node with an index in a.returning.
func (a *analysis) returningNode(i int) *Node {
	n := &a.returning[i]
	return &a.o.Pools[n.pool].Nodes[n.node]
}

// canEmpty reports whether two conditions are met: the node with index i in a.returning becomes empty if its movable pods move, and the
// group keeps its on-demand base without this node. The parameter spare is the number of units above the on-demand base. A node of a
// capacity reservation is never emptied, because the reservation is paid for in any case.
func (a *analysis) canEmpty(i int, spare int64) bool {
	n := a.returningNode(i)
	return !n.Deleting && n.Type != Reserved && n.Stage == Usable && n.Used > 0 && a.returning[i].movable == nodepool.Units(n.Used) &&
		nodepool.Units(n.GPUs) <= spare
}

// spareOnSpot returns how many spot GPUs are available for replicas from on-demand: the free GPUs of existing spot nodes plus the GPUs of
// nodes that the limits still allow, minus the GPUs that pending pods need.
func (a *analysis) spareOnSpot() int64 {
	size, free := max(a.smallestMove, 1), int64(0)
	for _, i := range a.spot.all() {
		free += a.freeUnitsOf(int(i), size)
	}
	return max(free+a.spot.room-a.demand.Pending, 0)
}

// canReturn reports whether spot has space for at least one replica from on-demand. Without this check, a return with a full spot
// NodePool would add a replica that again runs on an on-demand node, and would repeat this endlessly.
func (a *analysis) canReturn() bool {
	return a.returnable > 0 && a.spareOnSpot() >= max(a.smallestMove, 1)
}

// explainNoReturn adds a reason with the limit of the spot NodePool that keeps replicas on on-demand nodes.
func (t *tick) explainNoReturn() {
	if t.paired() && t.s.Spot.Phase == statemachine.PreferSpot && t.returnable > 0 && t.known && t.spotFirst() && !t.canReturn() {
		t.because(explain.Reason{Rule: explain.RuleReturn, Pool: t.spot.first(), Name: t.pools[t.spot.first()].full, Cause: explain.CauseLimit,
			A: float64(t.returnable)})
	}
}

// movable reports whether a pod can be moved to spot. In a move, gpuscaler first adds a replica and then lowers the target, so that the
// old pod is deleted. Only a ReplicaSet deletes the right pod, because it reads the deletion cost. A pod that claims devices is not
// moved, because by default Karpenter launches no node for its successor.
func movable(w *Workload, p *Pod) bool {
	return w != nil && p.Owner == OwnerReplicaSet && !w.Paused && !p.Pinned && !p.Claimed && !p.Claims
}

// returnToSpot moves replicas from on-demand to spot in batches (statemachine.Move). Ready replicas never drop below demand.
func (t *tick) returnToSpot() {
	m, s := &t.s.Move, &t.s.Spot
	if !t.paired() || s.Phase != statemachine.Probing && s.Phase != statemachine.Returning || t.g.Advisory || t.leaving {
		*m = statemachine.Move{}
		t.explainNoReturn()
		return
	}
	if m.Step != statemachine.NoMove {
		t.advanceMove()
	}
	if m.Step == statemachine.NoMove {
		t.startMove()
	}
	if s.Phase == statemachine.Returning {
		t.because(explain.Reason{Rule: explain.RuleReturn, Pool: t.onDemand.first(), A: float64(t.returnable), B: float64(t.g.ReturnNodesPerHour),
			Until: t.future(t.nextNode())})
	}
	i := t.workload(m.Workload)
	if m.Step == statemachine.NoMove || i < 0 {
		return
	}
	w := &t.o.Workloads[i]
	if m.Step != statemachine.Shrinking {
		t.d.Advice[i].Surge = m.Count - t.victimsAtRisk(w)
	}
	t.because(explain.Reason{Rule: explain.RuleMove, Pool: t.spot.first(), Name: w.Key, A: float64(t.ready(w)), B: float64(w.needs())})
}

// victimsAtRisk returns how many ready pods that the current move replaces (victims) are on a node that the provider is about to take. The
// move needs no surge for these pods, because the rule addAtRisk already adds a replica for each of them.
func (t *tick) victimsAtRisk(w *Workload) (n int32) {
	for j := range w.Pods {
		p := &w.Pods[j]
		if node := t.node(p); p.Ready && node != nil && node.taken() && t.s.Move.Has(p.UID) {
			n++
		}
	}
	return n
}

// nextNode returns the time, in Unix milliseconds, from which a move may begin to empty the next node. If the return did not begin after
// a probe, the first move waits for FirstFallback: the replicas may run on on-demand nodes because a launch on spot failed shortly
// before.
func (t *tick) nextNode() int64 {
	s := &t.s.Spot
	next := s.Moved + t.nodeInterval()
	if s.Moved == 0 {
		next = 0
	}
	if s.Phase == statemachine.Returning && s.Cause == explain.CauseNone {
		next = max(next, s.Since+statemachine.FirstFallback.Milliseconds())
	}
	return max(next, t.s.Pace.Until)
}

// nodeInterval returns the minimum time, in milliseconds, between the moves of two nodes.
func (a *analysis) nodeInterval() int64 {
	return time.Hour.Milliseconds() / max(a.g.ReturnNodesPerHour, 1)
}

// startMove chooses the pods of the next batch, unless a surge runs. It first chooses the remaining pods of the node that is being
// emptied, and then pods of the least used nodes. The configured pace limits how many additional nodes it may choose.
func (t *tick) startMove() {
	m := &t.s.Move
	if !t.known || t.peak() || t.s.ShortSince != 0 || !t.canReturn() || t.hasEmptyNode() || t.at < t.s.Pace.Until ||
		t.s.runningSurges() > 0 {
		return
	}
	allowed := int64(0) // number of nodes that may be chosen in addition to the node that is being emptied
	if next := t.nextNode(); t.at >= next {
		allowed = 1 + (t.at-next)/t.nodeInterval()
	}
	spare := t.aboveBase()
	batch := statemachine.Move{Step: statemachine.Surging, Since: t.at}
	for i := t.nextToEmpty(-1, spare); i >= 0; i = t.nextToEmpty(i, spare) {
		n := t.returningNode(i)
		if n.Name != m.Node && allowed == 0 {
			break
		}
		if !t.fillBatch(&batch, i) {
			continue
		}
		if n.Name != m.Node {
			allowed--
			t.s.Spot.Moved = t.at
			t.s.MarkRecordsStale()
		}
		batch.Node, spare = n.Name, spare-nodepool.Units(n.GPUs)
	}
	if batch.Count > 0 {
		*m = batch
	}
}

// nextToEmpty returns the index in t.returning of the node that is emptied after the node with the index `after`, or -1 if there is no
// such node. If `after` is -1, it returns the first node to empty. The method before defines the order.
func (t *tick) nextToEmpty(after int, spare int64) int {
	best := -1
	for i := range t.returning {
		if t.canEmpty(i, spare) && (after < 0 || t.before(after, i)) && (best < 0 || t.before(i, best)) {
			best = i
		}
	}
	return best
}

// before reports whether the node with index i in t.returning is emptied before the node with index j. The node that is already being
// emptied is first, then the node with fewer GPUs in use, then the node whose name is first in the alphabet.
func (t *tick) before(i, j int) bool {
	a, b := t.returningNode(i), t.returningNode(j)
	if x, y := a.Name == t.s.Move.Node, b.Name == t.s.Move.Node; x != y {
		return x
	}
	return a.Used < b.Used || a.Used == b.Used && a.Name < b.Name
}

// fillBatch adds pods of a node to the batch until the batch has the size that batchWidth allows. It reports whether it added a pod.
func (t *tick) fillBatch(batch *statemachine.Move, node int) bool {
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

// batchWidth returns how many replicas of a workload one batch may move. The first batch moves one replica. The number doubles after each
// batch whose successors were all ready on spot. It is limited by the space on spot and by the number of replicas that the workload may
// have.
func (t *tick) batchWidth(w *Workload) int32 {
	n := int32(1)
	if t.s.Spot.Phase == statemachine.Returning {
		n = max(1, min(int32(t.s.Pace.Width), w.needs()/surgeShare, statemachine.MaxBatch))
	}
	if w.Bounded {
		n = min(n, max(w.Room, 0))
	}
	return int32(min(int64(n), t.spareOnSpot()/max(nodepool.Units(w.GPUs), 1)))
}

// hasEmptyNode reports whether an empty on-demand node exists. On such a node the next successor would be scheduled instead of on spot.
// An empty node of a capacity reservation is ignored, because a successor that is scheduled there counts as moved.
func (a *analysis) hasEmptyNode() bool {
	for i := range a.returning {
		if n := a.returningNode(i); n.Used == 0 && n.GPUs > 0 && n.Type != Reserved && n.Stage == Usable && n.acceptsPods(a.now) {
			return true
		}
	}
	return false
}

// victim returns the next pod of the node that should move to spot, with its workload, or nil. All required replicas of the workload must
// be ready. If the batch already has pods, the next pod must belong to the same workload.
func (a *analysis) victim(batch *statemachine.Move, node int) (of *Workload, victim *Pod) {
	for i := range a.o.Workloads {
		w := &a.o.Workloads[i]
		if !w.Known || w.Paused || a.ready(w) < w.needs() || w.needs() == 0 || batch.Count > 0 && w.Key != batch.Workload {
			continue
		}
		for j := range w.Pods {
			p := &w.Pods[j]
			onNode := p.Pool == a.returning[node].pool && p.Node == a.returning[node].node
			if onNode && movable(w, p) && !batch.Has(p.UID) && (victim == nil || p.Name < victim.Name) {
				of, victim = w, p
			}
		}
	}
	return of, victim
}
