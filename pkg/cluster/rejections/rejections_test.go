package rejections

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var now = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// workloads contains the StatefulSets that lack pods, by the name of their workload, and the failures that the Reader has stored.
type workloads struct {
	list       []scaling.Workload
	incomplete map[string][]cache.StatefulSet
	stored     map[string]cache.FailedCreate
}

func (w *workloads) Current() []scaling.Workload { return w.list }

func (w *workloads) IncompleteStatefulSets(of *scaling.Workload) []cache.StatefulSet {
	return w.incomplete[of.Key.Name]
}

func (w *workloads) PutFailedCreate(of *scaling.Workload, failed cache.FailedCreate) {
	w.stored[of.Key.Name] = failed
}

func incomplete(names ...string) *workloads {
	w := &workloads{incomplete: map[string][]cache.StatefulSet{}, stored: map[string]cache.FailedCreate{}}
	for _, name := range names {
		w.list = append(w.list, scaling.Workload{Key: scaling.Key{Namespace: "team", Name: name}})
		w.incomplete[name] = []cache.StatefulSet{{Name: name, UID: "uid"}}
	}
	return w
}

func event(name string, of corev1.ObjectReference, at time.Time) *corev1.Event {
	of.Kind, of.Namespace = "StatefulSet", "team"
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, InvolvedObject: of, Reason: "FailedCreate",
		Message: name, LastTimestamp: metav1.NewTime(at),
	}
}

// The Reader must use only the last Event about the StatefulSet. It must ignore Events about a deleted StatefulSet of the same name, and
// Events from the future.
func TestLastFailureOfTheStatefulSetIsStored(t *testing.T) {
	db, previous := corev1.ObjectReference{Name: "db", UID: "uid"}, corev1.ObjectReference{Name: "db", UID: "previous"}
	repeated := event("repeated", db, now.Add(-time.Hour))
	repeated.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(now.Add(-time.Minute))}
	client := fake.NewClientset(event("first", db, now.Add(-2*time.Minute)), repeated, event("previous", previous, now),
		event("future", db, now.Add(time.Hour)))
	w := incomplete("db")
	New(client.CoreV1(), w, w, slog.Default()).round(t.Context(), now)
	if got, want := w.stored["db"], (cache.FailedCreate{Message: "repeated", At: now.Add(-time.Minute)}); got != want {
		t.Errorf("stored %+v, want %+v", got, want)
	}
	list := client.Actions()[0].(k8stesting.ListAction)
	const selector = "involvedObject.kind=StatefulSet,involvedObject.name=db,reason=FailedCreate"
	if got := list.GetListRestrictions().Fields.String(); got != selector || list.GetNamespace() != "team" {
		t.Errorf("listed %q in %q, want %q", got, list.GetNamespace(), selector)
	}
}

// A round sends a limited number of requests. The next rounds must read the Events of the remaining StatefulSets.
func TestRoundsShareTheRequests(t *testing.T) {
	var names []string
	for i := range 3*maxLists - 5 {
		names = append(names, fmt.Sprintf("db-%d", i))
	}
	w, client := incomplete(names...), fake.NewClientset()
	r := New(client.CoreV1(), w, w, slog.Default())
	for round := range 3 {
		client.ClearActions()
		r.round(t.Context(), now)
		if n := len(client.Actions()); n > maxLists {
			t.Errorf("round %d sent %d requests, want at most %d", round, n, maxLists)
		}
	}
	if len(w.stored) != len(names) {
		t.Errorf("%d of %d StatefulSets were read in three rounds", len(w.stored), len(names))
	}
}

// While Events cannot be read, the Reader must keep earlier results. It must log the failure once with the reason, and again only if a
// request fails after a successful request.
func TestFailureToReadEventsIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	w, client, fails := incomplete("db", "other"), fake.NewClientset(), true
	client.PrependReactor("list", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
		return fails, nil, apierrors.NewForbidden(corev1.Resource("events"), "", nil)
	})
	r := New(client.CoreV1(), w, w, slog.New(slog.NewTextHandler(&log, nil)))
	for _, fails = range []bool{true, true, false, false, true} {
		r.round(t.Context(), now)
		if fails && len(w.stored) == 1 {
			t.Error("a failed request stored a result")
		}
	}
	n := strings.Count(log.String(), "cannot read the Events of a StatefulSet")
	if n != 2 || !strings.Contains(log.String(), "upgrade the chart") {
		t.Errorf("logged %d times, want 2:\n%s", n, &log)
	}
	if !slices.ContainsFunc(client.Actions(), func(a k8stesting.Action) bool { return a.Matches("list", "events") }) || len(w.stored) != 2 {
		t.Errorf("stored %v, want both workloads after the requests worked", w.stored)
	}
}
