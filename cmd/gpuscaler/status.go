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

// status answers probes and Prometheus. Liveness follows from the loop, readiness from what the API server has told us.
func (c *controller) status() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{Registry: c.registry}))
	mux.HandleFunc("GET /healthz", probe(c.alive))
	mux.HandleFunc("GET /readyz", probe(c.ready))
	return mux
}

func (c *controller) alive() error {
	if !c.loop.healthy(time.Now()) {
		return errors.New("the loop stalled")
	}
	return nil
}

func probe(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
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
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
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
