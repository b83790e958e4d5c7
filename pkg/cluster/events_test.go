package cluster

import (
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
)

// The API server refuses an Event whose name, note or reporting instance is too long or is no text.
func TestAnEventAboutAnyObjectIsOneThatTheAPIServerTakes(t *testing.T) {
	r := newRecorder(fake.NewClientset().EventsV1(), strings.Repeat("pod-", 60)+"end", slog.New(slog.DiscardHandler), newMetrics(nil))
	for _, name := range []string{"chat", strings.Repeat("a", 253), strings.Repeat("a", 235) + "." + strings.Repeat("b", 17), strings.Repeat("a-", 126) + "a"} {
		r.send(corev1.ObjectReference{Namespace: "team", Name: name}, corev1.EventTypeNormal, ReasonActivated, "\x1b[2J"+strings.Repeat("€", 400))
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
