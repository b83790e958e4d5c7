package externalmetrics

import (
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
)

const (
	// maxConnectionAge makes KEDA's one connection look for the leader anew: a Service sends it there only when it connects.
	maxConnectionAge = 5 * time.Minute
	// maxRequestBytes bounds a request: a ScaledObjectRef holds its trigger's metadata and little else.
	maxRequestBytes = 64 << 10
)

// ScalerTLS says how KEDA and we know each other. The zero value is plain text, for loopback and meshes that encrypt themselves.
type ScalerTLS struct {
	CertFile, KeyFile string // our certificate; read again when they change
	// ClientCAFile makes KEDA show a certificate of this CA (mutual TLS); read again at each connection.
	ClientCAFile string
	// ClientNames are the DNS names of which KEDA's certificate must carry one; empty: any certificate of the CA.
	ClientNames []string
}

// ServeScaler answers KEDA until ctx ends.
func ServeScaler(ctx context.Context, l net.Listener, t ScalerTLS, s *Scaler) error {
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: maxConnectionAge, MaxConnectionAgeGrace: 10 * time.Second, Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.MaxRecvMsgSize(maxRequestBytes),
	}
	if t.CertFile != "" {
		config, err := t.config(ctx)
		if err != nil {
			return fmt.Errorf("external scaler: %w", err)
		}
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	} else if t.ClientCAFile != "" {
		return errors.New("external scaler: a client CA needs a certificate of our own too")
	}
	server := grpc.NewServer(options...)
	externalscaler.RegisterExternalScalerServer(server, s)
	defer context.AfterFunc(ctx, server.Stop)() // streams never end by themselves; each answer is small enough to ask again
	if err := server.Serve(l); ctx.Err() == nil {
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
