package install

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/leaderproxy"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// scalerKnows checks that the leader's external scaler accepts the client with the certificate that Helm generated, and no other client.
func scalerKnows(t *testing.T, namespace string, issued map[string][]byte) {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(issued["ca.crt"]) {
		t.Fatalf("the Secret of KEDA's certificate has no CA: %d keys", len(issued))
	}
	pair, err := tls.X509KeyPair(issued["tls.crt"], issued["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	ask := func(shown ...tls.Certificate) error {
		config := &tls.Config{RootCAs: roots, ServerName: "gpuscaler-scaler." + namespace + ".svc", Certificates: shown}
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true,
			DisableKeepAlives: true}}
		for _, p := range podsOf(t, namespace) {
			if p.Labels[leaderproxy.LeaderLabel] != "true" {
				continue
			}
			answer, err := client.Get("https://" + p.Status.PodIP + ":9090/")
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			// This status shows that the server accepted the client's certificate: the gRPC server checks the certificate first and then rejects
			// the media type of the plain HTTP request.
			if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusUnsupportedMediaType {
				return fmt.Errorf("%s, %w", answer.Status, err)
			}
			return nil
		}
		return errors.New("no leader")
	}
	stack.Eventually(t, time.Minute, "KEDA's certificate is accepted", func(context.Context) error { return ask(pair) })
	if err := ask(); err == nil {
		t.Error("a client without a certificate is accepted")
	}
}
