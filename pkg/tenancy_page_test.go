package pkg_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/visitor"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var hostileNoon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const scriptName = `x"><script>alert(1)</script>`

// still is an observed state that does not change. It has workloads of two tenants, and one workload whose name and other texts are HTML.
type still struct{ workloads []scaling.Workload }

func newDecisions() *engine.DecisionStore {
	s := &still{}
	for _, k := range []scaling.Key{llama, {Namespace: "team-code", Name: "codestral"}, {Namespace: "team-chat", Name: scriptName}} {
		s.workloads = append(s.workloads, scaling.Workload{
			Key: k, Origin: scriptName, Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: k.Name},
			Policy: &scaling.Policy{Signals: []scaling.Signal{{Name: scriptName, Type: "prometheus", Target: 10, MaxAge: time.Minute}},
				MaxReplicas: 9},
		})
	}
	e := engine.New(s, s, s, engine.Options{})
	e.Tick(context.Background(), hostileNoon)
	return e.Decisions()
}

func (s *still) Current() []scaling.Workload                  { return s.workloads }
func (s *still) Apply(context.Context, []engine.Change) error { return nil }
func (s *still) View(*scaling.Workload) (engine.View, bool) {
	return engine.View{Replicas: 2, Ready: 2, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator, OperatorBy: scriptName,
		ManagedHPA: engine.ManagedHPA{Kind: "HPA", Name: scriptName, Why: scriptName}}, true
}
func (s *still) Read(_ *scaling.Workload, out []scaling.Reading) {
	out[0] = scaling.Reading{Value: 35, At: hostileNoon, Coverage: 1, Reported: -1, Known: true}
}

// newCluster starts an API server that authenticates anna, who may read HPAs and the metric in team-chat.
func newCluster(t *testing.T) *rest.Config {
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Status.Authenticated, review.Status.User.Username = review.Spec.Token == "anna", "anna"
		answer(w, review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = review.Spec.User == "anna" && a != nil && a.Namespace == "team-chat"
		answer(w, review)
	})
	config := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"},
		Data:       map[string]string{"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`}}
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps/{name}", func(w http.ResponseWriter, _ *http.Request) { answer(w, config) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// explainAndPage returns the attacks on the web page and on explain. The attacker uses the port for users on the same machine (loopback) or
// the port for tenants.
func explainAndPage(t *testing.T) entrance {
	access, err := visitor.New(newCluster(t))
	if err != nil {
		t.Fatal(err)
	}
	page := dashboard.NewPage(newDecisions(), dashboard.Options{Visible: access.Visible, Clock: func() time.Time { return hostileNoon },
		Refresh: time.Millisecond})
	local, tenants := visitor.Trusted(page), access.Authenticate(page)
	ask := func(h http.Handler, path string, edit ...func(*http.Request)) func(*testing.T) string {
		return func(t *testing.T) string {
			return cheaply(t, func() string {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Host = "127.0.0.1:8081"
				u, err := r.URL.Parse(path)
				if err != nil {
					return "no address"
				}
				r.URL = u
				for _, e := range edit {
					e(r)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return saw(t, path, w)
			})
		}
	}
	header := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
	anna := header("Authorization", "Bearer anna")
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	method := func(name string) func(*http.Request) { return func(r *http.Request) { r.Method = name } }
	return entrance{"The page and explain", "Another tenant with a token, a browser on a hostile site, " +
		"and clients that reach the port.", []attempt{
		{"the whole list, without a token", "", "401", ask(tenants, dashboard.WorkloadsPath)},
		{"a made-up token", "", "401", ask(tenants, dashboard.WorkloadsPath, header("Authorization", "Bearer x"))},
		{"a password", "", "401", ask(tenants, dashboard.WorkloadsPath, header("Authorization", "Basic cm9vdDpyb290"))},
		{"a token of a hundred thousand bytes", "", "401", ask(tenants, "/", header("Authorization", "Bearer "+strings.Repeat("x", 100_000)))},
		{"the front proxy's headers, written by oneself", "CVE-2018-1002105 (Kubernetes)", "401",
			ask(tenants, dashboard.WorkloadsPath, header("X-Remote-User", "admin", "X-Remote-Group", "system:masters"))},
		{"impersonation beside one's own token", "", "200, sees team-chat",
			ask(tenants, dashboard.WorkloadsPath, anna, header("Impersonate-User", "admin", "X-Remote-User", "admin"))},
		{"the whole list, by one namespace's tenant", "", "200, sees team-chat", ask(tenants, dashboard.WorkloadsPath, anna)},
		{"another namespace's explanation", "", "404, sees nothing", ask(tenants, dashboard.ExplainPath+"team-code/codestral", anna)},
		{"another namespace's explanation at a moment", "", "404, sees nothing",
			ask(tenants, dashboard.ExplainPath+"team-code/codestral?at=1s", anna)},
		{"whether another namespace has a policy of this name", "", "404, sees nothing",
			ask(tenants, dashboard.ExplainPath+"team-code/nothing", anna)},
		{"another namespace's page", "", "404, sees nothing", ask(tenants, "/workloads/team-code/codestral", anna)},
		{"another namespace's live stream", "", "404, sees nothing", ask(tenants, "/events?workload=team-code/codestral", anna)},
		{"another namespace through the search", "", "200, sees nothing", ask(tenants, "/?q=codestral", anna)},
		{"another namespace through the history", "", "200, sees team-chat", ask(tenants, "/history?range=24h", anna)},
		{"another namespace by a path with dots", "", "404, sees nothing",
			ask(tenants, dashboard.ExplainPath+"team-chat/..%2fteam-code%2fcodestral", anna)},
		{"another namespace by a doubled slash", "", "sees nothing", ask(tenants, dashboard.ExplainPath+"team-chat//team-code/codestral", anna)},
		{"a file by a path with dots", "CVE-2021-43798 (Grafana)", "404, sees nothing", ask(local, "/static/..%2f..%2f..%2fetc%2fpasswd")},
		{"a file by dots that are escaped twice", "CVE-2021-43798", "404, sees nothing", ask(local, "/static/%252e%252e%252fpage.go")},
		{"a file by a NUL", "", "404, sees nothing", ask(local, "/static/page.js%00.html")},
		{"a script in a workload's name", "", "200, sees team-chat, the name is text",
			ask(local, "/workloads/team-chat/"+"x%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E")},
		{"a script in the list", "", "the name is text", ask(local, "/")},
		{"a script in a search", "", "the name is text", ask(local, "/?q=%3Cscript%3Ealert(1)%3C/script%3E")},
		{"a script in a path that there is not", "", "sees nothing", ask(local, "/%3Cscript%3Ealert(1)%3C/script%3E")},
		{"a script in a moment", "", "400", ask(local, "/workloads/team-chat/llama?at=%3Cscript%3Ealert(1)%3C/script%3E")},
		{"a script in the explanation's JSON, opened by a browser", "", "the name is text", func(t *testing.T) string {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, dashboard.WorkloadsPath, nil)
			r.Host = "localhost"
			local.ServeHTTP(w, r)
			if w.Header().Get("Content-Type") != "application/json" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers %v", w.Header())
			}
			return saw(t, dashboard.WorkloadsPath, w)
		}},
		{"a zone that is a file", "", "400", ask(local, dashboard.WorkloadsPath+"?at=09:00&zone=../../../etc/passwd")},
		{"a moment before time began", "", "410", ask(local, dashboard.ExplainPath+"team-chat/llama?at=0000-01-01T00:00:00Z")},
		{"an age of a million years", "", "400", ask(local, dashboard.ExplainPath+"team-chat/llama?at=8760000000h")},
		{"a query of a hundred thousand bytes", "", "414", ask(local, "/?q="+strings.Repeat("x", 100_000))},
		{"a path of a hundred thousand bytes", "", "414", ask(local, "/"+strings.Repeat("x", 100_000))},
		{"a search of ten thousand words", "", "414", ask(local, "/?q="+strings.Repeat("a+", 5_000))},
		{"the last page of a list without end", "", "200", ask(local, "/?page=9223372036854775807&per=9223372036854775807")},
		{"a host name that resolves to this machine (DNS rebinding)", "CVE-2018-5702 (Transmission)", "421",
			ask(local, dashboard.WorkloadsPath, host("evil.example.com"))},
		{"a name that begins like this machine's", "", "421", ask(local, dashboard.WorkloadsPath, host("localhost.evil.example.com"))},
		{"a change by POST", "", "405", ask(local, "/workloads/team-chat/llama", method(http.MethodPost))},
		{"a method that there is not", "", "405", ask(local, "/", method("DEBUG"))},
		{"a frame around the page (clickjacking)", "", "no frame", func(*testing.T) string {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Host = "localhost"
			local.ServeHTTP(w, r)
			if strings.Contains(w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'") && w.Header().Get("X-Frame-Options") == "DENY" {
				return "no frame"
			}
			return fmt.Sprint(w.Header())
		}},
		{"two lengths of one request (smuggling)", "CVE-2019-20444 and its kind", "400", func(t *testing.T) string {
			return raw(t, local, "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello")
		}},
		{"a length and chunks at once (smuggling)", "CVE-2019-20444 and its kind", "then the connection is closed", func(t *testing.T) string {
			return raw(t, local, "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: "+
				"chunked\r\n\r\n0\r\n\r\nGET /workloads/team-code/codestral HTTP/1.1\r\nHost: evil\r\n\r\n")
		}},
		{"a new line in a header's name", "", "400", func(t *testing.T) string {
			return raw(t, local, "GET / HTTP/1.1\r\nHost: localhost\r\nX-A\n: b\r\n\r\n")
		}},
		{"a cookie that breaks out of an attribute", "", "the name is text",
			ask(local, "/", header("Cookie", `gpuscaler-theme="><script>alert(1)</script>`))},
		{"more live streams than the limit", "", "16 open, then 429", func(t *testing.T) string { return flood(t, tenants) }},
	}}
}

