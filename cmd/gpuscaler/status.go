package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// status answers probes and Prometheus. Liveness follows from the loop; readiness from the caches alone, so that neither a rollout
// of two replicas nor the loss of a data source ever waits for a lease or for somebody else's server.
func (c *controller) status() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{Registry: c.registry}))
	mux.HandleFunc("GET /healthz", probe(func() bool { return c.loop.healthy(time.Now()) }, "the loop stalled"))
	mux.HandleFunc("GET /readyz", probe(c.cluster.Synced, "the caches are not synced"))
	return mux
}

func probe(ok func() bool, otherwise string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if !ok() {
			http.Error(w, otherwise, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// serveHTTP answers on an address until ctx ends, then drains.
func serveHTTP(ctx context.Context, address string, h http.Handler) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return serveOn(ctx, l, h)
}

func serveOn(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	defer context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(drain)
	})()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// policyCollector shows which documents decide as they are written.
type policyCollector struct{ store *policy.Store }

func newPolicyCollector(s *policy.Store) prometheus.Collector { return policyCollector{s} }

var documentState = prometheus.NewDesc("gpuscaler_policy_document", "1 for the state of each document: InForce, Held (its last good version decides) or Refused.",
	[]string{"document", "file", "state"}, nil)

func (p policyCollector) Describe(out chan<- *prometheus.Desc) { out <- documentState }

func (p policyCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range p.store.Statuses() {
		out <- prometheus.MustNewConstMetric(documentState, prometheus.GaugeValue, 1, s.Document, s.File, string(s.State))
	}
}
