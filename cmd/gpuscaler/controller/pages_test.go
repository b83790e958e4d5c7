package controller

import (
	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/inspect"

	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/util/cert"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
)

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// knowsAnna starts an API server that accepts the token of the user anna. For every request other than a TokenReview, it returns an error.
func knowsAnna(t *testing.T) (kubeconfig string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Status.Authenticated, review.Status.User.Username = review.Spec.Token == "anna's", "anna"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], users: [{name: `+
		`u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`, server.URL)
	commandtest.Write(t, kubeconfig, []byte(text))
	return kubeconfig
}

// client contains the arguments of `gpuscaler explain`: the address of a server, and the file with the token for it.
type client struct{ server, tokenFile string }

func TestTenantAddressNeedsATokenAndLoopbackDoesNot(t *testing.T) {
	dir := t.TempDir()
	pem, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	commandtest.Write(t, file("crt"), pem)
	commandtest.Write(t, file("key"), key)
	commandtest.Write(t, file("anna"), []byte("anna's"))
	commandtest.Write(t, file("mallory"), []byte("made up"))
	o := runOptions{
		kubeconfig: knowsAnna(t), externalMetrics: "off", leaseDuration: 15 * time.Second, lease: "gpuscaler",
		namespace: "gpuscaler-system", pod: "a",
		pageAddress: freeAddress(t), tenantPage: tenantPage{address: freeAddress(t), certFile: file("crt"), keyFile: file("key")},
	}
	c, err := newController(o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.servePages(ctx) }()
	defer func() { stop(); <-ended }()

	// The controller of this test is a standby. Only an authorized client receives the response of a standby.
	says := func(c client) string {
		args := []string{"explain", "--server", c.server, "--token-file", c.tokenFile}
		if strings.HasPrefix(c.server, "https") {
			args = append(args, "--certificate-authority", file("crt"))
		}
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			var problem strings.Builder
			root := &cobra.Command{Use: "gpuscaler", SilenceUsage: true, SilenceErrors: true}
			root.AddCommand(inspect.Commands()...)
			commandline.Run(t.Context(), root, args, io.Discard, &problem)
			if !strings.Contains(problem.String(), "connection refused") {
				return problem.String()
			}
		}
		return "no response"
	}
	tenants := "https://" + o.tenantPage.address
	for name, want := range map[client]string{
		{server: "http://" + o.pageAddress}:             "does not lead",
		{server: tenants}:                               "does not accept your token",
		{server: tenants, tokenFile: file("mallory")}:   "does not accept your token",
		{server: tenants, tokenFile: file("anna")}:      "does not lead",
		{server: "http://x", tokenFile: file("anna")}:   "in plain text",
		{server: tenants, tokenFile: file("not there")}: "no such file",
	} {
		if got := says(name); !strings.Contains(got, want) {
			t.Errorf("%+v: %s, want %q", name, got, want)
		}
	}
	if answer, err := http.Get("http://" + o.tenantPage.address + dashboard.WorkloadsPath); err == nil &&
		answer.StatusCode != http.StatusBadRequest {
		t.Errorf("request without TLS: %s", answer.Status)
	}
}

func TestPageNeedsLoopbackOrTLS(t *testing.T) {
	if err := (&runOptions{externalMetrics: "off", tenantPage: tenantPage{address: ":8443"}}).check(); err == nil ||
		!strings.Contains(err.Error(), "in plain text") {
		t.Errorf("without a certificate: %v", err)
	}
	c, err := newController(runOptions{
		kubeconfig: knowsAnna(t), leaseDuration: 15 * time.Second, lease: "gpuscaler", namespace: "gpuscaler-system", pod: "a",
		pageAddress: "0.0.0.0:0",
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.servePages(t.Context()); err == nil || !strings.Contains(err.Error(), "--tenant-page-address") {
		t.Errorf("address outside loopback without a token: %v", err)
	}
}

// With hostNetwork the chart sets no --page-address, because every process of the node could connect to that address. gpuscaler must then
// not serve the page.
func TestPageIsNotServedWithoutAnAddress(t *testing.T) {
	c, err := newController(runOptions{
		kubeconfig: knowsAnna(t), leaseDuration: 15 * time.Second, lease: "gpuscaler", namespace: "gpuscaler-system", pod: "a",
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if err := c.servePages(ctx); err != nil {
		t.Errorf("without an address: %v", err)
	}
	if ctx.Err() == nil {
		t.Error("servePages returned before ctx ended")
	}
}
