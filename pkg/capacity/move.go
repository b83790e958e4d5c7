package capacity

import (
	"slices"
	"time"
)

const (
	// successorTimeout is how long the successors of a batch may take until they are ready on spot, in addition to the group's lead time.
	// After that the move ends without a result.
	successorTimeout = 20 * time.Minute
	// shrinkTimeout is how long the deletion of the annotated pods may take after the target has decreased.
	shrinkTimeout = 10 * time.Minute
	// growthDelay is how long the target must be at least the number of pods before the move ends. With such a target, the ReplicaSet
	// deletes none of the annotated pods.
	growthDelay = time.Minute
	// maxPaceWait is the longest wait after a batch for which spot had no capacity. Each attempt while spot has no capacity costs an
	// additional on-demand node for some minutes.
	maxPaceWait = 30 * time.Minute
	// lowestCost is lower than every other deletion cost.
	lowestCost = "-2147483647"
)

// move is the state machine of a batch of replicas of one workload that moves from on-demand to spot. The target first increases by a surge
// of as many successors as the batch has replicas. When the successors are ready on spot, or on reserved capacity if the group also has a
// reserved NodePool, the replaced pods, called victims, are deleted.
//
//	step        event               next        action
//	surging     successorsReady     annotating  drops the victims without a successor
//	surging     successorsRefused   noMove      the next batch waits longer
//	annotating  victimsAnnotated    shrinking   the target decreases by the surge
//	annotating  moveTimeout         noMove      the next node waits
//	shrinking   moveTimeout         noMove      the victims stay
//	shrinking   demandGrew          noMove      the victims are needed
//	any         victimsGone         noMove      after shrinking: the next batch is twice as wide
//	any         workloadUnknown     noMove      the target decreases by the surge
//	any         foreignAnnotation   noMove      the annotation of another manager stays
//
// In every other combination the step does not change; moveTransitions is the complete table. The move is not part of a record. A new
// leader computes the target without the surge and clears the annotations of the move.
type move struct {
	Step     moveStep         `json:"step,omitempty"`
	Refused  bool             `json:"refused,omitempty"` // spot had no space for the complete batch
	Since    int64            `json:"since,omitempty"`   // start of the move, or of the step shrinking
	Workload string           `json:"workload,omitempty"`
	Count    int32            `json:"count,omitempty"` // number of victims
	Victims  [maxBatch]string `json:"victims"`         // UIDs of the victims
	// the on-demand node that is being emptied; after a move it stays set until the next node is chosen
	Node string `json:"node,omitempty"`
}

type moveStep uint8

const (
	noMove     moveStep = iota
	surging             // the target includes the surge; the successors are not ready on spot yet
	annotating          // the successors are ready: the pods on demand get the lowest deletion cost
	shrinking           // the target has no surge; the annotated pods are deleted
	numMoveSteps
)

type moveEvent uint8

const (
	moveUnchanged     moveEvent = iota
	workloadUnknown             // the workload is gone, paused, or without a current decision
	victimsGone                 // every victim is deleted
	foreignAnnotation           // a victim has a deletion cost of another manager
	successorsReady             // enough replicas are ready without the victims, including the successors on spot or reserved capacity
	successorsRefused           // no successor runs on spot, or none was ready in time
	victimsAnnotated            // the observation shows the lowest deletion cost on every victim, and enough replicas are ready without them
	moveTimeout                 // the step takes too long
	demandGrew                  // the target is as high as the number of existing replicas
	numMoveEvents
)

// moveTransitions is the next step for each step and event.
var moveTransitions = [numMoveSteps][numMoveEvents]moveStep{
	noMove: {}, // every event: noMove
	surging: {moveUnchanged: surging, successorsReady: annotating, victimsAnnotated: surging, moveTimeout: surging,
		demandGrew: surging}, // every other event: noMove
	annotating: {moveUnchanged: annotating, successorsReady: annotating, successorsRefused: annotating, victimsAnnotated: shrinking,
		demandGrew: annotating},
	shrinking: {moveUnchanged: shrinking, successorsReady: shrinking, successorsRefused: shrinking, victimsAnnotated: shrinking},
}

// successors counts the new pods of a batch, by where they run and whether they are ready.
type successors struct {
	ready    int32 // ready on spot nodes
	reserved int32 // ready on nodes of a reserved NodePool that Karpenter uses before spot
	loading  int32 // on spot or reserved nodes, not ready yet
	refused  int32 // on a new on-demand node, because spot had no capacity
	existing int32 // ready on an older on-demand node: the pod replaces a lost pod and does not show whether spot has capacity
	spare    int32 // number of ready replicas that demand does not need
}

