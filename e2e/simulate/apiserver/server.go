// Package apiserver is a model of the Kubernetes API server: objects with resourceVersions, UIDs and generations, server-side apply and
// managedFields (computed with the API server's own library), and the history of changes that watches deliver.
package apiserver

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Kinds of objects that the models store.
const (
	KindDeployment   = "Deployment"
	KindPod          = "Pod"
	KindHPA          = "HorizontalPodAutoscaler"
	KindScaledObject = "ScaledObject"
	KindNodePool     = "NodePool"
	KindNodeClaim    = "NodeClaim"
	KindNode         = "Node"
)

// Object is an object in the API server. A stored object is never changed: each write stores a new object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Version is one change of one object. The watches deliver the versions in the order in which they were written.
type Version struct {
	At      time.Time
	Kind    string
	Name    string // NAMESPACE/NAME; without a namespace, NAME
	Deleted bool
	Object  Object // if Deleted is true, the object before its deletion
}

// Server is the API server. It is not safe for concurrent use.
type Server struct {
	Log     []Version // every change, oldest first
	Managed *FieldManagers

	now    func() time.Time
	latest map[string]int // index into Log by kind and name; a deleted object has no entry
	serial int64          // the resourceVersion of the last write

	pods        []*corev1.Pod
	podsChanged bool // a pod was written or deleted since the slice pods was computed
}

// New returns an API server without objects. The parameter now is its clock.
func New(now func() time.Time) *Server {
	return &Server{now: now, latest: map[string]int{}, Managed: newFieldManagers()}
}

// Get returns an object, or nil if the object does not exist. The caller must not change the object.
func (a *Server) Get(kind, name string) Object {
	if i, ok := a.latest[kind+" "+name]; ok {
		return a.Log[i].Object
	}
	return nil
}

// Put creates or replaces an object. It stores o itself and not a copy, so the caller must not change o later.
func (a *Server) Put(kind string, o Object) {
	a.serial++
	o.SetResourceVersion(strconv.FormatInt(a.serial, 10))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", a.serial)))
		o.SetCreationTimestamp(metav1.NewTime(a.now()))
		o.SetGeneration(1)
	}
	a.podsChanged = a.podsChanged || kind == KindPod
	name := nameOf(o)
	a.latest[kind+" "+name] = len(a.Log)
	a.Log = append(a.Log, Version{At: a.now(), Kind: kind, Name: name, Object: o})
}

// Remove deletes an object at once, without a grace period or finalizers. It does nothing if the object does not exist.
func (a *Server) Remove(kind, name string) {
	o := a.Get(kind, name)
	if o == nil {
		return
	}
	a.serial++
	a.podsChanged = a.podsChanged || kind == KindPod
	delete(a.latest, kind+" "+name)
	a.Log = append(a.Log, Version{At: a.now(), Kind: kind, Name: name, Deleted: true, Object: o})
}

func nameOf(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// Update applies the function change to a copy of an object, and stores the copy as a write of the given field manager. Only clients
// other than gpuscaler use it.
func (a *Server) Update(kind, name, manager string, change func(u *unstructured.Unstructured)) {
	o := a.Get(kind, name)
	if o == nil {
		return
	}
	live := o.(*unstructured.Unstructured)
	next := live.DeepCopy()
	change(next)
	a.Store(kind, live, a.Managed.Update(live, next, manager))
}

// Store replaces the object live with next and returns the stored object. It increments the generation if the spec changed, and writes
// nothing if next equals live.
func (a *Server) Store(kind string, live, next *unstructured.Unstructured) *unstructured.Unstructured {
	if live != nil && SameWithoutTimes(live, next) {
		return live
	}
	if live != nil && !sameField(live, next, "spec") {
		next.SetGeneration(live.GetGeneration() + 1)
	}
	a.Put(kind, next)
	return next
}

// Latest reports whether Log[i] is the current version of its object. It returns false if the object was deleted.
func (a *Server) Latest(i int) bool {
	v := &a.Log[i]
	latest, exists := a.latest[v.Kind+" "+v.Name]
	return exists && latest == i
}

// Compact removes the changes before the index end from Log, except the current version of each object. It returns the index that the
// change at the index end has afterwards.
func (a *Server) Compact(end int) int {
	kept := make([]Version, 0, len(a.latest)+len(a.Log)-end)
	from := end
	for i := range a.Log {
		if i == end {
			from = len(kept)
		}
		if a.Latest(i) {
			a.latest[a.Log[i].Kind+" "+a.Log[i].Name] = len(kept)
		} else if i < end {
			continue
		}
		kept = append(kept, a.Log[i])
	}
	if end == len(a.Log) {
		from = len(kept)
	}
	a.Log = kept
	return from
}

// Each calls visit for each object, in no particular order.
func (a *Server) Each(visit func(kind string, o any)) {
	for _, i := range a.latest {
		visit(a.Log[i].Kind, a.Log[i].Object)
	}
}

// Pods returns all pods, oldest first. The slice is valid until the next change of a pod, and the caller must not change it.
func (a *Server) Pods() []*corev1.Pod {
	if a.podsChanged {
		a.pods, a.podsChanged = list[*corev1.Pod](a, KindPod), false
	}
	return a.pods
}

// list returns the objects of a kind, oldest first. Objects of the same age are sorted by name.
func list[T Object](a *Server, kind string) (all []T) {
	prefix := kind + " "
	for key, i := range a.latest {
		if len(key) > len(prefix) && key[:len(prefix)] == prefix {
			all = append(all, a.Log[i].Object.(T))
		}
	}
	slices.SortFunc(all, func(x, y T) int {
		return cmp.Or(x.GetCreationTimestamp().Time.Compare(y.GetCreationTimestamp().Time), cmp.Compare(x.GetName(), y.GetName()))
	})
	return all
}

// Ready reports whether a pod is ready. The pods of the models have only the condition Ready.
func Ready(p *corev1.Pod) bool {
	return len(p.Status.Conditions) > 0 && p.Status.Conditions[0].Status == corev1.ConditionTrue
}
