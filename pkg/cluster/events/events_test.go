package events

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
)

func newTestRecorder(instance string) (*Recorder, *fake.Clientset) {
	client := fake.NewClientset()
	return NewRecorder(client.EventsV1(), Options{Instance: instance, Log: slog.New(slog.DiscardHandler)}), client
}

// The API server refuses an Event whose name, note or reporting instance is too long or is not valid text. Send must shorten or correct
// these fields.
func TestEventAboutAnyObjectIsValid(t *testing.T) {
	r, _ := newTestRecorder(strings.Repeat("pod-", 60) + "end")
	for _, name := range []string{"chat", strings.Repeat("a", 253), strings.Repeat("a", 235) + "." + strings.Repeat("b", 17),
		strings.Repeat("a-", 126) + "a"} {
		r.Send(corev1.ObjectReference{Namespace: "team", Name: name}, corev1.EventTypeNormal, Activated, "\x1b[2J"+strings.Repeat("€", 400))
		e := r.queue.pop()
		if faults := validation.IsDNS1123Subdomain(e.Name); len(faults) > 0 || !strings.HasPrefix(e.Name, name[:min(len(name), 200)]) {
			t.Errorf("the name %q: %v", e.Name, faults)
		}
		if len(e.Note) > 1024 || !utf8.ValidString(e.Note) || strings.Contains(e.Note, "\x1b") || len(e.Note) < 1000 {
			t.Errorf("the note %q", e.Note)
		}
		if len(e.ReportingInstance) > 128 || !strings.HasSuffix(e.ReportingInstance, "-end") {
			t.Errorf("the instance %q", e.ReportingInstance)
		}
	}
	if a, b := eventName("chat", time.Unix(1, 1)), eventName("chat", time.Unix(1, 2)); a == b {
		t.Errorf("two Events named %s", a)
	}
}

func TestEventNamesItsObjectAndItsReporter(t *testing.T) {
	r, client := newTestRecorder("")
	about := corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "team", Name: "chat", UID: "uid"}
	r.Send(about, "Normal", TargetChanged, strings.Repeat("x", 5000))
	r.post(t.Context(), r.queue.pop())
	list, err := client.EventsV1().Events("team").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	e := list.Items[0]
	if e.Regarding != about || e.ReportingController != ReportingController || e.ReportingInstance == "" || e.Action == "" ||
		len(e.Note) != maxNote {
		t.Errorf("event %+v", e)
	}
	if e.Series != (*eventsv1.EventSeries)(nil) {
		t.Error("the Event is a series, which would keep the first note")
	}
}

func TestTenThousandEventsAtOnceDoNotBlockTheCaller(t *testing.T) {
	r, _ := newTestRecorder("")
	for range 10_000 {
		r.Send(corev1.ObjectReference{Namespace: "team", Name: "chat"}, "Normal", TargetChanged, "1 -> 2")
	}
	if got := r.queue.length; got != queueLength {
		t.Errorf("%d Events queued, want %d", got, queueLength)
	}
	if got := testutil.ToFloat64(r.lost); got != 10_000-queueLength {
		t.Errorf("%v Events counted as lost, want %d", got, 10_000-queueLength)
	}
}

// A namespace that causes thousands of Events, for example by invalid policies, must neither displace nor delay the Events of another
// namespace.
func TestManyEventsOfANamespaceDoNotAffectThoseOfAnother(t *testing.T) {
	r, _ := newTestRecorder("")
	send := func(namespace string, n int) {
		for i := range n {
			r.Send(corev1.ObjectReference{Namespace: namespace, Name: "chat"}, "Normal", TargetChanged, fmt.Sprint(i))
		}
	}
	send("evil", 5000)
	send("team", 10)
	send("evil", 5000)
	send("late", 1)
	var notes []string
	late := false
	for range 24 {
		switch e := r.queue.pop(); e.Namespace {
		case "team":
			notes = append(notes, e.Note)
		case "late":
			late = true
		}
	}
	if got := strings.Join(notes, " "); got != "0 1 2 3 4 5 6 7 8 9" || !late {
		t.Errorf("of the first 24 Events, %s are from team, and one from late: %t", got, late)
	}
	if got, want := testutil.ToFloat64(r.lost), float64(10_011-queueLength); got != want {
		t.Errorf("%v Events counted as lost, want %v", got, want)
	}
	rest := 0
	for r.queue.pop() != nil {
		rest++
	}
	if rest != queueLength-24 || len(r.queue.byNamespace) != 0 || len(r.queue.turns) != 0 {
		t.Errorf("%d further Events; the empty queue still has namespaces %v", rest, r.queue.turns)
	}
}

func TestRecordersOfOneRegistryCountLostEventsTogether(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := Options{Log: slog.New(slog.DiscardHandler), Metrics: registry}
	for range 2 {
		r := NewRecorder(fake.NewClientset().EventsV1(), o)
		for range queueLength + 3 {
			r.Send(corev1.ObjectReference{Namespace: "team", Name: "chat"}, "Normal", TargetChanged, "1 -> 2")
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != 6 {
		t.Errorf("%v, %v, want 6 lost Events", families, err)
	}
}
