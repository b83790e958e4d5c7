package capacity

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// successorTimeout is the time within which the successors of a batch (the new pods that replace its old pods) must be ready on spot, in
// addition to the group's lead time. After this time, the batch ends without a result.
const successorTimeout = 20 * time.Minute

// advanceMove computes the event of this tick for the current batch of pods that moves to spot, and executes the action that follows from
// it.
func (t *tick) advanceMove() {
	m := &t.s.Move
	in, w, foreign := t.moveInput()
	event := m.Event(&in)
	if m.Next(event) == m.Step {
		return
	}
	switch event {
	case statemachine.WorkloadUnknown, statemachine.MoveTimeout, statemachine.DemandGrew:
		if m.Step == statemachine.Annotating && event == statemachine.MoveTimeout {
			t.giveUpMove() // end the batch if the old pods cannot be annotated, because its additional replicas must not stay forever
			return
		}
		m.End()
	case statemachine.VictimsGone:
		t.completeMove()
	case statemachine.ForeignAnnotation:
		t.find(explain.Finding{Kind: explain.FindForeignAnnotation, Pool: -1, Name: foreign.Namespace + "/" + foreign.Name,
			Rule: explain.RuleMove})
		m.End()
	case statemachine.SuccessorsReady:
		t.keepSuccessors(w, in.Came)
	case statemachine.SuccessorsRefused:
		t.refuseBatch(in.Came.Refused > 0 || in.Age > in.Limit)
		t.giveUpMove()
	case statemachine.VictimsAnnotated:
		m.Step, m.Since = statemachine.Shrinking, t.at
	}
}

// moveInput returns the input of the state machine of a move to spot, and the workload whose pods move. The result foreign is a pod to
// delete (victim) whose deletion cost another manager has set, or nil. moveInput also removes victims that no longer exist from the
// batch.
func (t *tick) moveInput() (in statemachine.MoveInput, w *Workload, foreign *Pod) {
	m := &t.s.Move
	i := t.workload(m.Workload)
	if in.Known = i >= 0 && t.o.Workloads[i].Known && !t.o.Workloads[i].Paused; !in.Known {
		return in, nil, nil
	}
	w = &t.o.Workloads[i]
	m.DropGone(func(uid string) bool { return slices.ContainsFunc(w.Pods, func(p Pod) bool { return p.UID == uid }) })
	foreign = t.foreignVictim(w)
	in.Phase, in.Victims, in.Foreign, in.Limit = t.s.Spot.Phase, m.Count, foreign != nil, successorTimeout+t.lead()
	in.Age = time.Duration(t.at-m.Since) * time.Millisecond
	in.Came, in.Grew = t.successors(w), w.Uncapped >= int32(len(w.Pods))
	in.Annotated, in.ReadyGone = t.victimsAnnotated(w), t.readyVictims(w)
	return in, w, foreign
}

// foreignVictim returns a pod to delete (victim) whose deletion cost another manager has set, or nil.
func (t *tick) foreignVictim(w *Workload) *Pod {
	m := &t.s.Move
	for j := range w.Pods {
		if p := &w.Pods[j]; m.Has(p.UID) && p.DeletionCost.Value != "" && !p.DeletionCost.Ours {
			return p
		}
	}
	return nil
}

// victimsAnnotated reports whether the observation shows the lowest deletion cost on every pod that the batch will delete.
func (t *tick) victimsAnnotated(w *Workload) bool {
	m := &t.s.Move
	return !slices.ContainsFunc(w.Pods, func(p Pod) bool { return m.Has(p.UID) && p.DeletionCost.Value != lowestCost })
}

// readyVictims returns how many of the pods that the batch will delete are ready, on a node that has no interruption notice and is not
// being deleted.
func (t *tick) readyVictims(w *Workload) (n int32) {
	for j := range w.Pods {
		if p := &w.Pods[j]; p.Ready && !t.endangered(p) && t.s.Move.Has(p.UID) {
			n++
		}
	}
	return n
}