// moved returns the number of replicas that are ready on nodes to which a batch may move.
func (c *successors) moved() int32 { return c.ready + c.reserved }

// moveInput is everything that the state machine reads.
type moveInput struct {
	phase     Phase
	known     bool // the workload exists, has a current decision, and is not paused
	victims   int32
	foreign   bool          // a victim has a deletion cost of another manager
	age       time.Duration // age of the move, or of the step shrinking
	limit     time.Duration // successorTimeout plus the group's lead time
	came      successors
	grew      bool  // the target is as high as the number of pods
	annotated bool  // the observation shows the lowest deletion cost on every victim
	readyGone int32 // number of victims that are ready
}

// event returns the event that the input causes in the current step.
func (m *move) event(in *moveInput) moveEvent {
	switch {
	case m.Step == noMove:
		return moveUnchanged
	case !in.known:
		return workloadUnknown
	case in.victims == 0:
		return victimsGone
	case in.foreign:
		return foreignAnnotation
	case m.Step == surging:
		return in.surgeEvent()
	case m.Step == annotating && in.came.spare >= in.readyGone && in.annotated:
		return victimsAnnotated
	case m.Step == annotating && in.age > in.limit+shrinkTimeout, m.Step == shrinking && in.age > shrinkTimeout:
		return moveTimeout
	case m.Step == shrinking && in.age > growthDelay && in.grew:
		return demandGrew
	}
	return moveUnchanged
}

func (in *moveInput) surgeEvent() moveEvent {
	c, late, ready := &in.came, in.age > in.limit, in.came.moved()
	over := late || c.loading == 0 && ready+c.refused+c.existing >= in.victims
	// During a probe, a successor on reserved capacity does not show whether spot has capacity, but the replica has moved.
	moves := in.phase == Returning && ready > 0 || c.reserved > 0 && c.reserved >= in.victims
	switch {
	case moves && over && c.spare >= min(ready, in.victims):
		return successorsReady
	case late || ready == 0 && over:
		return successorsRefused
	}
	return moveUnchanged
}

// advanceMove computes the event of this tick for the current batch and executes its action.
func (t *tick) advanceMove() {
	m := &t.s.Move
	in, w, foreign := t.moveInput()
	event := m.event(&in)
	if next := moveTransitions[m.Step][event]; next == m.Step {
		return
	}
	switch event {
	case workloadUnknown, moveTimeout, demandGrew:
		if m.Step == annotating && event == moveTimeout {
			t.giveUpMove() // the victims cannot be annotated; the move ends, because its surge must not last forever
			return
		}
		m.end()
	case victimsGone:
		t.completeMove()
	case foreignAnnotation:
		t.find(Finding{Kind: FindForeignAnnotation, Pool: -1, Name: foreign.Namespace + "/" + foreign.Name, Rule: RuleMove})
		m.end()
	case successorsReady:
		t.keepSuccessors(w, in.came)
	case successorsRefused:
		t.refuseBatch(in.came.refused > 0 || in.age > in.limit)
		t.giveUpMove()
	case victimsAnnotated:
		m.Step, m.Since = shrinking, t.at
	}
}

// moveInput returns the input of the state machine, the workload of the batch, and a victim that has a deletion cost of another manager, or
// nil. It also removes the victims that no longer exist from the batch.
func (t *tick) moveInput() (in moveInput, w *Workload, foreign *Pod) {
	m := &t.s.Move
	i := t.workload(m.Workload)
	if in.known = i >= 0 && t.o.Workloads[i].Known && !t.o.Workloads[i].Paused; !in.known {
		return in, nil, nil
	}
	w = &t.o.Workloads[i]
	m.dropGone(w)
	foreign = m.foreign(w)
	in.phase, in.victims, in.foreign, in.limit = t.s.Spot.Phase, m.Count, foreign != nil, successorTimeout+t.g.LeadTime
	in.age = time.Duration(t.at-m.Since) * time.Millisecond
	in.came, in.grew = t.successors(w), w.Uncapped >= int32(len(w.Pods))
	in.annotated, in.readyGone = m.annotated(w), t.readyVictims(w)
	return in, w, foreign
}

// dropGone drops the victims that do not exist any more.
func (m *move) dropGone(w *Workload) {
	count := m.Count
	m.Count = 0
	for _, uid := range m.Victims[:min(count, maxBatch)] {
		if slices.ContainsFunc(w.Pods, func(p Pod) bool { return p.UID == uid }) {
			m.Victims[m.Count] = uid
			m.Count++
		}
	}
	clear(m.Victims[m.Count:])
}

