// Package history sends queries over time ranges to a Prometheus-compatible server, for reports and lint. It uses Prometheus' own client
// library, which keeps a whole response in memory. Each response is therefore limited in bytes and series, and each query in time. The
// poller uses package promapi instead, which decodes one series of a response after the other.
package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/sigv4"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
)

// Limits contains the limits of one query. For a field that is zero, the default applies.
type Limits struct {
	Bytes  int64         // maximum size of the body after decompression; default 256 MiB
	Series int           // maximum number of series; default 50,000
	Time   time.Duration // time limit of one query; default 2 minutes
}

// Server is one Prometheus-compatible server. It is safe for concurrent use.
type Server struct {
	api     v1.API
	address string // address of the server, for error messages
	limits  Limits

	mu       sync.Mutex
	warnings []string
}

// Open returns the server at address, such as "https://prometheus.example:9090" or a URL with a path prefix. h is Prometheus' own
// configuration of HTTP clients (http_config). Open sends no request.
func Open(address string, h config.HTTPClientConfig, l Limits) (*Server, error) {
	return OpenSigned(address, h, nil, l)
}

// OpenSigned is like Open, but signs the requests for Amazon Managed Service for Prometheus. If sign is nil, the requests are not signed.
func OpenSigned(address string, h config.HTTPClientConfig, sign *sigv4.SigV4Config, l Limits) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("%q is not the address of a Prometheus server: want http://HOST:PORT or https://HOST, with its path if it has one",
			address)
	}
	shown := u.Redacted()
	// Without these parameters, Thanos and VictoriaMetrics return only some of the series while one of their backends fails.
	u.RawQuery = url.Values{"partial_response": {"false"}, "deny_partial_response": {"1"}}.Encode()
	guard := fetch.GuardFor(u.Hostname())
	client, err := config.NewClientFromConfig(h, "gpuscaler", config.WithDialContextFunc(guard.DialContext), config.WithUserAgent("gpuscaler"))
	if err != nil {
		return nil, err
	}
	if sign != nil {
		if client.Transport, err = sigv4.NewSigV4RoundTripper(sign, client.Transport); err != nil {
			return nil, err
		}
	}
	if l.Bytes <= 0 {
		l.Bytes = 256 << 20
	}
	if l.Series <= 0 {
		l.Series = 50_000
	}
	if l.Time <= 0 {
		l.Time = 2 * time.Minute
	}
	client.Transport = &bounded{client.Transport, l.Bytes}
	c, err := api.NewClient(api.Config{Address: u.String(), Client: client})
	if err != nil {
		return nil, err
	}
	return &Server{api: v1.NewAPI(c), address: shown, limits: l}, nil
}

// ErrTooLarge is returned for a response that exceeds the limits. A larger step, a shorter time range or a narrower selector makes the
// response smaller.
var ErrTooLarge = errors.New("the answer exceeds its limit")

// bounded is a transport that accepts compressed responses and limits the size of their bodies, before and after decompression. After the
// given number of bytes, reading a body fails.
type bounded struct {
	next  http.RoundTripper
	bytes int64
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	fetch.AcceptGzip(r.Header)
	response, err := b.next.RoundTrip(r)
	if err == nil {
		received := &boundedReader{response.Body, b.bytes}
		response.Body = &boundedBody{boundedReader{fetch.Gunzip(response.Header, received), b.bytes}, response.Body}
	}
	return response, err
}

type boundedBody struct {
	boundedReader
	io.Closer
}

type boundedReader struct {
	io.Reader
	left int64
}

func (c *boundedReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		// Read one more byte. If there is no further byte, the body ends exactly at the limit and is complete.
		if n, err := c.Reader.Read(p[:min(len(p), 1)]); n == 0 {
			return 0, err
		}
		return 0, ErrTooLarge
	}
	n, err := c.Reader.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// query calls the function f, which sends one query, with the time limit and the options of the server. It returns the response and stores