// successors counts the workload's pods that were created since the current move to spot began.
func (t *tick) successors(w *Workload) (c statemachine.Successors) {
	c.Spare = t.ready(w) - w.needs()
	for j := range w.Pods {
		p := &w.Pods[j]
		switch n := t.node(p); {
		case n == nil || !t.createdInMove(p.Since) || t.endangered(p):
		case t.spot.has(p.Pool) && p.Ready:
			c.Ready++
		case t.isPrepaid(p.Pool, n) && p.Ready:
			c.Reserved++
		case (t.spot.has(p.Pool) || t.isPrepaid(p.Pool, n)) && p.Loading:
			c.Loading++
		case t.onDemand.has(p.Pool) && t.createdInMove(n.Created):
			c.Refused++
		case t.onDemand.has(p.Pool) && p.Ready:
			c.Existing++
		}
	}
	return c
}

// successorOnDemand reports whether a new pod of the current move runs on a new on-demand node, because spot had no capacity for the pod.
func (t *tick) successorOnDemand() bool {
	m := &t.s.Move
	if m.Step != statemachine.Surging {
		return false
	}
	i := t.workload(m.Workload)
	return i >= 0 && t.successors(&t.o.Workloads[i]).Refused > 0
}

// keepSuccessors continues the move with as many pods to delete (victims) as there are new pods (successors) that are ready on spot or
// reserved capacity. If fewer successors than requested are ready there, the pods that the move created on new on-demand nodes become
// victims too, up to the requested number. The limit is necessary because some of these pods may serve demand that has grown during the
// move. If the provider takes the node of a victim, the batch gives up this victim, and one of the successors stays as its replacement.
func (t *tick) keepSuccessors(w *Workload, came statemachine.Successors) {
	m := &t.s.Move
	m.Step = statemachine.Annotating
	ready := came.Moved()
	if ready >= m.Count {
		return
	}
	requested := m.Count - t.victimsAtRisk(w)
	clear(m.Victims[ready:])
	m.Count = ready
	requested += t.victimsAtRisk(w)
	t.refuseBatch(came.Refused > 0)
	for j := range w.Pods {
		p := &w.Pods[j]
		n := t.node(p)
		if m.Count < requested && n != nil && t.onDemand.has(p.Pool) && n.Type != Reserved && t.createdInMove(p.Since) &&
			t.createdInMove(n.Created) {
			m.Victims[m.Count] = p.UID
			m.Count++
		}
	}
}

// refuseBatch records that spot had no capacity for the complete batch. This is not a failure of spot: replicas on spot stay there, and new
// replicas still use spot first. The parameter full is true if a new pod started on a new on-demand node or the batch exceeded its time
// limit. The next batch then has one replica and starts only after a wait, which doubles each time that a batch fails in this way.
func (t *tick) refuseBatch(full bool) {
	t.s.Move.Refused = true
	if full {
		t.s.Pace.Refused(t.at, t.g.Name)
	}
}

// completeMove ends a batch after its replaced pods have been deleted. If all of its new pods were ready on spot, the next batch may be
// twice as large.
func (t *tick) completeMove() {
	if m := &t.s.Move; m.Step == statemachine.Shrinking && !m.Refused {
		t.s.Pace.Completed()
	}
	t.s.Move.End()
}

// giveUpMove ends a move without a result. The next batch starts after the same interval as after a successful move.
func (t *tick) giveUpMove() {
	t.s.Move = statemachine.Move{}
	t.s.Spot.Moved = t.at
	t.s.MarkRecordsStale()
}

// createdInMove reports whether the creation time at is after the start of the move. The API server truncates creation times to seconds, so
// the result is also true for a time in the same second. It is false for a time in the future, which means that the clock was set back.
func (t *tick) createdInMove(at time.Time) bool {
	return t.within(at, t.s.Move.Since-t.s.Move.Since%time.Second.Milliseconds()-1)
}
