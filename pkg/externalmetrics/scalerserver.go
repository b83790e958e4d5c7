package externalmetrics

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/gpuscaler/gpuscaler/pkg/serve"
)

const (
	// DefaultMaxStreams is the default of MaxStreams. It is enough for 4,000 ScaledObjects, with two streams each. A stream takes about 14
	// KiB of memory.
	DefaultMaxStreams = 8192
	// maxCalls is the maximum number of calls in progress, without streams. It can be low, because the server responds to calls from memory.
	maxCalls = 512
	// maxScalerConnections is the maximum number of connections. KEDA's operator opens one connection for each pair of address and
	// credential in its triggers.
	maxScalerConnections = 64
	// maxConnectionAge is the time after which the server closes a connection. KEDA then connects again through the Service, which selects
	// the current leader.
	maxConnectionAge = 5 * time.Minute
	// handshakeTimeout is the maximum time from accepting a connection to the end of its TLS and HTTP/2 handshakes.
	handshakeTimeout = 10 * time.Second
	// maxRequestBytes is the maximum size of a request. A request consists mainly of the metadata of the trigger.
	maxRequestBytes = 64 << 10
	// maxRequestHeaderBytes is the maximum size of a request's headers, of which KEDA sends a few hundred bytes.
	maxRequestHeaderBytes = 16 << 10
)

// ScalerConfig configures the server of the external scaler.
type ScalerConfig struct {
	TLS ScalerTLS
	// MaxStreams is the maximum number of open streams, summed over all connections; 0 means DefaultMaxStreams. Other calls have a separate
	// limit, so that open streams never prevent KEDA from reading a target.
	MaxStreams int
	// Closed is called for each connection that the server closes because there are too many connections. Refused is called for each call or
	// stream that the server refuses because of a limit. Both functions may be nil.
	Closed, Refused func()
}

// ScalerTLS configures TLS between KEDA and gpuscaler, with client certificates if ClientCAFile is set. The zero value means plain text,
// for loopback and service meshes.
type ScalerTLS struct {
	CertFile, KeyFile string // server certificate; read again when the files change
	// ClientCAFile is the file of the CA that must have signed the client certificate (mutual TLS). It is read again for each connection.
	ClientCAFile string
	// ClientNames are the accepted DNS names of the client certificate; empty: any certificate of the CA is accepted.
	ClientNames []string
}

// ServeScaler serves the external scaler on l until ctx ends.
func ServeScaler(ctx context.Context, l net.Listener, c ScalerConfig, s *Scaler) error {
	limits := newCallLimits(cmp.Or(c.MaxStreams, DefaultMaxStreams), c.Refused)
	options := append(limits.options(),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: maxConnectionAge, MaxConnectionAgeGrace: 10 * time.Second, Time: 30 * time.Second, Timeout: 10 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(handshakeTimeout), grpc.MaxRecvMsgSize(maxRequestBytes), grpc.MaxHeaderListSize(maxRequestHeaderBytes),
	)
	if c.TLS.CertFile != "" {
		config, err := c.TLS.config(ctx)
		if err != nil {
			return fmt.Errorf("external scaler: %w", err)
		}
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	} else if c.TLS.ClientCAFile != "" {
		return errors.New("external scaler: a client CA requires a server certificate and key")
	}
	server := grpc.NewServer(options...)
	externalscaler.RegisterExternalScalerServer(server, s)
	defer context.AfterFunc(ctx, server.Stop)() // not GracefulStop, which would wait for streams forever; KEDA can repeat every call
	if err := server.Serve(serve.Limit(l, maxScalerConnections, c.Closed)); ctx.Err() == nil {
		return fmt.Errorf("external scaler: %w", err)
	}
	return nil
}

func (t *ScalerTLS) config(ctx context.Context) (*tls.Config, error) {
	watcher, err := certwatcher.New(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, err
	}
	go func() { _ = watcher.Start(ctx) }() // the goroutine ends with ctx
	base := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: watcher.GetCertificate}
	if t.ClientCAFile == "" {
		return base, nil
	}
	if _, err := t.clientCAs(); err != nil { // the CA is read for each connection; this call only detects an invalid file at startup
		return nil, err
	}
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cas, err := t.clientCAs()
		if err != nil {
			return nil, err
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS13, GetCertificate: watcher.GetCertificate, NextProtos: []string{"h2"},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: cas, VerifyConnection: t.verifyName,
		}, nil
	}
	return base, nil
}

func (t *ScalerTLS) clientCAs() (*x509.CertPool, error) {
	text, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s contains no certificate", t.ClientCAFile)
	}
	return pool, nil
}

// verifyName rejects a client certificate that has none of the accepted names. The CA alone is not sufficient, because the CA of a cluster
// signs certificates of many clients.
func (t *ScalerTLS) verifyName(c tls.ConnectionState) error {
	if len(t.ClientNames) == 0 {
		return nil
	}
	names := c.PeerCertificates[0].DNSNames
	for _, name := range names {
		if slices.Contains(t.ClientNames, name) {
			return nil
		}
	}
	return fmt.Errorf("client certificate is for %q, want one of %q", names, t.ClientNames)
}
