package stack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

const pollEvery = 100 * time.Millisecond

// tailLines is what a failed start shows of a log: enough for the last error
// and what led to it.
const tailLines = 30

// poll asks until check returns nil. When ctx ends first, the error is check's
// last one: it says what was still missing.
func poll(ctx context.Context, check func(context.Context) error) error {
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollEvery):
		}
	}
}

// awaitReady polls check while p lives.
func awaitReady(ctx context.Context, p *Process, check func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	err := poll(ctx, check)
	if exited, how := p.Exited(); exited {
		err = errors.Join(errors.New("it ended"), how)
	}
	if err != nil {
		return fmt.Errorf("%s is not ready: %w\n--- the end of %s\n%s", p.Name, err, p.LogPath, p.Tail(tailLines))
	}
	return nil
}

// AwaitReady waits until url answers with status 200. When it does not in time,
// or p ends, the error carries the end of p's log.
func AwaitReady(ctx context.Context, p *Process, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return awaitReady(ctx, p, healthy(url))
}

// Poll asks until check returns nil, or the time is over; then it returns
// check's last error.
func Poll(ctx context.Context, within time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return poll(ctx, check)
}

// healthy returns a check that wants status 200 from url. Certificates are not
// verified: these are this stack's own processes on loopback.
func healthy(url string) func(context.Context) error {
	c := &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := c.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(io.LimitReader(response.Body, 2048)) // only for the message
			return fmt.Errorf("%s: %s: %s", url, response.Status, body)
		}
		return nil
	}
}

// listening returns a check that wants address to accept connections.
func listening(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

// Eventually fails t unless check returns nil before the time is over; what
// says in words what should have become true.
func Eventually(t testing.TB, within time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	if err := Poll(t.Context(), within, check); err != nil {
		t.Fatalf("not within %s: %s: %v", within, what, err)
	}
}

// Always fails t if check returns an error at any time within the span.
func Always(t testing.TB, span time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(pollEvery) {
		if err := check(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
