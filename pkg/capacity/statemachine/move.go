package statemachine

import (
	"slices"
	"time"
)

const (
	// MaxBatch is the maximum number of replicas in one batch.
	MaxBatch = 16
	// ShrinkTimeout is how long the deletion of the annotated pods may take after the target has decreased.
	ShrinkTimeout = 10 * time.Minute
	// GrowthDelay is the minimum time in the step Shrinking before growing demand ends the move. Demand has grown if the target is at least
	// the number of pods. In this case the ReplicaSet deletes none of the annotated pods.
	GrowthDelay = time.Minute
	// maxPaceWait is the longest wait after a batch for which spot had no capacity. Each attempt while spot has no capacity costs an
	// additional on-demand node for some minutes.
	maxPaceWait = 30 * time.Minute
)

// Move is the state machine of a batch of replicas of one workload that moves from on-demand to spot. First the target increases (a
// surge) by as many new replicas, called successors, as the batch has. When the successors are ready on spot, or on reserved capacity if
// the group has a reserved NodePool, the replaced pods, called victims, are deleted.
//
//	step        event               next        action
//	Surging     SuccessorsReady     Annotating  drops the victims without a successor
//	Surging     SuccessorsRefused   NoMove      the next batch waits longer
//	Annotating  VictimsAnnotated    Shrinking   the target decreases by the surge
//	Annotating  MoveTimeout         NoMove      the next move waits as after a successful move
//	Shrinking   MoveTimeout         NoMove      the remaining victims are not deleted
//	Shrinking   DemandGrew          NoMove      the victims are needed
//	any         VictimsGone         NoMove      after Shrinking: the next batch may be twice as large
//	any         WorkloadUnknown     NoMove      the target decreases by the surge
//	any         ForeignAnnotation   NoMove      the annotation of another manager is kept
//
// In every other combination the step does not change; moveTransitions is the complete table. The move is not stored on the NodePools. A
// new leader computes the target without the surge and removes the annotations of the move.
type Move struct {
	Step     MoveStep         `json:"step,omitempty"`
	Refused  bool             `json:"refused,omitempty"` // whether spot had no space for the whole batch
	Since    int64            `json:"since,omitempty"`   // start of the step Shrinking, or of the move in earlier steps
	Workload string           `json:"workload,omitempty"`
	Count    int32            `json:"count,omitempty"` // number of pods that the batch replaces (victims)
	Victims  [MaxBatch]string `json:"victims"`         // UIDs of the pods that the batch replaces
	// the on-demand node that is being emptied; after a move it stays set until the next node is chosen
	Node string `json:"node,omitempty"`
}

// MoveStep is a state of Move.
type MoveStep uint8

// Values of MoveStep.
const (
	NoMove     MoveStep = iota
	Surging             // the target includes the additional replicas (surge); the new pods are not ready on spot yet
	Annotating          // the new pods are ready: the pods on on-demand nodes get the lowest deletion cost
	Shrinking           // the target no longer includes the surge; the annotated pods are deleted
	numMoveSteps
)

// MoveEvent is an event of Move. Each tick has exactly one event.
type MoveEvent uint8

// Values of MoveEvent.
const (
	MoveUnchanged     MoveEvent = iota
	WorkloadUnknown             // the workload does not exist, is paused, or has no current decision
	VictimsGone                 // every pod that the batch replaces is deleted
	ForeignAnnotation           // another manager has set the deletion cost of a pod that the batch replaces
	SuccessorsReady             // enough replicas are ready, counting new pods on spot or reserved capacity but not the pods to replace
	SuccessorsRefused           // no new pod runs on spot, or none was ready in time
	VictimsAnnotated            // every replaced pod has the lowest deletion cost, and enough other replicas are ready
	MoveTimeout                 // the step takes too long
	DemandGrew                  // the target is as high as the number of existing replicas
	numMoveEvents
)

// moveTransitions contains the next step for each step and event.
var moveTransitions = [numMoveSteps][numMoveEvents]MoveStep{
	NoMove: {}, // for every event the next step is NoMove
	Surging: {MoveUnchanged: Surging, SuccessorsReady: Annotating, VictimsAnnotated: Surging, MoveTimeout: Surging,
		DemandGrew: Surging}, // for every other event the next step is NoMove
	Annotating: {MoveUnchanged: Annotating, SuccessorsReady: Annotating, SuccessorsRefused: Annotating, VictimsAnnotated: Shrinking,
		DemandGrew: Annotating},
	Shrinking: {MoveUnchanged: Shrinking, SuccessorsReady: Shrinking, SuccessorsRefused: Shrinking, VictimsAnnotated: Shrinking},
}

