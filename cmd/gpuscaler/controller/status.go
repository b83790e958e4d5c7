package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/metrics"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/serve"
)

// metricsPort configures the port of /metrics.
type metricsPort struct {
	address           string
	certFile, keyFile string
	// authorization is true if a client must send a bearer token whose user may get /metrics in the cluster.
	authorization bool
}

func (p *metricsPort) check() error {
	switch {
	case (p.certFile == "") != (p.keyFile == ""):
		return errors.New("--metrics-tls-cert-file and --metrics-tls-private-key-file: use both or neither")
	case p.authorization && p.certFile == "":
		return errors.New("--metrics-authorization: bearer tokens must not be sent in plain text; use --metrics-tls-cert-file and " +
			"--metrics-tls-private-key-file")
	}
	return nil
}

// serve serves /metrics until ctx ends. It reloads the certificate when the files change.
func (p *metricsPort) serve(ctx context.Context, c *controller) error {
	server := serve.MetricsServer{Metrics: serve.NewMetrics(time.Now, c.gatherers()...), Closed: c.closedConnections("metrics")}
	if p.certFile != "" {
		watcher, err := certwatcher.New(p.certFile, p.keyFile)
		if err != nil {
			return fmt.Errorf("--metrics-tls-cert-file: %w", err)
		}
		go func() { _ = watcher.Start(ctx) }() // the goroutine ends with ctx
		server.Certificate = watcher.GetCertificate
	}
	if p.authorization {
		var err error
		if server.Metrics, err = serve.Authorized(c.kube, server.Metrics); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("--metrics-address: %w", err)
	}
	return server.Serve(ctx, l)
}

// gatherers returns the process's registry and the registries in c.families. A scrape reads one registry after the other, so that the
// series of all registries are not in memory at the same time.
func (c *controller) gatherers() []prometheus.Gatherer {
	all := []prometheus.Gatherer{c.registry}
	for _, r := range c.families {
		all = append(all, r)
	}
	return all
}

// registerFamilies creates a separate registry for each collector whose number of series grows with the number of policies.
func (c *controller) registerFamilies() {
	decisions := c.engine.Decisions()
	disabled := func() []string {
		if !c.leading() {
			return nil // only the leader exports the metrics of groups
		}
		return c.disabledGroups()
	}
	all := append(metrics.NewPolicyCollectors(decisions), metrics.NewGroupCollector(decisions, disabled),
		metrics.NewTeamCollector(decisions), newPolicyCollector(c.policies), c.spending)
	for _, collector := range all {
		family := prometheus.NewRegistry()
		family.MustRegister(collector)
		c.families = append(c.families, family)
	}
}

// closedConnections returns a function that increments the counter of closed connections of a port. A server calls the function for each
// connection that it closes because the port has too many connections.
func (c *controller) closedConnections(port string) func() { return c.closed.WithLabelValues(port).Inc }

func newClosedConnections(r prometheus.Registerer) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuscaler_connections_closed_total",
		Help: "Connections that were closed because their port had too many, by port. The oldest ones of the client address with the most " +
			"are closed.",
	}, []string{"port"})
	r.MustRegister(v)
	return v
}

func newRefusedCalls(r prometheus.Registerer) prometheus.Counter {
	n := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gpuscaler_scaler_calls_refused_total",
		Help: "Calls and streams of KEDA that were refused because too many were open: raise --scaler-max-streams to twice the number of " +
			"ScaledObjects.",
	})
	r.MustRegister(n)
	return n
}

// serveProbes serves the kubelet's probes until ctx ends. The liveness probe fails if the loop stalled. The readiness probe fails while
// ready returns an error.
func (c *controller) serveProbes(ctx context.Context) error {
	l, err := net.Listen("tcp", c.options.probeAddress)
	if err != nil {
		return fmt.Errorf("--probe-address: %w", err)
	}
	return c.probes().Serve(ctx, l)
}

func (c *controller) probes() serve.Probes { return serve.Probes{Alive: c.alive, Ready: c.ready} }

func (c *controller) alive() error {
	if !c.loop.healthy(time.Now()) {
		return errors.New("the control loop has stalled: no tick has finished recently")
	}
	return nil
}

// policyCollector exports the state of each policy document.
type policyCollector struct{ store *store.Store }

func newPolicyCollector(s *store.Store) prometheus.Collector { return policyCollector{s} }

var documentState = prometheus.NewDesc("gpuscaler_policy_document",
	"1 for the state of each document: InForce, LastValid (its last valid version is in force) or Refused.",
	[]string{"document", "file", "state"}, nil)

func (p policyCollector) Describe(out chan<- *prometheus.Desc) { out <- documentState }

func (p policyCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range p.store.Statuses() {
		out <- prometheus.MustNewConstMetric(documentState, prometheus.GaugeValue, 1, s.Document, s.File, string(s.State))
	}
}
