package cache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// FailedCreate is the last failed attempt of the StatefulSet controller to create a pod. It is read from an Event, because the status of a
// StatefulSet does not report failed attempts.
type FailedCreate struct {
	Message string
	At      time.Time
}

// StatefulSet identifies one of the StatefulSets that create the pods of a scale target.
type StatefulSet struct {
	Name string
	UID  types.UID
}

// IncompleteStatefulSets returns the StatefulSets of a workload that lack pods. If the scale target is a StatefulSet, the result contains
// at most this StatefulSet. For a LeaderWorkerSet, its controller creates one StatefulSet with the same name for all leaders, and one
// StatefulSet for the workers of each replica. Of the StatefulSets for workers, only the first StatefulSet that lacks a pod is returned.
// For a scale target of another kind, the result is empty.
func (c *Cache) IncompleteStatefulSets(w *scaling.Workload) (sets []StatefulSet) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	ref := RefOfWorkload(w)
	e := c.entries[ref]
	if e == nil || e.target == nil || !e.target.createdByStatefulSets() || e.missingReplicas() <= 0 {
		return nil
	}
	names := []string{ref.Name}
	if e.target.Size > 1 {
		if index := e.firstIncomplete(); index != "" {
			names = append(names, ref.Name+"-"+index)
		}
	}
	for _, name := range names {
		if set := c.entries[Ref{ref.Namespace, "apps", "StatefulSet", name}]; set != nil && set.target != nil {
			sets = append(sets, StatefulSet{Name: name, UID: set.target.UID})
		}
	}
	return sets
}

// PutFailedCreate stores the last failed attempt to create a pod of a workload's scale target. The zero value means that no attempt failed.
// The failure is ignored after the controller has created a later pod of the scale target, or when no pod is missing.
func (c *Cache) PutFailedCreate(w *scaling.Workload, failed FailedCreate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[RefOfWorkload(w)]
	if e == nil || e.target == nil {
		return
	}
	stored := failedCreate{target: e.target.UID, at: failed.At, rejection: parseFailedCreate(failed.Message)}
	if e.failedCreate == stored {
		return
	}
	e.failedCreate = stored
	c.version++
	e.refresh()
}

// failedCreate is a stored FailedCreate: the UID of the scale target, the time, and the rejection that the message contains.
type failedCreate struct {
	target    types.UID
	at        time.Time
	rejection engine.Rejection
}

// rejection returns why the API server rejects new pods of the scale target. It reads the reason from the target's status or from the last
// FailedCreate.
func (e *entry) rejection() engine.Rejection {
	f := &e.failedCreate
	if e.target.Rejection.Kind != "" || f.rejection.Kind == "" {
		return e.target.Rejection
	}
	if f.target != e.target.UID || e.missingReplicas() <= 0 {
		*f = failedCreate{}
		return engine.Rejection{}
	}
	for _, p := range e.pods {
		if p.CreationTimestamp.After(f.at) {
			return engine.Rejection{} // outdated, because the controller has created a pod after the failed attempt
		}
	}
	return f.rejection
}

// createdByStatefulSets reports whether the StatefulSet controller creates the pods of the scale target.
func (t *Target) createdByStatefulSets() bool {
	return t.Ref.Group == "apps" && t.Ref.Kind == "StatefulSet" ||
		t.Ref.Group == LeaderWorkerSetKind.Group && t.Ref.Kind == LeaderWorkerSetKind.Kind
}

// missingReplicas returns spec.replicas minus the number of complete replicas (replicas that have all their pods). As in the view,
// terminating pods do not count.
func (e *entry) missingReplicas() int32 {
	complete := int32(0)
	for _, pods := range e.podsByReplica() {
		if e.target.Size <= 1 {
			complete += int32(len(pods))
		} else if len(pods) >= int(e.target.Size) {
			complete++
		}
	}
	return e.target.Replicas - complete
}

// firstIncomplete returns the index of a LeaderWorkerSet's replica that has at least one pod and lacks at least one pod. If several
// replicas are incomplete, it returns the first index in alphabetical order. It returns "" if no replica is incomplete.
func (e *entry) firstIncomplete() (first string) {
	for index, pods := range e.podsByReplica() {
		if index != "" && len(pods) < int(e.target.Size) && (first == "" || index < first) {
			first = index
		}
	}
	return first
}
