package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kinds of objects in the API server model.
const (
	kindDeployment   = "Deployment"
	kindPod          = "Pod"
	kindHPA          = "HorizontalPodAutoscaler"
	kindScaledObject = "ScaledObject"
	kindNodePool     = "NodePool"
	kindNodeClaim    = "NodeClaim"
	kindNode         = "Node"
)

// object is an object of the model. A written object is never changed: each write stores a copy.
type object interface {
	metav1.Object
	runtime.Object
}

// version is one change of one object. The watches of the replicas deliver versions in their order, each replica with its own delay.
type version struct {
	at      time.Time
	kind    string
	name    string // NAMESPACE/NAME, or NAME
	deleted bool
	object  object
}

// apiServer is a model of the API server: objects with resourceVersions, UIDs and generations, server-side apply and managedFields by the
// API server's own library, and the history that watches read.
type apiServer struct {
	sim     *simulation
	log     []version
	latest  map[string]int // index into log by kind and name; deleted objects have none
	serial  int64
	managed *fieldManagers

	podsChanged bool // since the pods were listed
}

func newAPIServer(s *simulation) *apiServer {
	return &apiServer{sim: s, latest: map[string]int{}, managed: newFieldManagers()}
}

// get returns an object, nil if it does not exist. The caller must not change it.
func (a *apiServer) get(kind, name string) object {
	if i, ok := a.latest[kind+" "+name]; ok {
		return a.log[i].object
	}
	return nil
}

// put creates or replaces an object. The API server takes over o.
func (a *apiServer) put(kind string, o object) {
	a.serial++
	o.SetResourceVersion(strconv.FormatInt(a.serial, 10))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", a.serial)))
		o.SetCreationTimestamp(metav1.NewTime(a.sim.now))
		o.SetGeneration(1)
	}
	a.podsChanged = a.podsChanged || kind == kindPod
	name := nameOf(o)
	a.latest[kind+" "+name] = len(a.log)
	a.log = append(a.log, version{at: a.sim.now, kind: kind, name: name, object: o})
}

// remove deletes an object at once.
func (a *apiServer) remove(kind, name string) {
	o := a.get(kind, name)
	if o == nil {
		return
	}
	a.serial++
	a.podsChanged = a.podsChanged || kind == kindPod
	delete(a.latest, kind+" "+name)
	a.log = append(a.log, version{at: a.sim.now, kind: kind, name: name, deleted: true, object: o})
}

func nameOf(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// verdict is what the API server does with one request.
type verdict uint8

const (
	accept verdict = iota
	conflict
	tooMany
	internalError
	lostRequest  // the request times out and had no effect
	lostResponse // the request times out although it was applied
	killBefore   // the process that sent the request is killed before the API server receives it
	killAfter    // the process is killed after the request was applied and before it receives the response
	delayed      // the request times out and is applied later
)

var verdictNames = [...]string{"accepted", "409", "429", "500", "lost request", "lost response", "killed before", "killed after", "delayed"}

var (
	errTimeout = errors.New("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")
	resources  = map[string]schema.GroupResource{
		kindNodePool: {Group: "karpenter.sh", Resource: "nodepools"}, kindPod: {Resource: "pods"},
	}
)

// failure returns the error of a request that was not applied, nil if it is applied.
func failure(v verdict, kind, name string) error {
	switch v {
	case conflict:
		return apierrors.NewConflict(resources[kind], name, errors.New("the object has been modified"))
	case tooMany:
		return apierrors.NewTooManyRequests("too many requests", 1)
	case internalError:
		return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	case lostRequest, killBefore, delayed:
		return errTimeout
	}
	return nil
}

// update replaces an object for a client that is not gpuscaler, as its field manager.
func (a *apiServer) update(kind, name, manager string, change func(u *unstructured.Unstructured)) {
	o := a.get(kind, name)
	if o == nil {
		return
	}
	live := o.(*unstructured.Unstructured)
	next := live.DeepCopy()
	change(next)
	a.store(kind, live, a.managed.update(live, next, manager))
}

// store writes a changed object. It increments the generation if the spec changed, and writes nothing if nothing changed.
func (a *apiServer) store(kind string, live, next *unstructured.Unstructured) *unstructured.Unstructured {
	if live != nil && sameWithoutTimes(live, next) {
		return live
	}
	if live != nil && !sameField(live, next, "spec") {
		next.SetGeneration(live.GetGeneration() + 1)
	}
	a.put(kind, next)
	return next
}
