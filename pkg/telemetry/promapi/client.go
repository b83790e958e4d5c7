// Package promapi sends an instant query to a Prometheus-compatible server. It decodes one series of the response after the other, so that
// the memory that it needs is limited.
package promapi

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
)

// Limits contains the limits of one response. Query returns fetch.ErrTruncated for a response that exceeds a limit, because an incomplete
// response must not be used.
type Limits struct {
	Bytes  int64 // maximum size of the body after decompression
	Series int   // maximum number of elements of the result
	Labels int   // maximum bytes of the label names and values of one series
}

// Client sends queries to one server.
type Client struct {
	http   *fetch.Client
	url    string
	limits Limits
	clock  *fetch.Clock
}

// New returns a client for the server at address, such as "https://prometheus.monitoring.svc:9090" or a URL with a path prefix. clock
// measures the clock of the server, and all clients of one server share it. If clock is nil, the times of samples are not corrected.
func New(c *fetch.Client, address string, l Limits, clock *fetch.Clock) *Client {
	return &Client{http: c, url: strings.TrimRight(address, "/") + "/api/v1/query", limits: l, clock: clock}
}

// With returns a client of the same server with other limits.
func (c *Client) With(l Limits) *Client {
	limited := *c
	limited.limits = l
	return &limited
}

// APIError is an error that the server reports in its response.
type APIError struct{ Type, Message string }

func (e *APIError) Error() string { return fmt.Sprintf("%s: %s", e.Type, e.Message) }

// Query evaluates an expression at the server's current time and calls the function each for every series of the response. It returns the
// number of bytes read. If Query returns an error, the series of the response may be incomplete, so the caller must discard the series that
// the function each received.
func (c *Client) Query(ctx context.Context, expr string, each func(*Series) error) (int64, error) {
	form := url.Values{"query": {expr}}
	// A server that supports the parameter limit returns at most this number of series. For other servers, this client stops at Limits.Series.
	form.Set("limit", strconv.Itoa(c.limits.Series+1))
	// Without these parameters, Thanos and VictoriaMetrics return only some of the series while one of their backends fails.
	form.Set("partial_response", "false")
	form.Set("deny_partial_response", "1")
	if deadline, ok := ctx.Deadline(); ok {
		// The timeout at the server is shorter than the timeout of this client. The server then returns an error that says that the query took
		// too long.
		left := max(time.Until(deadline)*9/10, 100*time.Millisecond)         // may use the clock: computes the server's time limit
		form.Set("timeout", strconv.FormatInt(left.Milliseconds(), 10)+"ms") // whole milliseconds, because Prometheus rejects "1.5s"
	}
	r := fetch.Request{URL: c.url, Form: form, Accept: "application/json", Bytes: c.limits.Bytes, Clock: c.clock}
	return c.http.Do(ctx, r, func(a fetch.Answer) error {
		return Decode(a, c.limits, func(s *Series) error {
			s.Timing = a.Timing
			if s.Valid {
				s.At = a.SampleTime(s.At)
			}
			return each(s)
		})
	})
}

// Close closes idle connections.
func (c *Client) Close() { c.http.Close() }
