package externalmetrics

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// client returns a TLS configuration with a client certificate for a name.
func (a *authority) client(t testing.TB, name string) *tls.Config {
	t.Helper()
	a.sign(t, name, &x509.Certificate{})
	pair, err := tls.LoadX509KeyPair(a.file(name+".crt"), a.file(name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// front is a fake API server that authenticates and authorizes requests. It authenticates the user anna by the token "anna's", and only
// anna may read gpuscaler-desired-replicas in team-chat.
type front struct {
	proxy      *authority
	kubeconfig string
	listable   chan struct{} // the list of the ConfigMap waits until the test closes this channel
	reviews    atomic.Int64  // number of TokenReviews and SubjectAccessReviews
}

func newFront(t testing.TB) *front {
	f := &front{proxy: newAuthority(t), listable: make(chan struct{})}
	ca, err := os.ReadFile(f.proxy.file("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	config := corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication", ResourceVersion: "1"},
		Data: map[string]string{
			"requestheader-client-ca-file":   string(ca),
			"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`, "requestheader-allowed-names": `["front-proxy-client"]`,
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps/{name}", func(w http.ResponseWriter, _ *http.Request) { answer(w, config) })
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-f.listable:
		case <-r.Context().Done():
			return
		}
		if q := r.URL.Query(); q.Get("watch") != "" {
			if q.Get("sendInitialEvents") == "true" {
				end := corev1.ConfigMap{TypeMeta: config.TypeMeta, ObjectMeta: metav1.ObjectMeta{
					ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
				}}
				answer(w, map[string]any{"type": "ADDED", "object": config})
				answer(w, map[string]any{"type": "BOOKMARK", "object": end})
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		answer(w, corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.ConfigMap{config}})
	})
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		f.reviews.Add(1)
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		if review.Spec.Token == "anna's" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "anna"}}
		}
		answer(w, review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		f.reviews.Add(1)
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = review.Spec.User == "anna" && a != nil && a.Namespace == "team-chat" &&
			(a.Resource == MetricName || a.Resource == ExplainResource)
		answer(w, review)
	})
	server := httptest.NewUnstartedServer(mux)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // ends the watches, which would otherwise never end
	f.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}],
  users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`, server.URL)
	if err := os.WriteFile(f.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// as sets the headers with which the front proxy identifies a user.
func as(user string, groups ...string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("X-Remote-User", user)
		r.Header["X-Remote-Group"] = groups
	}
}

func guarded(t testing.TB, f *front) (*Server, string) {
	t.Helper()
	certificate, err := SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	return run(t, ServerConfig{Certificate: certificate, Kubeconfig: f.kubeconfig, Explain: func(namespace, name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "why %s/%s", namespace, name) })
	}})
}

// The server receives the CA of the front proxy by a watch. Until the CA has arrived, the server must not be ready, because it would reject
// the requests that the API server forwards.
func TestServerIsNotReadyWithoutTheCAOfTheFrontProxy(t *testing.T) {
	f := newFront(t)
	server, address := guarded(t, f)
	get := reader(t, address, f.proxy.client(t, "front-proxy-client"))
	chat := metricPath(MetricName, PolicyLabel+"=chat")
	until(t, "it answers", func() bool { code, _ := get("/livez"); return code == http.StatusOK })
	if err := server.Ready(); err == nil || !strings.Contains(err.Error(), "extension-apiserver-authentication") {
		t.Errorf("ready without the CA: %v", err)
	}
	if code, _ := get("/readyz"); code == http.StatusOK {
		t.Error("/readyz is ok without the CA")
	}
	if code, body := get(chat, as("anna")); code != http.StatusForbidden {
		t.Errorf("without the CA anna gets %d %s", code, body)
	}
	close(f.listable)
	until(t, "it is ready", func() bool { return server.Ready() == nil })
	if code, body := get(chat, as("anna")); code != http.StatusOK {
		t.Errorf("ready, and anna gets %d %s", code, body)
	}
}

func TestOnlyAuthorizedUsersRead(t *testing.T) {
	f := newFront(t)
	close(f.listable)
	server, address := guarded(t, f)
	until(t, "it is ready", func() bool { return server.Ready() == nil })
	chat := metricPath(MetricName, PolicyLabel+"=chat")
	token := func(text string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+text) }
	}
	other := newAuthority(t)
	for _, c := range []struct {
		name string
		tls  *tls.Config
		edit func(*http.Request)
		path string
		want int
	}{
		{"anna through the API server", f.proxy.client(t, "front-proxy-client"), as("anna"), chat, 200},
		{"anna by her token", nil, token("anna's"), chat, 200},
		{"bob through the API server", f.proxy.client(t, "front-proxy-client"), as("bob"), chat, 403},
		{"anna, another namespace", f.proxy.client(t, "front-proxy-client"), as("anna"), strings.Replace(chat, "team-chat", "team-code", 1), 403},
		{"anna, another metric", nil, token("anna's"), metricPath("queue-depth", ""), 403},
		{"no identity", nil, func(*http.Request) {}, chat, 403},
		{"a token that is none", nil, token("x"), chat, 401},
		{"anna's name without a certificate", nil, as("anna"), chat, 403},
		{"anna's name with a certificate of another CA", other.client(t, "front-proxy-client"), as("anna"), chat, 401},
		{"anna's name with a certificate of the front proxy's CA for another name", f.proxy.client(t, "anna"), as("anna"), chat, 401},
		{"system:masters by header", nil, as("root", "system:masters"), chat, 403},
	} {
		if code, body := reader(t, address, c.tls)(c.path, c.edit); code != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, code, body, c.want)
		}
	}
}

// The server must cache the results of TokenReviews and SubjectAccessReviews for a minute, because an HPA reads four times a minute.
func TestReviewsAreCachedForAMinute(t *testing.T) {
	f := newFront(t)
	close(f.listable)
	server, address := guarded(t, f)
	until(t, "it is ready", func() bool { return server.Ready() == nil })
	get := reader(t, address, f.proxy.client(t, "front-proxy-client"))
	for range 20 {
		if code, body := get(metricPath(MetricName, PolicyLabel+"=chat"), as("anna")); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	if n := f.reviews.Load(); n != 1 {
		t.Errorf("the API server was asked %d times for 20 reads, want 1", n)
	}
}

// Each HPA reads with the selector of its policy, but the policies of a namespace must share one SubjectAccessReview. Otherwise, 10,000
// HPAs would cause 10,000 reviews a minute, and the library can cache only 8,192 results.
func TestPoliciesOfANamespaceShareAReview(t *testing.T) {
	f := newFront(t)
	close(f.listable)
	server, address := guarded(t, f)
	until(t, "it is ready", func() bool { return server.Ready() == nil })
	get := reader(t, address, f.proxy.client(t, "front-proxy-client"))
	for i := range 20 {
		for _, path := range []string{metricPath(MetricName, fmt.Sprintf("%s=policy-%d", PolicyLabel, i)),
			metricPath(MetricName, fmt.Sprintf("%s=policy-%d,x=y", PolicyLabel, i))} {
			if code, body := get(path, as("anna")); code != http.StatusNotFound && code != http.StatusBadRequest {
				t.Fatalf("%s: %d %s, want that anna is authorized and there is no such policy", path, code, body)
			}
		}
	}
	if n := f.reviews.Load(); n != 1 {
		t.Errorf("the API server was asked %d times for 40 selectors in one namespace, want 1", n)
	}
}

// The server must serve explanations as JSON to authorized users whose requests the API server forwards.
func TestExplanationsAreServedThroughTheAPIServer(t *testing.T) {
	f := newFront(t)
	close(f.listable)
	server, address := guarded(t, f)
	until(t, "it is ready", func() bool { return server.Ready() == nil })
	get := reader(t, address, f.proxy.client(t, "front-proxy-client"))
	const group = "/apis/external.metrics.k8s.io/v1beta1"
	for _, c := range []struct {
		name, user, path string
		edit             func(*http.Request)
		code             int
		says             string
	}{
		{"anna, one", "anna", "/namespaces/team-chat/gpuscaler-explain/llama?at=09:04&zone=Europe/Berlin", nil, 200, "why team-chat/llama"},
		{"anna, all of her namespace", "anna", "/namespaces/team-chat/gpuscaler-explain", nil, 200, "why team-chat/"},
		{"anna, another namespace", "anna", "/namespaces/team-code/gpuscaler-explain/codestral", nil, 403, "cannot get resource"},
		{"anna, every namespace", "anna", "/gpuscaler-explain", nil, 403, "at the cluster scope"},
		{"bob", "bob", "/namespaces/team-chat/gpuscaler-explain/llama", nil, 403, "bob"},
		{"anna, a part of it", "anna", "/namespaces/team-chat/gpuscaler-explain/llama/status", nil, 404, ""},
		{"anna, who writes", "anna", "/namespaces/team-chat/gpuscaler-explain/llama", func(r *http.Request) { r.Method = http.MethodPut },
			404, ""},
		{"anna, who watches", "anna", "/namespaces/team-chat/gpuscaler-explain?watch=1", nil, 405, ""},
	} {
		edit := []func(*http.Request){as(c.user)}
		if c.edit != nil {
			edit = append(edit, c.edit)
		}
		if code, body := get(group+c.path, edit...); code != c.code || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: %d %s, want %d with %q", c.name, code, body, c.code, c.says)
		}
	}
}
