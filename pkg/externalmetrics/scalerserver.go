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
	// DefaultMaxStreams is enough for 4,000 ScaledObjects. A stream takes about 14 KiB.
	DefaultMaxStreams = 8192
	// maxCalls bounds the calls in progress that are not streams. Each is answered from memory.
	maxCalls = 512
	// maxScalerConnections bounds the connections. KEDA's operator opens one for each address and credential of its triggers.
	maxScalerConnections = 64
	// maxConnectionAge makes KEDA connect again, so that its connection finds the present leader behind the Service.
	maxConnectionAge = 5 * time.Minute
	// handshakeTimeout bounds the time from accepting a connection to the end of its TLS and HTTP/2 handshakes.
	handshakeTimeout = 10 * time.Second
	// maxRequestBytes bounds a request: a ScaledObjectRef holds its trigger's metadata and little else.
	maxRequestBytes = 64 << 10
	// maxRequestHeaderBytes bounds a request's headers, of which KEDA sends a few hundred bytes.
	maxRequestHeaderBytes = 16 << 10
)

// ScalerConfig says how the external scaler is served.
type ScalerConfig struct {
	TLS ScalerTLS
	// MaxStreams bounds the open streams of all connections together; 0: DefaultMaxStreams. Calls that are not streams have a limit of
	// their own, so streams never keep KEDA from reading a target.
	MaxStreams int
	// Closed is called for each connection that is closed because there are too many, Refused for each call or stream that is refused;
	// nil: not called.
	Closed, Refused func()
}

// ScalerTLS says how KEDA and we know each other. The zero value is plain text, for loopback and meshes that encrypt themselves.
type ScalerTLS struct {
	CertFile, KeyFile string // our certificate; read again when they change
	// ClientCAFile makes KEDA show a certificate of this CA (mutual TLS); read again at each connection.
	ClientCAFile string
	// ClientNames are the DNS names of which KEDA's certificate must carry one; empty: any certificate of the CA.
	ClientNames []string
}

// ServeScaler answers KEDA until ctx ends.
func ServeScaler(ctx context.Context, l net.Listener, c ScalerConfig, s *Scaler) error {
	limits := newCallLimits(cmp.Or(c.MaxStreams, DefaultMaxStreams), c.Refused)
	options := append(limits.options(),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: maxConnectionAge, MaxConnectionAgeGrace: 10 * time.Second, Time: 30 * time.Second, Timeout: 10 * time.Second}),
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
		return errors.New("external scaler: a client CA needs a certificate of our own too")
	}
	server := grpc.NewServer(options...)
	externalscaler.RegisterExternalScalerServer(server, s)
	defer context.AfterFunc(ctx, server.Stop)() // streams never end by themselves; each answer is small enough to ask again
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
	go func() { _ = watcher.Start(ctx) }() // it ends with ctx
	base := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: watcher.GetCertificate}
	if t.ClientCAFile == "" {
		return base, nil
	}
	if _, err := t.clientCAs(); err != nil { // refuse at the start what could not work later
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
		return nil, fmt.Errorf("%s holds no certificate", t.ClientCAFile)
	}
	return pool, nil
}

// verifyName refuses a client that the CA knows under another name: a cluster's CA signs for many.
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
