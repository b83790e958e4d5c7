package redisqueue

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

func TestClientDoesNotRetryAndVerifiesTheHost(t *testing.T) {
	f, err := New(&policy.DataSource{Address: "redis.embed.svc:6379", Database: 3, TLS: &spec.TLS{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := f.client.Options()
	if o.DB != 3 || o.MaxRetries > 0 || !o.ContextTimeoutEnabled || o.TLSConfig.ServerName != "redis.embed.svc" {
		t.Errorf("%+v", o)
	}
	if _, err := New(&policy.DataSource{Address: "redis.embed.svc"}, nil); err == nil {
		t.Error("an address without a port is accepted")
	}
}

// The parameter dial of New opens the connections, for example through a proxy. The fetcher must use the address of the data source and, if
// TLS is configured, TLS: a server whose certificate is not trusted is refused, and the connection to it is closed.
func TestConnectionsOfADialerUseTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil) // its certificate is signed by no trusted CA
	defer server.Close()
	var dialed string
	closed := make(chan error, 1)
	f, err := New(&policy.DataSource{Address: "redis.embed.svc:6379", TLS: &spec.TLS{}},
		func(_ context.Context, _, address string) (net.Conn, error) {
			dialed = address
			ours, theirs := net.Pipe()
			go func() { closed <- tls.Server(theirs, server.TLS).Handshake() }()
			return ours, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = f.Fetch(t.Context(), []source.Request{{Source: &policy.Source{ListName: "jobs"}}}, make([]scaling.Reading, 1))
	if refused := (*tls.CertificateVerificationError)(nil); !errors.As(err, &refused) {
		t.Errorf("error %v, want one about the certificate", err)
	}
	if dialed != "redis.embed.svc:6379" {
		t.Errorf("dialed %q", dialed)
	}
	if err := <-closed; err == nil {
		t.Error("the server has a TLS connection although its certificate is not trusted")
	}
}
