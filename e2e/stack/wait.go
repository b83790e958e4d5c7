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

// tailLines is the number of log lines in the error about a failed start. It is enough for the last error and its cause.
const tailLines = 30

// poll calls check until it returns nil. If ctx ends first, poll returns the last error of check.
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

// awaitReady calls check until it returns nil. If ctx ends or p exits first, it returns an error with the last part of p's log.
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
		return fmt.Errorf("%s is not ready: %w\n--- end of %s\n%s", p.Name, err, p.LogPath, p.Tail(tailLines))
	}
	return nil
}

// AwaitReady waits until url returns status 200. If url does not return 200 within startWithin, or if p exits, AwaitReady returns an error
// with the last part of p's log.
func AwaitReady(ctx context.Context, p *Process, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return awaitReady(ctx, p, healthy(url))
}

// Poll calls check until check returns nil or the time within has passed. In the second case, Poll returns the last error of check.
func Poll(ctx context.Context, within time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return poll(ctx, check)
}

// healthy returns a check that url returns status 200. It does not verify certificates, because all servers are processes of this stack on
// loopback.
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
			body, _ := io.ReadAll(io.LimitReader(response.Body, 2048)) // the body is part of the error message
			return fmt.Errorf("%s: %s: %s", url, response.Status, body)
		}
		return nil
	}
}

// listening returns a check that address accepts connections.
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

// Eventually fails the test unless check returns nil within the given time. what describes the expected state.
func Eventually(t testing.TB, within time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	if err := Poll(t.Context(), within, check); err != nil {
		t.Fatalf("not within %s: %s: %v", within, what, err)
	}
}

// Always calls check repeatedly for the time span, and fails the test if check returns an error.
func Always(t testing.TB, span time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(pollEvery) {
		if err := check(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
