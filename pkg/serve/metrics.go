package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
)

const (
	// maxMetricsRequests bounds the concurrent requests for metrics. HTTP/2 is off, so that each connection has one request at a time and
	// this is the limit of the connections: a client that opens more closes its own oldest ones, and a scraper from another address is
	// still answered.
	maxMetricsRequests = 64
	// maxSnapshotAge is the greatest age of served metrics. The engine decides once a second.
	maxSnapshotAge = time.Second
)

// Metrics answers with the metrics of its gatherers. It gathers at most once a second, one gatherer after the other, and keeps the result
// as one compressed text that all requests share, so that the cost does not grow with the number of requests. A client that does not read
// keeps a connection and, until its deadline, one old text.
type Metrics struct {
	gatherers []prometheus.Gatherer
	clock     func() time.Time

	mu   sync.Mutex // held while gathering: further requests wait for the same text
	text []byte     // gzip; never changed after it is stored
	at   time.Time
}

// NewMetrics returns a handler for these gatherers, whose metric names must differ. Use a separate gatherer for each large family: one
// scrape needs the memory of the largest gatherer, and not of all of them.
func NewMetrics(clock func() time.Time, gatherers ...prometheus.Gatherer) *Metrics {
	return &Metrics{gatherers: gatherers, clock: clock}
}

// ServeHTTP implements http.Handler for GET and HEAD.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "metrics are read-only", http.StatusMethodNotAllowed)
		return
	}
	text, err := m.snapshot()
	if err != nil {
		http.Error(w, "gather metrics: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(text) // an error means that the client is gone
		return
	}
	plain, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.Copy(w, plain)
}

// snapshot returns the current text, compressed.
func (m *Metrics) snapshot() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	if age := now.Sub(m.at); m.text != nil && age >= 0 && age < maxSnapshotAge {
		return m.text, nil
	}
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	for _, g := range m.gatherers {
		if err := write(compressed, g); err != nil {
			return nil, err
		}
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	m.text, m.at = out.Bytes(), now
	return m.text, nil
}

func write(w io.Writer, g prometheus.Gatherer) error {
	families, err := g.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return fmt.Errorf("metric %s: %w", f.GetName(), err)
		}
	}
	return nil
}

// MetricsServer configures the port of metrics.
type MetricsServer struct {
	Metrics http.Handler
	// Certificate enables TLS; nil: plain text.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Closed is called for each connection that is closed because there are too many; nil: it is not called.
	Closed func()
}

// Serve serves GET /metrics on l until ctx ends.
func (s MetricsServer) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.Metrics)
	l = Limit(l, maxMetricsRequests, s.Closed)
	if s.Certificate != nil {
		l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.Certificate, NextProtos: []string{"http/1.1"}})
	}
	return run(ctx, l, &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout, ReadTimeout: writeTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
	})
}

// Authorized returns a handler that answers only requests with a bearer token that the cluster accepts (TokenReview) and whose user may
// get the path (SubjectAccessReview of the non-resource URL). It needs `create` of tokenreviews and subjectaccessreviews.
//
// For a token that the cluster does not accept, the library answers 500 and not 401. Refusals are not logged, because a client could fill
// the log with them, and Prometheus shows the answer as the target's error.
func Authorized(kube *rest.Config, h http.Handler) (http.Handler, error) {
	client, err := rest.HTTPClientFor(kube)
	if err != nil {
		return nil, fmt.Errorf("authorization of metrics: %w", err)
	}
	filter, err := filters.WithAuthenticationAndAuthorization(kube, client)
	if err != nil {
		return nil, fmt.Errorf("authorization of metrics: %w", err)
	}
	return filter(logr.Discard(), h)
}
