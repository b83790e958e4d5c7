// Package fetch sends HTTP requests to data sources. Each request has a time limit and a byte limit. The client does not follow redirects
// and does not use a proxy from the environment. It refuses connections to the metadata services of clouds. It also refuses connections to
// loopback addresses, except if the source is configured with a loopback address.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/sigv4"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const userAgent = "gpuscaler"

// maxErrorBody is the number of bytes of an error response that are kept for error messages.
const maxErrorBody = 512

// ErrTruncated is returned for a response body that is longer than its byte limit, or that ends before it is complete.
var ErrTruncated = errors.New("answer truncated: it exceeds its limit of bytes or ended early")

// ErrIncomplete is returned for a response that ends before it is complete, or that the server marks as partial. It wraps ErrTruncated. The
// cause is a failure of the server or of the connection, and not the size of the response.
var ErrIncomplete = fmt.Errorf("%w: incomplete", ErrTruncated)

// StatusError is returned for a response whose status is not 200.
type StatusError struct {
	Code int
	Body string // the first bytes of the response
}

func (e *StatusError) Error() string {
	if e.Code >= 300 && e.Code < 400 {
		return fmt.Sprintf("redirect refused (status %d)", e.Code)
	}
	return fmt.Sprintf("status %d: %s", e.Code, e.Body)
}

// TimedOut reports whether a Prometheus server ended the query because of its time limit. The server reports this with the status 503, or
// with 422 if the time ends while it selects the series.
func (e *StatusError) TimedOut() bool {
	switch e.Code {
	case http.StatusServiceUnavailable, http.StatusUnprocessableEntity, http.StatusGatewayTimeout:
		return strings.Contains(e.Body, `"errorType":"timeout"`) || strings.Contains(e.Body, context.DeadlineExceeded.Error())
	}
	return false
}

// Client sends requests to one source.
type Client struct {
	http *http.Client
}

// Config describes how one source is reached. It uses Prometheus' own configuration types.
type Config struct {
	HTTP  config.HTTPClientConfig // TLS, basic auth, bearer and password files, OAuth2, headers
	SigV4 *sigv4.SigV4Config      // nil: requests are not signed; set for Amazon Managed Service for Prometheus
	Guard Guard
	// Transport answers the requests in a simulation, and HTTP and Guard are then ignored. If it is nil, requests use the network.
	Transport http.RoundTripper
}

// NewClient returns a client for a data source of the PlatformConfig.
func NewClient(c Config) (*Client, error) {
	if c.Transport != nil {
		return &Client{http: &http.Client{Transport: c.Transport, CheckRedirect: refuseRedirect}}, nil
	}
	c.HTTP.FollowRedirects = false
	hc, err := config.NewClientFromConfig(c.HTTP, "gpuscaler", config.WithDialContextFunc(c.Guard.DialContext),
		config.WithUserAgent(userAgent))
	if err != nil {
		return nil, err
	}
	if c.SigV4 != nil {
		if hc.Transport, err = sigv4.NewSigV4RoundTripper(c.SigV4, hc.Transport); err != nil {
			return nil, err
		}
	}
	hc.CheckRedirect = refuseRedirect
	return &Client{http: hc}, nil
}

// refuseRedirect makes the HTTP client return a redirect as the response instead of following it, because credentials must not be sent to
// another server. Client.Do then returns a *StatusError for the redirect.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request is one request with its limits.
type Request struct {
	URL    string
	Form   url.Values // if set, it is sent in a POST request; if nil, the request is a GET request
	Accept string
	Bytes  int64  // greatest size of the body, before and after decompression, > 0
	Clock  *Clock // clock of the source; nil: the times of samples are not corrected
}

// Answer is the body of a response with status 200. Its reader returns at most Request.Bytes bytes, and then ErrTruncated.
type Answer struct {
	io.Reader
	Timing
}

// Timing describes when a response was received, and by how much the timestamps in the response must be corrected.
type Timing struct {
	Skew     time.Duration // how far the clock of the source, which set the timestamps, is ahead of gpuscaler's clock; see Clock
	Received time.Time     // when the headers of the response were received
}

// SampleTime converts the time of a sample in the response to gpuscaler's clock, by subtracting Skew. If the converted time is more than
// scaling.MaxAhead after Received, or not after 1970-01-01, it is unusable and SampleTime returns the zero time. If it is after Received by
// at most scaling.MaxAhead, SampleTime returns Received.
func (t Timing) SampleTime(at time.Time) time.Time {
	at = at.Add(-t.Skew)
	switch {
	case at.After(t.Received.Add(scaling.MaxAhead)), !at.After(time.UnixMilli(0)):
		return time.Time{}
	case at.After(t.Received):
		return t.Received
	}
	return at
}

// Do sends r. If the status of the response is 200, it calls read with the response. For any other status it returns a *StatusError. Do
// also returns the number of bytes read.
func (c *Client) Do(ctx context.Context, r Request, read func(Answer) error) (int64, error) {
	req, err := r.build(ctx)
	if err != nil {
		return 0, err
	}
	sent := time.Now() // may use the clock: the source's clock is compared with gpuscaler's clock
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	received := &bounded{r: resp.Body, left: r.Bytes}
	body := &bounded{r: Gunzip(resp.Header, received), left: r.Bytes}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(body, maxErrorBody))
		return int64(len(text)), &StatusError{Code: resp.StatusCode, Body: oneLine(text)}
	}
	answer := Answer{Reader: body, Timing: Timing{Received: time.Now()}} // may use the clock: the source's clock is compared with gpuscaler's
	if r.Clock != nil {
		answer.Skew = r.Clock.Observe(resp.Header, sent, answer.Received)
	}
	err = read(answer)
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.Join(err, body.failed)
	}
	switch {
	case body.over, received.over: // read may have returned a syntax error, but its cause is the exceeded limit
		err = fmt.Errorf("%w after %d bytes", ErrTruncated, body.n)
	case err != nil && ctx.Err() != nil: // the time limit closed the connection, so read may have returned any error
		err = fmt.Errorf("%w after %d bytes: %w", ctx.Err(), body.n, err)
	case body.ended, errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("%w after %d bytes", ErrIncomplete, body.n)
	}
	return body.n, err
}

func (r Request) build(ctx context.Context) (*http.Request, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if r.Form != nil {
		method, body = http.MethodPost, strings.NewReader(r.Form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL, body)
	if err != nil {
		return nil, err
	}
	if r.Form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	AcceptGzip(req.Header)
	if r.Accept != "" {
		req.Header.Set("Accept", r.Accept)
	}
	return req, nil
}

// bounded reads at most left bytes, and returns an error if the body has more bytes. io.LimitReader would return io.EOF at the limit, so a
// truncated response would look like a complete one.
type bounded struct {
	r      io.Reader
	left   int64
	n      int64
	over   bool  // the body has more bytes than the limit
	ended  bool  // the body ended before it was complete
	failed error // error of the transport other than io.EOF
}

// Bound returns a reader of at most n bytes of r. If r has more bytes, the reader returns ErrTruncated.
func Bound(r io.Reader, n int64) io.Reader { return &bounded{r: r, left: n} }

func (b *bounded) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	// One byte more than the limit is read, so that a body with exactly as many bytes as the limit is accepted.
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if int64(n) > b.left {
		n, err, b.over = int(b.left), ErrTruncated, true
	}
	b.left -= int64(n)
	b.n += int64(n)
	if err != nil && err != io.EOF {
		b.failed = err
		if errors.Is(err, io.ErrUnexpectedEOF) {
			b.ended = true
		}
	}
	return n, err
}

func oneLine(b []byte) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(b), "?")), " ")
}