// foreign returns a victim with a deletion cost of another manager, or nil.
func (m *move) foreign(w *Workload) *Pod {
	for j := range w.Pods {
		if p := &w.Pods[j]; m.has(p.UID) && p.DeletionCost.Value != "" && !p.DeletionCost.Ours {
			return p
		}
	}
	return nil
}

// annotated reports whether the observation shows the lowest deletion cost on every victim.
func (m *move) annotated(w *Workload) bool {
	return !slices.ContainsFunc(w.Pods, func(p Pod) bool { return m.has(p.UID) && p.DeletionCost.Value != lowestCost })
}

// end ends a move. The node remains the one that is being emptied, so that the next batch continues with it.
func (m *move) end() { *m = move{Node: m.Node} }

// readyVictims returns the number of victims that are ready on a node without an interruption notice that is not being deleted.
func (t *tick) readyVictims(w *Workload) (n int32) {
	for j := range w.Pods {
		if p := &w.Pods[j]; p.Ready && !t.endangered(p) && t.s.Move.has(p.UID) {
			n++
		}
	}
	return n
}

// successors counts the workload's pods that were created since the move began.
func (t *tick) successors(w *Workload) (c successors) {
	c.spare = t.ready(w) - w.needs()
	for j := range w.Pods {
		p := &w.Pods[j]
		switch n := t.node(p); {
		case n == nil || !t.createdInMove(p.Since) || t.endangered(p):
		case t.spot.has(p.Pool) && p.Ready:
			c.ready++
		case t.isReserved(p.Pool) && p.Ready:
			c.reserved++
		case (t.spot.has(p.Pool) || t.isReserved(p.Pool)) && p.Loading:
			c.loading++
		case t.onDemand.has(p.Pool) && t.createdInMove(n.Created):
			c.refused++
		case t.onDemand.has(p.Pool) && p.Ready:
			c.existing++
		}
	}
	return c
}

// successorOnDemand reports whether a successor of the current batch runs on a new on-demand node, because spot had no capacity for it.
func (t *tick) successorOnDemand() bool {
	m := &t.s.Move
	if m.Step != surging {
		return false
	}
	i := t.workload(m.Workload)
	return i >= 0 && t.successors(&t.o.Workloads[i]).refused > 0
}

// keepSuccessors continues the move with as many victims as there are successors ready on spot or reserved capacity. If there are fewer
// than requested, the other successors that run on new on-demand nodes also become victims, up to the size of the batch. The limit is
// necessary because some pods on new on-demand nodes may serve demand that has grown meanwhile.
func (t *tick) keepSuccessors(w *Workload, came successors) {
	m := &t.s.Move
	m.Step = annotating
	ready := came.moved()
	if ready >= m.Count {
		return
	}
	requested := m.Count
	clear(m.Victims[ready:])
	m.Count = ready
	t.refuseBatch(came.refused > 0)
	for j := range w.Pods {
		p := &w.Pods[j]
		n := t.node(p)
		if m.Count < requested && n != nil && t.onDemand.has(p.Pool) && t.createdInMove(p.Since) && t.createdInMove(n.Created) {
			m.Victims[m.Count] = p.UID
			m.Count++
		}
	}
}

// refuseBatch records that spot had no capacity for the complete batch. This is not a failure of spot: replicas on spot stay there, and new
// replicas still use spot first. If full is true, the next batch has one replica and waits. Each consecutive wait is twice as long as the
// previous one.
func (t *tick) refuseBatch(full bool) {
	t.s.Move.Refused = true
	if p := &t.s.Pace; full {
		p.Width, p.Level = 1, min(p.Level+1, maxLevel)
		p.Until = t.at + jittered(min(settleTime<<(p.Level-1), maxPaceWait), t.g.Name, p.Level).Milliseconds()
	}
}

// completeMove ends a batch whose victims are deleted. If all of its successors were ready on spot, the next batch may be twice as large.
func (t *tick) completeMove() {
	if m, p := &t.s.Move, &t.s.Pace; m.Step == shrinking && !m.Refused {
		p.Width, p.Level = min(2*max(p.Width, 1), maxBatch), 0
	}
	t.s.Move.end()
}

// giveUpMove ends a move without a result. The next batch starts after the same interval as if the node had been emptied.
func (t *tick) giveUpMove() {
	t.s.Move = move{}
	t.s.Spot.Moved = t.at
	t.s.encodeRecords()
}

// createdInMove reports whether the creation time at is after the start of the move. The API server truncates creation times to seconds, so
// a time in the same second also counts. A time in the future does not count, because it means that the clock was set back.
func (t *tick) createdInMove(at time.Time) bool {
	return t.within(at, t.s.Move.Since-t.s.Move.Since%time.Second.Milliseconds()-1)
}
