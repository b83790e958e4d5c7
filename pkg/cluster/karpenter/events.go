package karpenter

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of Events about NodeClaims.
const (
	// InsufficientCapacity is the reason of Karpenter's Event if the cloud provider has no capacity for a launch.
	InsufficientCapacity = "InsufficientCapacityError"
	// Unconsolidatable is the reason of Karpenter's Event for a node that Karpenter cannot consolidate. The message contains the cause.
	Unconsolidatable = "Unconsolidatable"

	bufferMessage = "has buffer pods" // the node has pods of a CapacityBuffer, which exist only in Karpenter's memory
)

// UnconsolidatableInterval is how long gpuscaler uses an Unconsolidatable Event. Karpenter repeats the Event after 15 minutes while the
// cause exists, so the interval is longer than 15 minutes.
const UnconsolidatableInterval = 20 * time.Minute

// interruptionReasons are the reasons of Events with which Karpenter's AWS provider reports that AWS will interrupt or stop a node.
var interruptionReasons = []string{
	"SpotInterrupted", "InstanceStopping", "InstanceTerminating", "TerminatingOnInterruption", "CapacityReservationInstanceInterrupted",
}

// interruptionTaints are the taints of nodes that the cloud provider will interrupt.
var interruptionTaints = []string{"cloud.google.com/impending-node-termination", "aws-node-termination-handler/spot-itn"}

// HasInterruptionTaint reports whether one of the taints means that the cloud provider will interrupt the node.
func HasInterruptionTaint(taints []corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return slices.Contains(interruptionTaints, t.Key) })
}

// ClaimEvent contains the data of an Event about a NodeClaim that the informer stores.
type ClaimEvent struct {
	metav1.ObjectMeta
	ClaimUID, Claim string // UID and name of the NodeClaim
	Reason          string
	Buffered        bool // whether Karpenter keeps the node for pods of a CapacityBuffer
	At              time.Time
}

// TrimClaimEvent is the transform of the informer for Events about NodeClaims. It converts three kinds of Events to a ClaimEvent: Events
// about a launch failure, about an interruption, and about a node that Karpenter keeps for a CapacityBuffer. Of every other Event it keeps
// only the metadata.
func TrimClaimEvent(obj any) (any, error) {
	e, ok := obj.(*corev1.Event)
	if !ok {
		return obj, nil
	}
	if c := decodeClaimEvent(e); c.Buffered || e.Reason == InsufficientCapacity || slices.Contains(interruptionReasons, e.Reason) {
		return c, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: storeKey(e)}, nil
}

// decodeClaimEvent converts an Event to a ClaimEvent. For a failure or an interruption, At is the time of the first occurrence, because a
// repeated Event is about the same failure or interruption. For a node that Karpenter keeps for a CapacityBuffer, At is the time of the
// last occurrence, because Karpenter repeats the Event while it keeps the node.
func decodeClaimEvent(e *corev1.Event) *ClaimEvent {
	at := e.EventTime.Time
	for _, t := range []time.Time{e.FirstTimestamp.Time, e.CreationTimestamp.Time} {
		if at.IsZero() {
			at = t
		}
	}
	buffered := e.Reason == Unconsolidatable && strings.Contains(e.Message, bufferMessage)
	if buffered && e.LastTimestamp.After(at) {
		at = e.LastTimestamp.Time
	}
	return &ClaimEvent{
		ObjectMeta: storeKey(e), ClaimUID: string(e.InvolvedObject.UID), Claim: e.InvolvedObject.Name,
		Reason: e.Reason, Buffered: buffered, At: at,
	}
}

// storeKey returns the metadata that the store of an informer needs.
func storeKey(e *corev1.Event) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: e.Name, Namespace: e.Namespace, UID: e.UID, ResourceVersion: e.ResourceVersion}
}
