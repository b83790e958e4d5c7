package dashboard

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// clusterAtNine returns a cluster with n workloads at 09:00 UTC. The faults that addFaults adds began ten minutes before.
func clusterAtNine(n int, o Options) *testCluster {
	l := newTestCluster(n, o)
	l.now = nine.Add(-40 * time.Minute)
	l.pass(30*time.Minute, 10*time.Second)
	l.addFaults()
	l.pass(10*time.Minute, 10*time.Second)
	return l
}

// get returns a GET request as a browser on the same machine sends it, with the loopback address in the Host header.
func get(path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "127.0.0.1:8081"
	return r
}

func ask(h http.Handler, path string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	r := get(path)
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var allPages = []string{
	"/", "/?q=team&show=attention&sort=-target&page=2&per=5", "/?q=nothing+matches", "/history", "/history?q=gateway&range=24h",
	"/workloads/team-chat/llama-chat", "/workloads/team-speech/whisper-large?range=24h",
	"/workloads/team-chat/llama-chat?at=2026-11-20T08:40:00Z",
	"/workloads/team-chat/llama-chat?at=2026-11-20T08:40&q=combine", "/workloads/team-chat/other", "/nothing/here",
}

func TestSecurityHeaders(t *testing.T) {
	l := clusterAtNine(12, Options{Cluster: "prod"})
	for _, path := range append([]string{asset("page.css"), WorkloadsPath}, allPages...) {
		w := ask(l.page, "/"+strings.TrimPrefix(path, "/"))
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s = %q, want %q", path, name, got, want)
			}
		}
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
	}
}

// A page must not contain inline scripts or styles, because the Content-Security-Policy forbids them and a browser would ignore them.
func TestPagesComplyWithTheirContentSecurityPolicy(t *testing.T) {
	l := clusterAtNine(12, Options{Cluster: "prod", Panels: testPanels{}})
	forbidden := regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:|(src|href)="(https?:)?//`)
	for _, path := range allPages {
		if found := forbidden.FindString(ask(l.page, path).Body.String()); found != "" {
			t.Errorf("%s holds %q", path, found)
		}
	}
}

func TestUnexpectedRequestsAreRejected(t *testing.T) {
	l := clusterAtNine(2, Options{Hosts: []string{"gpuscaler.example.org"}})
	method := func(m string) func(*http.Request) { return func(r *http.Request) { r.Method = m } }
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	for _, c := range []struct {
		name, path string
		edit       func(*http.Request)
		want       int
	}{
		{"a GET", "/", method("GET"), 200},
		{"a HEAD", "/", method("HEAD"), 200},
		{"a POST", "/", method("POST"), 405},
		{"a DELETE of a workload", "/workloads/team-chat/llama-chat", method("DELETE"), 405},
		{"a POST to the JSON", WorkloadsPath, method("POST"), 405},
		{"a GET with a body", "/", func(r *http.Request) { r.ContentLength = 5 }, 400},
		{"a GET with a body of unknown length", "/", func(r *http.Request) { r.ContentLength = -1 }, 400},
		{"localhost", "/", host("localhost:8081"), 200},
		{"an IPv6 address", "/", host("[::1]:8081"), 200},
		{"an address without a port", "/", host("10.2.3.4"), 200},
		{"the API server's name, off loopback", "/", func(r *http.Request) { *r = *offLoopback(r, "api.prod.example.com") }, 200},
		{"a name from Options.Hosts", "/", host("GPUscaler.example.org"), 200},
		{"another name that resolves to loopback (DNS rebinding)", "/", host("evil.example.com:8081"), 421},
		{"another name that begins with localhost", WorkloadsPath, host("localhost.evil.example"), 421},
		{"the API server's name, on loopback", "/", host("api.prod.example.com"), 421},
		{"no name", "/", host(""), 421},
		{"a long search", "/?q=" + strings.Repeat("x", maxSearch+1), method("GET"), 400},
		{"a long search of a workload", "/workloads/team-chat/llama-chat?q=" + strings.Repeat("x", maxSearch+1), method("GET"), 400},
		{"a long search of the history", "/history?q=" + strings.Repeat("x", maxSearch+1), method("GET"), 400},
		{"a long search of a stream", "/events?q=" + strings.Repeat("x", maxSearch+1), method("GET"), 400},
		{"a long query", "/?q=" + strings.Repeat("x", maxQuery), method("GET"), 414},
		{"a long path", "/workloads/" + strings.Repeat("x", maxPath), method("GET"), 414},
		{"an invalid time", "/workloads/team-chat/llama-chat?at=then", method("GET"), 400},
		{"a time before the history", "/workloads/team-chat/llama-chat?at=2020-01-01T00:00:00Z", method("GET"), 404},
		{"an invalid page number", "/?page=-3&per=x", method("GET"), 200},
		{"a page beyond the last", "/?page=99999999999999999999", method("GET"), 200},
		{"a path out of the directory", "/static/..%2fpage.go", method("GET"), 404},
		{"a file that does not exist", "/static/nothing.js", method("GET"), 404},
	} {
		if got := ask(l.page, c.path, c.edit).Code; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// offLoopback makes a request appear as received on the pod's address, with the given Host header.
func offLoopback(r *http.Request, host string) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 2, 3, 4), Port: 8081}))
	r.Host = host
	return r
}

const hostile = `"><script>alert(1)</script>&amp;'{{.}}`

