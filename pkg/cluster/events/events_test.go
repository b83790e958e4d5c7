package events

import (
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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

// The API server refuses an Event whose name, note or reporting instance is too long or is not valid text.
func TestEventAboutAnyObjectIsValid(t *testing.T) {
	r, _ := newTestRecorder(strings.Repeat("pod-", 60) + "end")
	for _, name := range []string{"chat", strings.Repeat("a", 253), strings.Repeat("a", 235) + "." + strings.Repeat("b", 17),
		strings.Repeat("a-", 126) + "a"} {
		r.Send(corev1.ObjectReference{Namespace: "team", Name: name}, corev1.EventTypeNormal, Activated, "\x1b[2J"+strings.Repeat("€", 400))
		e := <-r.queue
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
	r.post(t.Context(), <-r.queue)
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
	if got := len(r.queue); got != queueLength {
		t.Errorf("%d Events queued, want %d", got, queueLength)
	}
	if got := testutil.ToFloat64(r.lost); got != 10_000-queueLength {
		t.Errorf("%v Events counted as lost, want %d", got, 10_000-queueLength)
	}
}
