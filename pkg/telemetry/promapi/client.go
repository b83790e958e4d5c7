// Package promapi asks a Prometheus-compatible server one instant query and hands over the answer series by series, in bounded memory.
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

// Limits bound one answer. An answer over any of them is fetch.ErrTruncated: half an answer is no answer.
type Limits struct {
	Bytes  int64 // of the decompressed body
	Series int   // elements of the result
	Labels int   // bytes of one series' label names and values together
}

// Client asks one server.
type Client struct {
	http   *fetch.Client
	url    string
	limits Limits
	clock  *fetch.Clock
}

// New returns a client for the server at address, e.g. "https://prometheus.monitoring.svc:9090" or a URL with a path prefix. clock is
// the server's, shared by all who ask it; nil takes its times as they are.
func New(c *fetch.Client, address string, l Limits, clock *fetch.Clock) *Client {
	return &Client{http: c, url: strings.TrimRight(address, "/") + "/api/v1/query", limits: l, clock: clock}
}

// With returns a client of the same server whose answers have these limits.
func (c *Client) With(l Limits) *Client {
	limited := *c
	limited.limits = l
	return &limited
}

// APIError is an error that the server itself answered.
type APIError struct{ Type, Message string }

func (e *APIError) Error() string { return fmt.Sprintf("%s: %s", e.Type, e.Message) }

// Query asks expr at the server's own present and calls each for every series of the answer. What each has seen is void when Query
// returns an error. It returns the bytes that were read.
func (c *Client) Query(ctx context.Context, expr string, each func(*Series) error) (int64, error) {
	form := url.Values{"query": {expr}}
	// A server that knows the parameter stops early; the count below is what holds.
	form.Set("limit", strconv.Itoa(c.limits.Series+1))
	// Thanos and VictoriaMetrics answer with what is left of a broken fan-out unless told not to: half the pods would seem idle.
	form.Set("partial_response", "false")
	form.Set("deny_partial_response", "1")
	if deadline, ok := ctx.Deadline(); ok {
		// The server stops before this client does, so that its answer says that the query was too expensive.
		left := max(time.Until(deadline)*9/10, 100*time.Millisecond)         // I/O edge: the server's own time-out
		form.Set("timeout", strconv.FormatInt(left.Milliseconds(), 10)+"ms") // whole: Prometheus refuses "1.5s"
	}
	return c.http.Do(ctx, fetch.Request{URL: c.url, Form: form, Accept: "application/json", Bytes: c.limits.Bytes, Clock: c.clock}, func(a fetch.Answer) error {
		return Decode(a, c.limits, func(s *Series) error {
			s.Timing = a.Timing
			if s.Valid {
				s.At = a.SampleTime(s.At)
			}
			return each(s)
		})
	})
}

// Close drops idle connections.
func (c *Client) Close() { c.http.Close() }