// the warnings of the response. The parameter what describes the query in error messages.
func query[T any](ctx context.Context, s *Server, what string, f func(context.Context, ...v1.Option) (T, v1.Warnings, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Time)
	defer cancel()
	answer, warnings, err := f(ctx, v1.WithTimeout(s.limits.Time), v1.WithLimit(uint64(s.limits.Series)+1))
	s.mu.Lock()
	for _, w := range warnings {
		if !slices.Contains(s.warnings, w) && len(s.warnings) < 20 {
			s.warnings = append(s.warnings, w)
		}
	}
	s.mu.Unlock()
	return answer, s.explain(err, what)
}

// explain adds the address of the server to an error of the connection, and the query to any other error. It removes the client library's
// text from an error of the connection, because this text repeats the whole encoded query.
func (s *Server) explain(err error, what string) error {
	var transport *url.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &transport):
		return fmt.Errorf("%s does not answer: %w", s.address, transport.Err)
	}
	return fmt.Errorf("%w\nthe query was: %s", err, what)
}

// checkSeries returns an error if n exceeds the limit of series.
func (s *Server) checkSeries(n int, what string) error {
	if n > s.limits.Series {
		return fmt.Errorf("%w: more than %d series\nthe query was: %s", ErrTooLarge, s.limits.Series, what)
	}
	return nil
}

// Range evaluates an expression over a time range.
func (s *Server) Range(ctx context.Context, expr string, r v1.Range) (model.Matrix, error) {
	v, err := query(ctx, s, expr, func(ctx context.Context, o ...v1.Option) (model.Value, v1.Warnings, error) {
		return s.api.QueryRange(ctx, expr, r, o...)
	})
	if err != nil {
		return nil, err
	}
	m, ok := v.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("the answer is a %s, want a matrix\nthe query was: %s", v.Type(), expr)
	}
	return m, s.checkSeries(len(m), expr)
}

// Instant evaluates an expression at the given time.
func (s *Server) Instant(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	v, err := query(ctx, s, expr, func(ctx context.Context, o ...v1.Option) (model.Value, v1.Warnings, error) {
		return s.api.Query(ctx, expr, at, o...)
	})
	if err != nil {
		return nil, err
	}
	vector, ok := v.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("the answer is a %s, want a vector\nthe query was: %s", v.Type(), expr)
	}
	return vector, s.checkSeries(len(vector), expr)
}

// Names returns the names of the metrics that match a selector between from and to.
func (s *Server) Names(ctx context.Context, match string, from, to time.Time) ([]string, error) {
	return s.Values(ctx, model.MetricNameLabel, match, from, to)
}

// Values returns the values of a label of the series that match a selector between from and to. The server reads them from its index
// without reading samples. The result can contain values of series that ended some hours before from.
func (s *Server) Values(ctx context.Context, label, match string, from, to time.Time) ([]string, error) {
	values, err := query(ctx, s, "values of "+label+" of "+match, func(ctx context.Context, o ...v1.Option) (model.LabelValues, v1.Warnings,
		error) {
		return s.api.LabelValues(ctx, label, []string{match}, from, to, o...)
	})
	var out []string
	for _, v := range values {
		out = append(out, string(v))
	}
	return out, err
}

// Series returns the label sets that match a selector between from and to.
func (s *Server) Series(ctx context.Context, match string, from, to time.Time) ([]model.LabelSet, error) {
	sets, err := query(ctx, s, match, func(ctx context.Context, o ...v1.Option) ([]model.LabelSet, v1.Warnings, error) {
		return s.api.Series(ctx, []string{match}, from, to, o...)
	})
	if err != nil {
		return nil, err
	}
	return sets, s.checkSeries(len(sets), match)
}

// Kind returns the type of a metric in the server's metadata, such as "gauge", "counter" or "histogram". It returns "" if the type is not
// known.
func (s *Server) Kind(ctx context.Context, metric string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Time)
	defer cancel()
	all, err := s.api.Metadata(ctx, metric, "1")
	if err != nil || len(all[metric]) == 0 {
		return "", err
	}
	if kind := all[metric][0].Type; kind != v1.MetricTypeUnknown {
		return string(kind), nil
	}
	return "", nil
}

// Version returns the version of the server.
func (s *Server) Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Time)
	defer cancel()
	info, err := s.api.Buildinfo(ctx)
	return info.Version, err
}

// Warnings returns the warnings that the server has sent so far, without duplicates.
func (s *Server) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.warnings)
}