// saw returns the status of a response and the tenants whose workloads it contains. The test fails if a name is rendered as HTML or if an
// error message contains the name of a workload.
func saw(t *testing.T, path string, w *httptest.ResponseRecorder) string {
	t.Helper()
	code, body := w.Code, w.Body.String()
	text := fmt.Sprintf("%d, sees ", code)
	switch chat, coded := strings.Contains(body, "llama"), strings.Contains(body, "codestral"); {
	case code >= 300:
		text += "nothing"
		if strings.Contains(body, "alert(1)") && !strings.Contains(path, "alert") { // an error message may contain only names from the URL
			t.Errorf("status %d names a workload: %.300s", code, body)
		}
	case chat && coded:
		text += "team-chat and team-code"
	case chat:
		text += "team-chat"
	case coded && !strings.Contains(body, `value="codestral"`): // the name in the search field is from the query and not a leak
		text += "team-code"
	case strings.Contains(body, "team-chat"):
		text += "team-chat"
	default:
		text += "nothing"
	}
	if strings.Contains(body, "<script>alert") {
		t.Errorf("a name is rendered as markup: %.300s", body)
	} else if strings.Contains(body, "alert(1)") {
		text += ", the name is text"
	}
	return text
}

// raw sends the bytes of request to an HTTP server. It returns the status of the response, followed by the status of a second response or
// by the fact that the connection is closed.
func raw(t *testing.T, h http.Handler, request string) string {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprint(c, request)
	answers := bufio.NewReader(c)
	first, err := http.ReadResponse(answers, nil)
	if err != nil {
		return "the connection is closed"
	}
	body, _ := io.ReadAll(first.Body)
	if strings.Contains(string(body), "codestral") && strings.Contains(request, "codestral") && first.StatusCode == http.StatusOK &&
		!strings.Contains(string(body), "llama") {
		t.Error("the server responded to the hidden request")
	}
	text := first.Status
	if second, err := http.ReadResponse(answers, nil); err == nil {
		text += ", then " + second.Status
	} else {
		text += ", then the connection is closed"
	}
	return text
}

// flood opens event streams of the web page as one client, until the server refuses a stream.
func flood(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	for open := range 200 {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer anna")
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		if answer.StatusCode != http.StatusOK {
			return fmt.Sprintf("%d open, then %s", open, answer.Status)
		}
	}
	return "no end"
}
