package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	apiserverproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/tools/portforward"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
)

// apiServer starts a minimal API server for explain: it lists pods and forwards a port to the web page at the address page. It forwards by
// SPDY and, if websocket is true, also by WebSocket, as API servers do since 1.30. It forwards with the code of the real API server.
func apiServer(t *testing.T, pods []corev1.Pod, page string, websocket bool) (kubeconfig string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/gpuscaler-system/pods", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("labelSelector") != "gpuscaler.io/leader=true" {
			t.Errorf("asked for pods %s", r.URL.RawQuery)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: pods})
	})
	const forward = "/api/v1/namespaces/gpuscaler-system/pods/leads/portforward"
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { carry(t, w, r, page) }))
	t.Cleanup(kubelet.Close)
	t.Cleanup(kubelet.CloseClientConnections)
	to, err := url.Parse(kubelet.URL)
	if err != nil {
		t.Fatal(err)
	}
	spdy := utilproxy.NewUpgradeAwareHandler(to, nil, false, true, responder{t})
	mux.Handle("POST "+forward, spdy)
	if websocket {
		mux.Handle("GET "+forward, apiserverproxy.NewTunnelingHandler(spdy))
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}],
  users: [{name: u, user: {token: secret}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

type responder struct{ t *testing.T }

func (r responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	r.t.Errorf("on the way to the kubelet: %v", err)
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// carry connects the data stream of a port-forward to the web page at the address page.
func carry(t *testing.T, w http.ResponseWriter, r *http.Request, page string) {
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		t.Error(err)
		return
	}
	streams := make(chan httpstream.Stream, 2)
	c := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error { streams <- s; return nil })
	if c == nil {
		return
	}
	defer c.Close()
	for s := range streams {
		if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			_ = s.Close()
			continue
		}
		if got := s.Headers().Get(corev1.PortHeader); got != strconv.Itoa(9999) {
			t.Errorf("forwarded to port %s, want the container's port named page", got)
		}
		to, err := net.Dial("tcp", page)
		if err != nil {
			t.Error(err)
			return
		}
		go func() { _, _ = io.Copy(to, s) }()
		_, _ = io.Copy(s, to)
		return
	}
}

func leads(phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "gpuscaler-system", Name: "leads"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "gpuscaler", Ports: []corev1.ContainerPort{{Name: "page",
			ContainerPort: 9999}}}}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func TestExplainFindsTheLeaderWithAKubeconfig(t *testing.T) {
	t.Run("by websocket", func(t *testing.T) { explained(t, true) })
	t.Run("by SPDY, before Kubernetes 1.30", func(t *testing.T) { explained(t, false) })
}

func explained(t *testing.T, websocket bool) {
	t.Helper()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/explain/team/x" || !strings.HasPrefix(r.Host, "127.0.0.1:") || r.Header.Get("Authorization") != "" {
			t.Errorf("the page was asked %s %s with %v", r.Host, r.URL, r.Header)
		}
		fmt.Fprint(w, `{"policy": "team/x", "notDecided": "not decided yet"}`)
		w.Header().Set("Connection", "close")
	}))
	defer page.Close()
	kubeconfig := apiServer(t, []corev1.Pod{leads(corev1.PodRunning)}, page.Listener.Addr().String(), websocket)
	var out strings.Builder
	o := explainOptions{leader: leaderFlags{kubeconfig: kubeconfig, namespace: "gpuscaler-system"}, output: "text"}
	if err := o.run(t.Context(), []string{"team/x"}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "team/x") || !strings.Contains(out.String(), "not decided yet") {
		t.Errorf("printed %s", out.String())
	}
}

// If gpuscaler serves the external metrics API, explain must use this API and must not access gpuscaler's pods.
func TestExplainUsesTheExternalMetricsAPI(t *testing.T) {
	var asked []string
	ours, code := true, http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI()+" "+r.Header.Get("Authorization"))
		if ours {
			w.Header().Set(externalmetrics.ExplainHeader, "1")
		}
		w.WriteHeader(code)
		if code != http.StatusOK {
			fmt.Fprint(w, "no policy team/x")
			return
		}
		fmt.Fprint(w, `{"policy": "team/x", "notDecided": "not decided yet"}`)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	commandtest.Write(t, kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
  clusters: [{name: c, cluster: {server: %q, `+
		`insecure-skip-tls-verify: true}}],
  users: [{name: u, user: {token: secret}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`, server.URL))
	t.Setenv("TZ", "Europe/Berlin")
	explain := func() (string, error) {
		asked = nil
		var out strings.Builder
		o := explainOptions{leader: leaderFlags{kubeconfig: kubeconfig, namespace: "gpuscaler-system"}, at: "09:04", output: "text"}
		err := o.run(t.Context(), []string{"team/x"}, &out)
		return out.String(), err
	}
	text, err := explain()
	if want := "/apis/external.metrics.k8s.io/v1beta1/namespaces/team/gpuscaler-explain/x?at=09%3A04&zone=Europe%2FBerlin Bearer " +
		"secret"; err != nil || len(asked) != 1 || asked[0] != want {
		t.Errorf("%v, asked %q, want %q", err, asked, want)
	}
	if !strings.Contains(text, "not decided yet") {
		t.Errorf("printed %s", text)
	}
	code = http.StatusNotFound
	if _, err = explain(); err == nil || err.Error() != "no policy team/x" || len(asked) != 1 {
		t.Errorf("error of gpuscaler: %v, asked %q", err, asked)
	}
	ours = false // from now on another adapter serves the external metrics API, so explain must list gpuscaler's pods
	if _, err = explain(); err == nil || len(asked) != 2 || !strings.HasPrefix(asked[1], "/api/v1/namespaces/gpuscaler-system/pods?") {
		t.Errorf("error of another adapter: %v, asked %q", err, asked)
	}
}

func TestExplainWithoutALeaderNamesTheNextStep(t *testing.T) {
	kubeconfig := apiServer(t, []corev1.Pod{leads(corev1.PodPending)}, "", true)
	o := explainOptions{leader: leaderFlags{kubeconfig: kubeconfig, namespace: "gpuscaler-system"}, output: "text"}
	if err := o.run(t.Context(), []string{"team/x"}, io.Discard); err == nil || !strings.Contains(err.Error(),
		"kubectl -n gpuscaler-system get lease,pods") {
		t.Errorf("without a leader: %v", err)
	}
	o.leader.namespace = "elsewhere"
	if err := o.run(t.Context(), []string{"team/x"}, io.Discard); err == nil || !strings.Contains(err.Error(), "create pods/portforward") {
		t.Errorf("a namespace without permissions: %v", err)
	}
}