// Successors contains the numbers of new pods (successors) of a batch, by where they run and whether they are ready.
type Successors struct {
	Ready    int32 // pods that are ready on spot nodes
	Reserved int32 // pods that are ready on nodes of a reserved NodePool, which Karpenter uses before spot
	Loading  int32 // pods on spot or reserved nodes that are not ready yet
	Refused  int32 // pods on a new on-demand node, because spot had no capacity for them
	Existing int32 // ready pods on an on-demand node that is older than the batch; they replace lost pods, so they are not evidence about spot
	Spare    int32 // number of ready replicas above the demand
}

// Moved returns the number of replicas that are ready on nodes to which a batch may move.
func (c *Successors) Moved() int32 { return c.Ready + c.Reserved }

// MoveInput contains everything that the state machine reads in a tick.
type MoveInput struct {
	Phase     Phase
	Known     bool // the workload exists, has a current decision, and is not paused
	Victims   int32
	Foreign   bool          // whether another manager has set the deletion cost of a pod that the batch replaces
	Age       time.Duration // time since the start of the step Shrinking, or since the start of the move in earlier steps
	Limit     time.Duration // maximum Age in the step Surging: successorTimeout plus the group's lead time
	Came      Successors
	Grew      bool  // whether the target is as high as the number of pods
	Annotated bool  // whether the observation contains the lowest deletion cost on every replaced pod
	ReadyGone int32 // number of ready pods among the pods to replace
}

// Event returns the event that the input causes in the current step.
func (m *Move) Event(in *MoveInput) MoveEvent {
	switch {
	case m.Step == NoMove:
		return MoveUnchanged
	case !in.Known:
		return WorkloadUnknown
	case in.Victims == 0:
		return VictimsGone
	case in.Foreign:
		return ForeignAnnotation
	case m.Step == Surging:
		return in.surgeEvent()
	case m.Step == Annotating && in.Came.Spare >= in.ReadyGone && in.Annotated:
		return VictimsAnnotated
	case m.Step == Annotating && in.Age > in.Limit+ShrinkTimeout, m.Step == Shrinking && in.Age > ShrinkTimeout:
		return MoveTimeout
	case m.Step == Shrinking && in.Age > GrowthDelay && in.Grew:
		return DemandGrew
	}
	return MoveUnchanged
}

func (in *MoveInput) surgeEvent() MoveEvent {
	c, late, ready := &in.Came, in.Age > in.Limit, in.Came.Moved()
	over := late || c.Loading == 0 && ready+c.Refused+c.Existing >= in.Victims
	// During a probe, successors on reserved capacity do not show that spot has capacity. They count as moved if they replace the whole
	// batch.
	moves := in.Phase == Returning && ready > 0 || c.Reserved > 0 && c.Reserved >= in.Victims
	switch {
	case moves && over && c.Spare >= min(ready, in.Victims):
		return SuccessorsReady
	case late || ready == 0 && over:
		return SuccessorsRefused
	}
	return MoveUnchanged
}

// DropGone removes deleted pods from the list of the pods that the batch replaces.
func (m *Move) DropGone(exists func(uid string) bool) {
	count := m.Count
	m.Count = 0
	for _, uid := range m.Victims[:min(count, MaxBatch)] {
		if exists(uid) {
			m.Victims[m.Count] = uid
			m.Count++
		}
	}
	clear(m.Victims[m.Count:])
}

// Refused records that spot had no capacity for a batch. The next batch has one replica and starts only after a wait. The wait doubles with
// each consecutive batch for which spot had no capacity. It depends on the name of the group, so that several groups do not retry at the
// same time.
func (p *Pace) Refused(at int64, group string) {
	p.Width, p.Level = 1, min(p.Level+1, MaxLevel)
	p.Until = at + jittered(min(SettleTime<<(p.Level-1), maxPaceWait), group, p.Level).Milliseconds()
}

// Completed records that spot had capacity for a batch. The next batch may be twice as large as the completed batch.
func (p *Pace) Completed() { p.Width, p.Level = min(2*max(p.Width, 1), MaxBatch), 0 }

// Next returns the step after an event.
func (m *Move) Next(event MoveEvent) MoveStep { return moveTransitions[m.Step][event] }

// End ends a move. It keeps the field Node, so that the next batch continues to empty the same node.
func (m *Move) End() { *m = Move{Node: m.Node} }

// Pace contains the maximum size and the earliest start time of the next batch of replicas that move to spot. It is not stored on the
// NodePools, so a new leader begins with a batch of one replica.
type Pace struct {
	Width uint8 `json:"width,omitempty"` // maximum size of the next batch; doubled after each batch for which spot had capacity
	Level uint8 `json:"level,omitempty"` // number of consecutive batches for which spot had no capacity
	Until int64 `json:"until,omitempty"` // start time of the next batch
}

// Has reports whether the batch replaces the pod with the given UID.
func (m *Move) Has(uid string) bool {
	return slices.Contains(m.Victims[:min(max(m.Count, 0), MaxBatch)], uid)
}