func TestNamesAreEscaped(t *testing.T) {
	l := newTestCluster(3, Options{Cluster: hostile})
	key := scaling.Key{Namespace: "<b>team", Name: hostile}
	s := l.services[l.workloads[0].Key]
	l.workloads[0].Key, l.services[key] = key, s
	l.workloads[0].Origin, l.workloads[0].Target.Name = hostile, hostile
	l.workloads[0].Policy.Signals[0].Name, l.workloads[0].Policy.Signals[1].Type = hostile, hostile
	s.view.OperatorBy, s.view.Operator.Paused = hostile, true
	s.view.ManagedHPA = engine.ManagedHPA{Kind: "HPA", Name: hostile, Why: hostile}
	l.now = nine
	l.pass(time.Minute, 10*time.Second)

	own := "/" + workloadURL(key)
	search := "?q=" + url.QueryEscape(hostile)
	for _, path := range []string{
		"/", own, own + "?at=2026-11-20T09:00:30Z", own + search, "/history", "/" + search, "/workloads/x/" + url.PathEscape(hostile),
	} {
		w := ask(l.page, path)
		body := w.Body.String()
		if strings.Contains(body, "<script>") || strings.Contains(body, "<b>team") || strings.Contains(body, `href="">`) {
			t.Errorf("%s: the name is not escaped", path)
		}
		if !strings.Contains(body, "&lt;script&gt;alert(1)") {
			t.Errorf("%s: %d, the name is not shown", path, w.Code)
		}
	}
	if code := ask(l.page, own).Code; code != 200 {
		t.Errorf("its own page: %d", code)
	}
	if link := `href="` + workloadURL(key); !strings.Contains(ask(l.page, "/").Body.String(), strings.ReplaceAll(link, "&", "&amp;")) {
		t.Errorf("the overview has no link %s", link)
	}
}

func TestUsersSeeOnlyTheirNamespaces(t *testing.T) {
	l := clusterAtNine(12, Options{Panels: testPanels{}, Visible: func(r *http.Request, namespace string) bool {
		return r.Header.Get("X-Remote-User") == "anna" && namespace == "team-chat" || r.Header.Get("X-Remote-User") == "root"
	}})
	root := func(r *http.Request) { r.Header.Set("X-Remote-User", "root") }
	if !strings.Contains(ask(l.page, "/", root).Body.String(), "NodePools") {
		t.Error("a user who may see all namespaces sees no NodePools")
	}
	anna := func(r *http.Request) { r.Header.Set("X-Remote-User", "anna") }
	for _, path := range []string{"/", "/history?range=24h", WorkloadsPath} {
		body := ask(l.page, path, anna).Body.String()
		if !strings.Contains(body, "llama-chat") || strings.Contains(body, "whisper") || strings.Contains(body, "NodePools") {
			t.Errorf("%s shows too little or too much", path)
		}
		if body := ask(l.page, path).Body.String(); strings.Contains(body, "llama-chat") {
			t.Errorf("%s shows workloads to an unknown user", path)
		}
	}
	for path, want := range map[string]int{
		"/workloads/team-chat/llama-chat": 200, "/workloads/team-speech/whisper-large": 404,
		"/workloads/team-speech/whisper-large?at=2026-11-20T08:40:00Z": 404, ExplainPath + "team-chat/llama-chat": 200,
		ExplainPath + "team-speech/whisper-large":    404,
		"/events?workload=team-speech/whisper-large": 404,
	} {
		if got := ask(l.page, path, anna).Code; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

func TestSelectedThemeIsRenderedByTheServer(t *testing.T) {
	l := clusterAtNine(1, Options{})
	for cookie, want := range map[string]string{"dark": ` data-theme="dark"`, "light": ` data-theme="light"`, "blue": "", "": ""} {
		withCookie := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "gpuscaler-theme", Value: cookie}) }
		body := ask(l.page, "/", withCookie).Body.String()
		if !strings.Contains(body, `<html lang="en"`+want+">") {
			t.Errorf("cookie %q: %s", cookie, body[:60])
		}
	}
}

func TestPageReportsAStoppedLoop(t *testing.T) {
	l := newTestCluster(2, Options{})
	if body := ask(l.page, "/").Body.String(); !strings.Contains(body, "currently computes no targets") {
		t.Error("before the first tick the page has no warning")
	}
	if w := ask(l.page, ExplainPath+"team-chat/llama-chat"); w.Code != 503 || !strings.Contains(w.Body.String(), "after its first tick") {
		t.Errorf("before the first tick explain returns %d %s", w.Code, w.Body)
	}
	l.pass(10*time.Second, 10*time.Second)
	if body := ask(l.page, "/").Body.String(); strings.Contains(body, "banner") {
		t.Error("a healthy loop has a banner")
	}
	l.now = l.now.Add(2 * time.Minute)
	body := ask(l.page, "/").Body.String()
	if !strings.Contains(body, "The data is from 00:00:10 UTC") || !strings.Contains(body, ">stale</span>") {
		t.Error("after two minutes without a tick: no warning about the loop or the workloads")
	}
}

func TestStaticFilesAreCachedByVersion(t *testing.T) {
	l := newTestCluster(1, Options{})
	w := ask(l.page, "/"+asset("page.js"))
	if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") ||
		!strings.Contains(w.Header().Get("Content-Type"), "javascript") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := ask(l.page, "/static/page.js?v=old"); strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Error("the URL of another version is cached")
	}
	again := ask(l.page, "/"+asset("page.js"), func(r *http.Request) { r.Header.Set("If-None-Match", w.Header().Get("ETag")) })
	if again.Code != http.StatusNotModified {
		t.Errorf("second request: %d", again.Code)
	}
}
