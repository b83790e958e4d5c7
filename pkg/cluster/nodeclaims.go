package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// claimFacts is what is kept of a NodeClaim.
type claimFacts struct {
	name, uid, pool, node string
	capacityType          string
	instanceType          string
	zone, region          string
	created, deleted      time.Time // deleted: zero while nobody asked for it
	expireAfter           time.Duration
	launched, initialized bool
	voluntary             bool               // Karpenter says why it takes the node
	capacity              map[string]int64   // extended resources
	limited               map[string]float64 // every resource of status.capacity, as NodePool limits count it
}

// keptClaim is what the informer's store keeps of a NodeClaim: a whole one is 24 KB.
type keptClaim struct {
	metav1.ObjectMeta
	facts *claimFacts
}

func trimClaim(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	return &keptClaim{metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}, claimOf(u)}, nil
}

func claimOf(u *unstructured.Unstructured) *claimFacts {
	labels := u.GetLabels()
	f := &claimFacts{
		name: u.GetName(), uid: string(u.GetUID()), pool: labels[nodePoolLabel], capacityType: labels[capacityTypeLabel],
		instanceType: labels[corev1.LabelInstanceTypeStable], zone: labels[corev1.LabelTopologyZone], region: labels[corev1.LabelTopologyRegion], created: u.GetCreationTimestamp().Time,
		initialized: conditionTrue(u, "Initialized"), voluntary: conditionTrue(u, "DisruptionReason"), capacity: map[string]int64{}, limited: map[string]float64{},
	}
	f.node, _, _ = unstructured.NestedString(u.Object, "status", "nodeName")
	provider, _, _ := unstructured.NestedString(u.Object, "status", "providerID")
	f.launched = provider != "" || conditionTrue(u, "Launched")
	if t := u.GetDeletionTimestamp(); t != nil {
		f.deleted = t.Time
	}
	if text, _, _ := unstructured.NestedString(u.Object, "spec", "expireAfter"); text != "" {
		f.expireAfter, _ = time.ParseDuration(text) // "Never" is no duration
	}
	for _, path := range [][]string{{"spec", "resources", "requests"}, {"status", "capacity"}} { // what stands in status wins
		all, _, _ := unstructured.NestedMap(u.Object, path...)
		for name, q := range all {
			if gpupods.IsExtended(corev1.ResourceName(name)) {
				f.capacity[name] = quantity(q)
			}
			if path[0] == "status" {
				f.limited[name] = fraction(q)
			}
		}
	}
	return f
}

// expired tells a claim that Karpenter ends for its age: it sets no DisruptionReason then, and it is no loss.
func (f *claimFacts) expired(at time.Time) bool {
	return f.expireAfter > 0 && at.Sub(f.created) >= f.expireAfter-time.Minute
}

func (f *claimFacts) stage() capacity.Stage {
	switch {
	case f.initialized:
		return capacity.Usable
	case f.launched:
		return capacity.Launched
	}
	return capacity.Requested
}

// remembered is how long what became of a NodeClaim is kept, as package capacity is owed, and a little more.
const remembered = time.Hour + 5*time.Minute

// fate is what became of a NodeClaim that ended.
type fate struct {
	pool string
	at   time.Time
	lost bool // it was usable, and the provider took its node
	// refused for lack of capacity, by its event; of a launch that failed.
	refused bool
}

// ledger remembers what became of NodeClaims, each once: Events repeat themselves and are merged, identities do not.
type ledger map[string]fate // by UID

func (l ledger) lose(uid, pool string, at time.Time) {
	if _, known := l[uid]; !known {
		l[uid] = fate{pool: pool, at: at, lost: true}
	}
}

func (l ledger) fail(uid, pool string, at time.Time, refused bool) {
	f, known := l[uid]
	if known && (f.lost || f.refused || !refused) {
		return
	}
	if !known {
		f = fate{pool: pool, at: at}
	}
	f.refused = refused
	l[uid] = f
}

func (l ledger) forget(now time.Time) {
	for uid, f := range l {
		if now.Sub(f.at) > remembered {
			delete(l, uid)
		}
	}
}

// of lists a pool's failures and losses, oldest first.
func (l ledger) of(pool string) (failures []capacity.Failure, losses []capacity.Loss) {
	for uid, f := range l {
		switch {
		case f.pool != pool:
		case f.lost:
			losses = append(losses, capacity.Loss{UID: uid, At: f.at})
		default:
			failures = append(failures, capacity.Failure{UID: uid, At: f.at, Capacity: f.refused})
		}
	}
	slices.SortFunc(failures, func(a, b capacity.Failure) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.UID, b.UID)) })
	slices.SortFunc(losses, func(a, b capacity.Loss) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.UID, b.UID)) })
	return failures, losses
}

// Reasons of Events on NodeClaims.
const insufficientCapacity = "InsufficientCapacityError" // Karpenter's own

// notices say that the provider takes a node: AWS's, as Karpenter publishes them on the NodeClaim.
var notices = []string{"SpotInterrupted", "InstanceStopping", "InstanceTerminating", "TerminatingOnInterruption", "CapacityReservationInstanceInterrupted"}

// noticeTaints say the same on the node.
var noticeTaints = []string{"cloud.google.com/impending-node-termination", "aws-node-termination-handler/spot-itn"}

const (
	// unconsolidatable is said of a node that Karpenter leaves alone, with the reason in words.
	unconsolidatable = "Unconsolidatable"
	// bufferPods are the words where a CapacityBuffer is the reason. Its pods exist in Karpenter's memory alone.
	bufferPods = "has buffer pods"
	// saidAgain is how long such a reason counts: Karpenter repeats it after 15 minutes at the earliest.
	saidAgain = 20 * time.Minute
)

// claimEvent is what is kept of an Event about a NodeClaim.
type claimEvent struct {
	metav1.ObjectMeta
	uid, claim string // of the NodeClaim
	reason     string
	buffered   bool // the node has pods of a CapacityBuffer
	at         time.Time
}

func claimEventOf(e *corev1.Event) *claimEvent {
	at := e.EventTime.Time
	for _, t := range []time.Time{e.FirstTimestamp.Time, e.CreationTimestamp.Time} {
		if at.IsZero() {
			at = t
		}
	}
	buffered := e.Reason == unconsolidatable && strings.Contains(e.Message, bufferPods)
	if buffered && e.LastTimestamp.After(at) {
		at = e.LastTimestamp.Time // it lasts; all others happened once, however often they are told
	}
	return &claimEvent{
		ObjectMeta: identity(&e.ObjectMeta), uid: string(e.InvolvedObject.UID), claim: e.InvolvedObject.Name,
		reason: e.Reason, buffered: buffered, at: at,
	}
}

// poolOfClaim is the pool in a claim's name, "<pool>-<random>": of a claim that went before we looked.
func poolOfClaim(name string) string {
	i := strings.LastIndexByte(name, '-')
	return name[:max(i, 0)]
}
