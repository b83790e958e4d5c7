package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// handover simulates a cluster after a change of leader. The new leader responds with 410 Gone, because it has no history of the requested
// time. The API server has Events from that time.
type handover struct {
	events []eventsv1.Event
	denied bool
}

func (h *handover) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !strings.HasSuffix(r.URL.Path, "/events"):
		http.Error(w, "the history has no decision for team/chat: it begins at 09:30", http.StatusGone)
	case h.denied:
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"events is forbidden"}`,
			http.StatusForbidden)
	default:
		w.Header().Set("Content-Type", "application/json")
		kind := metav1.TypeMeta{Kind: "EventList", APIVersion: "events.k8s.io/v1"}
		json.NewEncoder(w).Encode(eventsv1.EventList{TypeMeta: kind, Items: h.events})
	}
}

// explain runs `gpuscaler explain` with --at against the simulated cluster.
func (h *handover) explain(t *testing.T, at string, args ...string) (string, error) {
	t.Helper()
	t.Setenv("TZ", "UTC")
	server := httptest.NewServer(h)
	defer server.Close()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, fmt.Appendf(nil, "apiVersion: v1\nkind: Config\ncurrent-context: a\n"+
		"contexts: [{name: a, context: {cluster: a}}]\nclusters: [{name: a, cluster: {server: %q}}]\n", server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c := rootCommand()
	c.SetOut(&out)
	c.SetArgs(append([]string{"explain", "team/chat", "--at", at, "--server", server.URL, "--kubeconfig", config}, args...))
	err := c.ExecuteContext(context.WithoutCancel(t.Context()))
	return out.String(), err
}

func targetEvent(at, note string) eventsv1.Event {
	posted, _ := time.Parse(time.RFC3339, at)
	return eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "chat." + note}, EventTime: metav1.NewMicroTime(posted), Type: "Normal",
		ReportingController: "gpuscaler.io/gpuscaler", Reason: "TargetChanged", Note: note,
	}
}

func TestTimeBeforeALeaderChangeIsExplainedFromEvents(t *testing.T) {
	forged := targetEvent("2026-11-20T09:04:00Z", "9 -> 1: forged (policy team/chat)")
	forged.ReportingController = "deployment-controller"
	h := &handover{events: []eventsv1.Event{
		targetEvent("2026-11-20T09:03:00Z", "4 -> 6: 60 queued requests need 6 replicas (policy team/chat)"),
		targetEvent("2026-11-20T09:01:00Z", "2 -> 4: 40 queued requests need 4 replicas (policy team/chat)"),
		targetEvent("2026-11-20T09:04:00Z", "7 -> 8: another workload (policy team/chatter)"),
		targetEvent("2026-11-20T09:20:00Z", "6 -> 9: 90 queued requests need 9 replicas (policy team/chat)"),
		forged,
	}}
	text, err := h.explain(t, "2026-11-20T09:05:00Z")
	const want = `
  09:03:00  4 -> 6: 60 queued requests need 6 replicas
  09:20:00  6 -> 9: 90 queued requests need 9 replicas
`
	if err != nil || !strings.HasPrefix(text, "team/chat around 09:05:00 UTC") || !strings.Contains(text, want) ||
		!strings.Contains(text, "--from LOG") {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = h.explain(t, "2026-11-20T09:02:00Z", "-o", "json")
	var e eventExplanation
	if jsonErr := json.Unmarshal([]byte(text), &e); err != nil || jsonErr != nil || e.Source != "events" ||
		!strings.HasPrefix(e.Before.Why, "2 -> 4") ||
		e.After == nil || !strings.HasPrefix(e.After.Why, "4 -> 6") {
		t.Errorf("%v, %v\n%s", err, jsonErr, text)
	}
}

func TestTimeWithoutAnEventIsAnErrorThatNamesBothSources(t *testing.T) {
	h := &handover{events: []eventsv1.Event{targetEvent("2026-11-20T09:20:00Z", "6 -> 9: queue (policy team/chat)")}}
	for denied, want := range map[bool]string{false: "no Event of the workload is that old", true: "events is forbidden"} {
		h.denied = denied
		_, err := h.explain(t, "2026-11-20T09:05:00Z")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "it begins at 09:30") {
			t.Errorf("denied %t: %v", denied, err)
			continue
		}
		if next := strings.Contains(err.Error(), "09:20:00 UTC 6 -> 9: queue\n"); next == denied {
			t.Errorf("denied %t: the next Event is named: %t\n%v", denied, next, err)
		}
	}
}
