package controller

import (
	"context"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/serve"
)

func (c *controller) certificate() (externalmetrics.Certificate, error) {
	if c.options.certFile != "" {
		return externalmetrics.FileCertificate(c.options.certFile, c.options.keyFile)
	}
	service := c.options.service + "." + c.options.namespace + ".svc"
	return externalmetrics.SelfSigned(service, c.options.service+"."+c.options.namespace, "localhost")
}

// registration returns the manager of the APIService that routes the requests of HPAs to gpuscaler's Service.
func (c *controller) registration(certificate externalmetrics.Certificate) (*apiservice.Guard, error) {
	o := c.options
	return apiservice.New(c.kube, apiservice.Options{
		Mode: apiservice.Mode(o.externalMetrics), Service: types.NamespacedName{Namespace: o.namespace,
			Name: o.service}, Port: o.servicePort,
		CABundle: certificate.Bundle(o.caFile), Registered: certificate.Trusted, OwnerRole: o.ownerRole, Leading: c.leading,
		Instance: o.pod, ClusterName: c.clusterName, Log: c.log, Metrics: c.registry,
	})
}

// maxAPIConnections is the maximum number of connections to the external metrics API. Each API server needs a few, over which it sends all
// its requests.
const maxAPIConnections = 256

func (c *controller) serveMetrics(ctx context.Context, l net.Listener, certificate externalmetrics.Certificate) error {
	server, err := externalmetrics.NewServer(externalmetrics.ServerConfig{
		Listener: serve.Limit(l, maxAPIConnections, c.closedConnections("external-metrics")), Certificate: certificate,
		Kubeconfig: c.options.kubeconfig, Standby: func() bool { return !c.leading() },
		Explain: dashboard.NewAPI(c.engine.Decisions(), c.pageOptions(ctx)).Handler,
	}, externalmetrics.NewProvider(c.engine.Decisions(), time.Now))
	if err != nil {
		return err
	}
	c.metrics.Store(server)
	return server.Run(ctx)
}

func (c *controller) serveScaler(ctx context.Context) error {
	l, err := net.Listen("tcp", c.options.scalerAddress)
	if err != nil {
		return fmt.Errorf("external scaler: %w", err)
	}
	return externalmetrics.ServeScaler(ctx, l, externalmetrics.ScalerConfig{
		TLS: c.options.scalerTLS, MaxStreams: c.options.scalerMaxStreams, Closed: c.closedConnections("scaler"), Refused: c.refusedCalls.Inc,
	}, externalmetrics.NewScaler(c.engine.Decisions(), time.Now))
}
