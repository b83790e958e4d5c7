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
	// maxMetricsRequests is the maximum number of concurrent requests for metrics. It is the limit of connections, because without HTTP/2 each
	// connection has one request at a time. If a client opens more connections, the server closes the oldest connections of this client, so
	// that a scraper from another address gets its response.
	maxMetricsRequests = 64
	// maxSnapshotAge is the maximum age of the metrics in a response. The engine makes decisions once a second, so fresher metrics would
	// contain no newer decision.
	maxSnapshotAge = time.Second
)

// Metrics is an HTTP handler that serves the metrics of its gatherers. It gathers at most once a second, one gatherer after the other, and
// keeps the result as one compressed text for all requests. CPU time and memory therefore do not grow with the number of requests. A client
// that does not read its response occupies a connection and, until the write deadline, keeps one old text in memory.
type Metrics struct {
	gatherers []prometheus.Gatherer
	clock     func() time.Time

	mu   sync.Mutex // locked while metrics are gathered, so that further requests wait for the same text
	text []byte     // compressed with gzip; not changed after it is stored
	at   time.Time
}

// NewMetrics returns a handler for the given gatherers. Two gatherers must not have metrics of the same name. Use a separate gatherer for
// each large metric family: the gatherers run one after the other, so that a scrape uses only the memory of the largest gatherer.
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
		_, _ = w.Write(text) // an error means that the client has closed the connection
		return
	}
	plain, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.Copy(w, plain)
}

// snapshot returns the metrics as compressed text. It gathers them again if the last text is older than maxSnapshotAge.
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

// MetricsServer is the configuration of the metrics port.
type MetricsServer struct {
	Metrics http.Handler
	// Certificate returns the TLS certificate; if it is nil, the port uses plain HTTP.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Closed is called for each connection that the server closes because of the limit of connections. It may be nil.
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

// Authorized returns a handler that serves only requests with a valid bearer token (TokenReview) whose user may get the path
// (SubjectAccessReview of the non-resource URL). gpuscaler needs the permission to create tokenreviews and subjectaccessreviews.
//
// For an invalid token, the library responds with status 500 and not 401. The handler does not log refused requests, because a client could
// fill the log with them. Prometheus shows the status as the error of the scrape target.
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
