package cluster

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// refuse is a reaction of a fake API server: every request fails with "connection refused".
func refuse(clienttesting.Action) (bool, runtime.Object, error) {
	return true, nil, errors.New("connection refused")
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// sentEvent is an Event that the tested code sent.
type sentEvent struct {
	about              corev1.ObjectReference
	kind, reason, note string
}

// sentEvents records Events instead of posting them.
type sentEvents struct{ all []sentEvent }

func (s *sentEvents) Send(about corev1.ObjectReference, kind, reason, note string) {
	s.all = append(s.all, sentEvent{about, kind, reason, note})
}

// takeEvents returns the Events that were sent since the last call.
func takeEvents(c *Cluster) []sentEvent {
	s := c.events.(*sentEvents)
	all := s.all
	s.all = nil
	return all
}

// notes returns the Events that were sent since the last call, in the form "reason: note".
func notes(c *Cluster) (all []string) {
	for _, e := range takeEvents(c) {
		all = append(all, e.reason+": "+e.note)
	}
	return all
}

// still returns a Cluster whose Run is never called, so nothing changes its caches except the test. objects are the objects in the fake API
// server.
func still(o Options, objects ...runtime.Object) *Cluster {
	o.Log = slog.New(slog.DiscardHandler)
	scales := runtime.NewScheme()
	utilruntime.Must(appsv1.AddToScheme(scales))
	c := newCluster(fake.NewClientset(), dynamicfake.NewSimpleDynamicClient(scales, objects...), o)
	c.events = &sentEvents{}
	c.synced.Store(true)
	return c
}
