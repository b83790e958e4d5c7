package main

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
)

// client is the dynamic client of one replica. It implements the requests that nodepoolwriter sends; any other request panics.
type client struct {
	dynamic.Interface
	replica *replica
}

// Resource implements dynamic.Interface.
func (c client) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	kind := apiserver.KindNodePool
	if r.Resource == "pods" {
		kind = apiserver.KindPod
	}
	return resourceClient{replica: c.replica, kind: kind}
}

type resourceClient struct {
	dynamic.NamespaceableResourceInterface
	replica   *replica
	kind      string
	namespace string
}

// Namespace implements dynamic.NamespaceableResourceInterface.
func (c resourceClient) Namespace(namespace string) dynamic.ResourceInterface {
	c.namespace = namespace
	return c
}

// Apply implements dynamic.ResourceInterface.
func (c resourceClient) Apply(_ context.Context, name string, desired *unstructured.Unstructured, o metav1.ApplyOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	return c.write(name, "apply", &apiserver.Request{Apply: desired, Manager: o.FieldManager, Force: o.Force})
}

// Patch implements dynamic.ResourceInterface.
//
//nolint:revive // the interface has six arguments
func (c resourceClient) Patch(_ context.Context, name string, _ types.PatchType, body []byte, o metav1.PatchOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	return c.write(name, "patch", &apiserver.Request{Patch: body, Manager: o.FieldManager})
}

// List implements dynamic.ResourceInterface. The writer lists one NodePool to find out why the API server rejected a patch.
func (c resourceClient) List(_ context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	name := strings.TrimPrefix(o.FieldSelector, "metadata.name=")
	list := &unstructured.UnstructuredList{}
	if live, err := c.read(name); err == nil {
		list.Items = append(list.Items, *live)
	}
	return list, nil
}

// write sends one request to the API server, unless a fault of the run prevents the request. It returns the stored object or the error that
// the client receives.
func (c resourceClient) write(name, verb string, request *apiserver.Request) (*unstructured.Unstructured, error) {
	r, sim := c.replica, c.replica.sim
	defer r.stallAfterRequest()
	if c.namespace != "" {
		name = c.namespace + "/" + name
	}
	sim.race(c.kind, name)
	v := sim.judge(r, c.kind)
	if v == delayed {
		sim.delay(c, name, request)
	}
	if err := failure(v, c.kind, name); err != nil {
		sim.trace("%s: %s %s %s: %s", r.name, verb, c.kind, name, verdictNames[v])
		if v == killBefore {
			r.kill()
		}
		return nil, err
	}
	stored, err := c.apply(name, request, false)
	switch {
	case err != nil:
		sim.trace("%s: %s %s %s: %v", r.name, verb, c.kind, name, err)
		return nil, err
	case v == lostResponse:
		return nil, errTimeout
	case v == killAfter:
		r.kill()
		return nil, errTimeout
	}
	return stored.DeepCopy(), nil
}

// apply performs a request that the API server has received, and returns the stored object. The parameter late is true for a request
// whose client has already received a timeout.
func (c resourceClient) apply(name string, request *apiserver.Request, late bool) (*unstructured.Unstructured, error) {
	live, err := c.read(name)
	if err != nil {
		return nil, request.Missing(kinds[c.kind], name)
	}
	next, err := request.Result(c.replica.sim.api.Managed, live)
	if err != nil {
		return nil, err
	}
	stored := c.store(live, next)
	c.replica.sim.wrote(&write{replica: c.replica, kind: c.kind, name: name, live: live, next: stored, late: late})
	return stored, nil
}

// write is a request of a replica that the API server applied.
type write struct {
	replica    *replica
	kind, name string
	live, next *unstructured.Unstructured
	late       bool // whether the API server applied the request after the client's timeout
}

// lateRequest is a request that the API server applies after the client's timeout.
type lateRequest struct {
	at    time.Time
	apply func()
}

