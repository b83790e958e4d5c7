package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/visitor"
	"github.com/gpuscaler/gpuscaler/pkg/serve"
)

// maxVisitors is the maximum number of connections to the address at which tenants use the web page. Each connection costs a TLS handshake
// and buffers.
const maxVisitors = 512

// tenantPage configures the address at which the web page is served to clients outside the pod. A client must send a bearer token of the
// cluster, and receives only the namespaces that its permissions allow.
type tenantPage struct {
	address, certFile, keyFile string
}

func (p *tenantPage) check() error {
	if p.address != "" && (p.certFile == "" || p.keyFile == "") {
		return errors.New("--tenant-page-address: tokens must not be sent in plain text; " +
			"use --tenant-page-cert-file and --tenant-page-key-file")
	}
	return nil
}

// serve serves the web page until ctx ends. It reloads the certificate when the files change. It calls the function closed for each
// connection that it closes because there are more than maxVisitors.
func (p *tenantPage) serve(ctx context.Context, closed func(), reviewer *visitor.Reviewer, page http.Handler) error {
	watcher, err := certwatcher.New(p.certFile, p.keyFile)
	if err != nil {
		return fmt.Errorf("--tenant-page-cert-file: %w", err)
	}
	go func() { _ = watcher.Start(ctx) }() // the goroutine ends with ctx
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("--tenant-page-address: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate, NextProtos: []string{"h2", "http/1.1"}}
	return serve.HTTP(ctx, tls.NewListener(serve.Limit(l, maxVisitors, closed), config), reviewer.Authenticate(page))
}

func (c *controller) pageOptions(ctx context.Context) dashboard.Options {
	return dashboard.Options{
		Cluster: c.policies.Platform().Cluster, Done: ctx.Done(),
		Standby: func() bool { return !c.leading() || c.engine.Decisions().LastTick().IsZero() },
		Cost:    c.cost,
		Refused: c.policies.Refusal,
	}
}

// servePages serves the web page until ctx ends. On loopback it trusts every client, because the API server authorizes port-forwards. At
// the address for tenants it requires a token. If no loopback address is configured, every client needs a token.
func (c *controller) servePages(ctx context.Context) error {
	var local net.Listener
	if c.options.pageAddress != "" {
		var err error
		if local, err = serve.ListenLoopback(c.options.pageAddress); err != nil {
			return fmt.Errorf("--page-address: %w; for other clients use --tenant-page-address", err)
		}
	}
	options := c.pageOptions(ctx)
	all, ctx := errgroup.WithContext(ctx)
	var page *dashboard.Page
	if tenants := c.options.tenantPage; tenants.address != "" {
		reviewer, err := visitor.New(c.kube)
		if err != nil {
			return err
		}
		options.Visible = reviewer.Visible
		page = dashboard.NewPage(c.engine.Decisions(), options)
		all.Go(func() error { return tenants.serve(ctx, c.closedConnections("page"), reviewer, page) })
	} else {
		page = dashboard.NewPage(c.engine.Decisions(), options)
	}
	if local != nil {
		all.Go(func() error { return serve.Loopback(ctx, local, visitor.Trusted(page)) })
	}
	all.Go(func() error { sample(ctx, page, time.Now); return nil })
	return all.Wait()
}
