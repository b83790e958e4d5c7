package dashboard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain/explaintest"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var (
	nine    = explaintest.Start // 09:00 UTC
	chatKey = explaintest.Key
)

func text(t *testing.T, e explain.Explanation) string {
	t.Helper()
	var b strings.Builder
	if err := e.WriteText(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const chatPath = ExplainPath + "team-chat/llama-chat"

// apiAnswer is the expected response of the API: the status and a part of the body.
type apiAnswer struct {
	code int
	part string
}

func TestAPIAnswers(t *testing.T) {
	s := explaintest.New(nil)
	s.Tick(0)
	mux := http.NewServeMux()
	now, standby := explaintest.Start.Add(10*time.Second), false
	clock := func() time.Time { return now }
	NewAPI(s.Engine.Decisions(), Options{Cluster: "prod", Clock: clock, Standby: func() bool { return standby }}).Register(mux)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	code, body := get(chatPath)
	var e explain.Explanation
	if err := json.Unmarshal([]byte(body), &e); code != 200 || err != nil {
		t.Fatalf("%d %v %s", code, err, body)
	}
	if want := explain.FromRecord(s.Record(), "prod"); text(t, e) != text(t, want) {
		t.Errorf("decoded from the API:\n%s\nwant\n%s", text(t, e), text(t, want))
	}
	now = explaintest.Start.Add(3 * time.Minute) // three minutes without a tick
	const tooOld = `"notDecided": "no current decision: the last decision is too old"`
	if code, body := get(chatPath); code != 200 || !strings.Contains(body, tooOld) {
		t.Errorf("three minutes after the last tick: %d %s", code, body)
	}
	for path, want := range map[string]apiAnswer{
		ExplainPath + "team-chat/other":           {404, "no policy team-chat/other"},
		chatPath + "?at=then":                     {400, "want 09:04"},
		chatPath + "?at=09:01":                    {200, `"target": 6`},
		chatPath + "?at=10:01&zone=%2B01:00":      {200, `"target": 6`},
		chatPath + "?at=09:01&zone=Europe/Berlin": {410, "2026-11-20T09:01:00+01:00"},
		chatPath + "?at=1m&zone=Berlin":           {400, "Europe/Berlin"},
		chatPath + "?at=2026-11-20T08:00:00Z": {410,
			"it begins at 2026-11-20T09:00:00Z. A replica starts a new history when it becomes the leader"},
		chatPath + "?at=2026-11-20T07:00:00Z": {410, "gpuscaler explain team-chat/llama-chat --at ... --from LOG"},
		chatPath + "?at=2026-11-20T09:00:00Z": {200, `"target": 6`},
		WorkloadsPath:                         {200, `"policy": "team-chat/llama-chat"`},
		WorkloadsPath + "?at=2m":              {200, `"policy": "team-chat/llama-chat"`},
		WorkloadsPath + "?at=8h":              {200, "[]"},
	} {
		if code, body := get(path); code != want.code || !strings.Contains(body, want.part) {
			t.Errorf("%s: %d %s\nwant %d with %q", path, code, body, want.code, want.part)
		}
	}
	standby = true
	for _, path := range []string{WorkloadsPath, chatPath, ExplainPath + "team-chat/other?at=09:01"} {
		if code, body := get(path); code != 503 || !strings.Contains(body, "gpuscaler.io/leader=true") {
			t.Errorf("a standby, %s: %d %s", path, code, body)
		}
	}
}

// A handler that API.Handler returns must serve only the scope of the arguments: one policy, the policies of one namespace, or all
// policies.
func TestAPIServesOneScope(t *testing.T) {
	s := explaintest.New(nil)
	s.Tick(0)
	api := NewAPI(s.Engine.Decisions(), Options{Clock: s.Clock})
	for _, c := range []struct {
		namespace, name, query string
		apiAnswer
	}{
		{"team-chat", "llama-chat", "", apiAnswer{200, `"target": 6`}},
		{"team-chat", "llama-chat", "?at=8h", apiAnswer{410, "--from"}},
		{"team-chat", "other", "", apiAnswer{404, "no policy team-chat/other"}},
		{"team-chat", "", "", apiAnswer{200, `"policy": "team-chat/llama-chat"`}},
		{"team-code", "", "", apiAnswer{200, "[]"}},
		{"", "", "", apiAnswer{200, `"policy": "team-chat/llama-chat"`}},
	} {
		w := httptest.NewRecorder()
		api.Handler(c.namespace, c.name).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+c.query, nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.part) {
			t.Errorf("%s/%s%s: %d %s\nwant %d with %q", c.namespace, c.name, c.query, w.Code, w.Body, c.code, c.part)
		}
	}
}

func TestCrashingReplicasHaveABadge(t *testing.T) {
	s := explaintest.New(nil)
	s.Replicas.Ready, s.Replicas.Crashing, s.Replicas.CrashingPod = s.Replicas.Ready-2, 2, "llama-chat-7d9f-x2x4z"
	s.Tick(0)
	record := s.Record()
	if all := badges(&record, nil); len(all) != 1 || all[0].Word != "crashing" {
		t.Errorf("badges %+v", all)
	}
}

// For a refused policy, the API must return the reason of the refusal, and not the error for a policy that does not exist.
func TestTheAPIExplainsARefusedPolicy(t *testing.T) {
	s := explaintest.New(nil)
	s.Tick(0)
	refused := map[string]string{"typo": "chat.yaml:7:16: spec.maxReplicas: is out of range"}
	visible := true
	api := NewAPI(s.Engine.Decisions(), Options{Clock: func() time.Time { return explaintest.Start },
		Refused: func(k scaling.Key) string { return refused[k.Name] }, Visible: func(*http.Request, string) bool { return visible }})
	mux := http.NewServeMux()
	api.Register(mux)
	get := func(name string) string {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, ExplainPath+"team-chat/"+name, nil))
		return strings.TrimSpace(w.Body.String())
	}
	if got, want := get("typo"), "policy team-chat/typo is refused: chat.yaml:7:16: spec.maxReplicas: is out of range"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := get("other"); !strings.HasPrefix(got, "no policy team-chat/other") {
		t.Errorf("a policy that does not exist: %q", got)
	}
	visible = false
	if got := get("typo"); strings.Contains(got, "refused") {
		t.Errorf("a user without access to the namespace sees %q", got)
	}
}