// delay stores a request that the API server applies after the next delay in faults.delays. The client receives a timeout.
func (s *simulation) delay(c resourceClient, name string, request *apiserver.Request) {
	wait := s.faults.delays[0]
	s.faults.delays = s.faults.delays[1:]
	s.late = append(s.late, lateRequest{at: s.now.Add(wait), apply: func() {
		if _, err := c.apply(name, request, true); err != nil {
			s.trace("%s: late request for %s %s: %v", c.replica.name, c.kind, name, err)
		}
	}})
}

// applyLate applies the late requests that are due.
func (s *simulation) applyLate() {
	all := s.late
	s.late = nil
	for _, l := range all {
		if s.now.Before(l.at) {
			s.late = append(s.late, l)
			continue
		}
		l.apply()
	}
}

// read returns a stored object, converted to Unstructured. The library that computes managedFields accepts only this type.
func (c resourceClient) read(name string) (*unstructured.Unstructured, error) {
	switch o := c.replica.sim.api.Get(c.kind, name).(type) {
	case *unstructured.Unstructured:
		return o, nil
	case *corev1.Pod:
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(kinds[apiserver.KindPod])
		return u, nil
	}
	return nil, apierrors.NewNotFound(apiserver.Resource(kinds[c.kind]), name)
}

func (c resourceClient) store(live, next *unstructured.Unstructured) *unstructured.Unstructured {
	api := c.replica.sim.api
	if c.kind != apiserver.KindPod {
		return api.Store(c.kind, live, next)
	}
	if apiserver.SameWithoutTimes(live, next) {
		return live
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(next.Object, pod); err != nil {
		panic(err)
	}
	api.Put(apiserver.KindPod, pod)
	return next
}

// job contains the writes that a tick starts. As in the product, a job has its own goroutine. In the simulation this goroutine runs only
// while the simulation waits for it, so that a seed always produces the same order of events. A job can stall, which means that its
// process is paused between two requests.
type job struct {
	resume, yielded chan struct{}
	started, ended  bool
	requests        int
	stall           *stall // the pause in the middle of the job; nil: none
}

func newJob(send func()) *job {
	j := &job{resume: make(chan struct{}), yielded: make(chan struct{})}
	go func() {
		<-j.resume
		send()
		j.ended = true
		j.yielded <- struct{}{}
	}()
	return j
}

// delayedWrite is a job that continues later, because the API server is slow or the process is paused.
type delayedWrite struct {
	at   time.Time
	job  *job
	done chan struct{}
}

// proceed runs a job until it ends or stalls. If the job stalls, the process is paused, and the job continues after the pause.
func (r *replica) proceed(w delayedWrite) {
	before := r.job
	r.job, w.job.started = w.job, true
	w.job.resume <- struct{}{}
	<-w.job.yielded
	r.job = before
	if w.job.ended {
		close(w.done)
		return
	}
	w.at = r.paused
	r.pending = append(r.pending, w)
}

// pause stops the process for the duration d.
func (r *replica) pause(d time.Duration) {
	r.paused = r.sim.now.Add(d)
	r.sim.trace("%s: paused for %s", r.name, d)
}

// stallAfterRequest is called after each request of the running job. If the job must stall after this request, it pauses the process and
// stops the job.
func (r *replica) stallAfterRequest() {
	j := r.job
	if j == nil {
		return
	}
	j.requests++
	if j.stall == nil || j.requests != j.stall.request || !r.up {
		return
	}
	r.pause(j.stall.lasting)
	j.yielded <- struct{}{}
	<-j.resume
}

// sendDelayed runs the pending jobs that are due. A job that has already sent requests runs first, because the writer sends the patches
// of a NodePool one after the other.
func (r *replica) sendDelayed() {
	all := r.pending
	r.pending = nil
	for _, started := range []bool{true, false} {
		for _, w := range all {
			switch now := r.sim.now; {
			case w.job.started != started:
			case r.up && (now.Before(w.at) || now.Before(r.paused)):
				r.pending = append(r.pending, w)
			default:
				r.proceed(w)
			}
		}
	}
}

// abandon runs the pending jobs of a killed process to their end without sending their requests, so that their goroutines end.
func (r *replica) abandon() {
	all := r.pending
	r.pending = nil
	for _, w := range all {
		r.proceed(w)
	}
}
