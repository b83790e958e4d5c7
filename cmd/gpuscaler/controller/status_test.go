package controller

import (
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"

	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

// answers sends a GET request to a URL and returns the status code and the body. It retries while the server starts.
func answers(t *testing.T, url string) (code int, body string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		answer, err := http.Get(url)
		if err == nil {
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode, string(text)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Metrics and probes must be served on different ports, so that requests for metrics do not delay probes.
func TestMetricsAndProbesHavePortsOfTheirOwn(t *testing.T) {
	c := offline(t)
	c.options.metrics.address, c.options.probeAddress = freeAddress(t), freeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- c.options.metrics.serve(ctx, c) }()
	go func() { ended <- c.serveProbes(ctx) }()
	metrics, probes := "http://"+c.options.metrics.address, "http://"+c.options.probeAddress
	for url, want := range map[string]int{
		metrics + "/metrics": http.StatusOK, metrics + "/healthz": http.StatusNotFound, metrics + "/readyz": http.StatusNotFound,
		probes + "/healthz": http.StatusOK, probes + "/readyz": http.StatusServiceUnavailable, probes + "/metrics": http.StatusNotFound,
	} {
		if code, body := answers(t, url); code != want {
			t.Errorf("%s: %d %s, want %d", url, code, body, want)
		}
	}
	_, text := answers(t, metrics+"/metrics")
	for _, name := range []string{"process_open_fds ", "go_goroutines ", "gpuscaler_leader 0", "gpuscaler_tick_failures_total 0"} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("no %s in\n%s", name, text)
		}
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestTokensForMetricsAreNotSentInPlainText(t *testing.T) {
	for _, c := range []struct {
		port metricsPort
		want string
	}{
		{metricsPort{authorization: true}, "must not be sent in plain text"},
		{metricsPort{certFile: "tls.crt"}, "use both or neither"},
		{metricsPort{certFile: "tls.crt", keyFile: "tls.key", authorization: true}, ""},
		{metricsPort{}, ""},
	} {
		if err := c.port.check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.port, err, c.want)
		}
	}
}

// The API server of this test authenticates the user anna, but returns an error when gpuscaler checks her permissions. gpuscaler must then
// not serve the metrics to any client.
func TestMetricsWithAuthorizationAreNotServedToOthers(t *testing.T) {
	dir := t.TempDir()
	pem, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newController(runOptions{
		kubeconfig: knowsAnna(t), leaseDuration: 15 * time.Second, lease: "gpuscaler", namespace: "gpuscaler-system", pod: "a",
		externalMetrics: "off",
		metrics: metricsPort{address: freeAddress(t), certFile: filepath.Join(dir, "crt"), keyFile: filepath.Join(dir, "key"),
			authorization: true},
	}, offline(t).log)
	if err != nil {
		t.Fatal(err)
	}
	commandtest.Write(t, c.options.metrics.certFile, pem)
	commandtest.Write(t, c.options.metrics.keyFile, key)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.options.metrics.serve(ctx, c) }()
	defer func() { stop(); <-ended }()
	if code, body := answers(t, "http://"+c.options.metrics.address+"/metrics"); code != http.StatusBadRequest || strings.Contains(body,
		"go_goroutines") {
		t.Errorf("in plain text: %d %s", code, body)
	}
	for _, token := range []string{"", "made up", "anna's"} {
		client, err := rest.HTTPClientFor(&rest.Config{
			BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: c.options.metrics.certFile}})
		if err != nil {
			t.Fatal(err)
		}
		server := "https://" + strings.Replace(c.options.metrics.address, "127.0.0.1", "localhost", 1)
		answer, err := client.Get(server + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK || strings.Contains(string(body), "go_goroutines") {
			t.Errorf("token %q: %s", token, answer.Status)
		}
	}
}
