package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/config"
)

func localClient(t *testing.T) *Client {
	t.Helper()
	c, err := NewClient(Config{HTTP: config.DefaultHTTPClientConfig, Guard: Guard{Loopback: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestBodyOverItsLimitIsTruncated(t *testing.T) {
	for size, cut := range map[int]bool{0: false, 99: false, 100: false, 101: true, 10_000: true} {
		address := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", size)) })
		var got []byte
		n, err := localClient(t).Do(t.Context(), Request{URL: address, Bytes: 100}, func(r Answer) (err error) {
			got, err = io.ReadAll(r)
			return err
		})
		if errors.Is(err, ErrTruncated) != cut || (!cut && (err != nil || len(got) != size)) || n > 100 {
			t.Errorf("%d bytes: %d read, %v", size, n, err)
		}
	}
}

func TestTruncationIsReportedWhereTheParserStopsEarly(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "half")
	})
	_, err := localClient(t).Do(t.Context(), Request{URL: address, Bytes: 1 << 20}, func(r Answer) error {
		_, _ = io.ReadAll(r)
		return nil // simulates a parser that ignores read errors
	})
	if !errors.Is(err, ErrTruncated) {
		t.Errorf("%v, want truncated", err)
	}
}

// roundTrip is a function that implements http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// closedBody is a body that returns the same error as the transport when it closes the connection of a request that has ended.
type closedBody struct{ ctx context.Context }

func (b closedBody) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, net.ErrClosed }
func (b closedBody) Close() error             { return nil }

// If the time limit ends while the body is read, the transport closes the connection, and the body may return an error about the closed
// connection. Do must report the time limit as the cause.
func TestTimeThatEndsWithinTheBodyIsReported(t *testing.T) {
	c := &Client{http: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: closedBody{r.Context()}, Request: r}, nil
	})}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Do(ctx, Request{URL: "http://prometheus", Bytes: 100}, func(a Answer) error { _, err := io.ReadAll(a); return err })
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTruncated) {
		t.Errorf("%v, want the time limit", err)
	}
}

func TestStatusErrorReportsTheTimeLimitOfTheServer(t *testing.T) {
	for _, c := range []struct {
		err  StatusError
		want bool
	}{
		{StatusError{503, `{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}`}, true},
		{StatusError{422, `{"status":"error","errorType":"execution","error":"expanding series: context deadline exceeded"}`}, true},
		{StatusError{422, `{"status":"error","errorType":"execution","error":"many-to-many matching not allowed"}`}, false},
		{StatusError{400, `{"status":"error","errorType":"bad_data","error":"context deadline exceeded"}`}, false},
		{StatusError{503, "no endpoints available"}, false},
	} {
		if got := c.err.TimedOut(); got != c.want {
			t.Errorf("%v: %t, want %t", &c.err, got, c.want)
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	for _, code := range []int{301, 302, 303, 307, 308} {
		address := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, code) })
		for _, c := range []*Client{localClient(t), NewPodClient(Guard{Loopback: true})} {
			_, err := c.Do(t.Context(), Request{URL: address, Bytes: 100, Form: url.Values{"query": {"up"}}}, nil)
			var status *StatusError
			if !errors.As(err, &status) || status.Code != code {
				t.Errorf("%d: %v", code, err)
			}
		}
	}
}

func TestFollowRedirectsOfTheConfigurationIsIgnored(t *testing.T) {
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	address := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) })
	h := config.DefaultHTTPClientConfig
	h.FollowRedirects = true
	c, err := NewClient(Config{HTTP: h, Guard: Guard{Loopback: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), Request{URL: address, Bytes: 100}, nil); err == nil {
		t.Error("no error")
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy received a request") })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy)
	}
	for _, c := range []*Client{localClient(t), NewPodClient(Guard{Loopback: true})} {
		// Go never uses a proxy for loopback addresses, so this test needs another address. No server responds at the address 240.0.0.1, so a
		// response could only come from the proxy.
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := c.Do(ctx, Request{URL: "http://240.0.0.1/", Bytes: 100}, func(Answer) error { return nil }); err == nil {
			t.Error("an answer")
		}
	}
}

func TestStatusErrorHasTheStartOfTheBody(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(502)
		_, _ = io.WriteString(w, "<html>\n  bad\x00\xff gateway"+strings.Repeat("x", 10_000))
	})
	_, err := localClient(t).Do(t.Context(), Request{URL: address, Bytes: 100}, nil)
	if err == nil || len(err.Error()) > 600 || !strings.HasPrefix(err.Error(), "status 502: <html> bad") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("%q", err)
	}
}

func TestGuardRefusesAddressesThatNoSourceHas(t *testing.T) {
	for address, loopback := range map[string][2]bool{ // whether the address is permitted: [0] without Guard.Loopback, [1] with Guard.Loopback
		"10.0.0.1": {true, true}, "192.168.1.1": {true, true}, "8.8.8.8": {true, true}, "fd00::1": {true, true}, "2001:db8::1": {true, true},
		"127.0.0.1": {false, true}, "127.255.255.254": {false, true}, "::1": {false, true}, "::ffff:127.0.0.1": {false, true},
		"169.254.169.254": {}, "::ffff:169.254.169.254": {}, "fe80::1": {}, "fe80::1%eth0": {}, "fd00:ec2::254": {},
		"fd20:ce::254": {}, "100.100.100.200": {}, "::ffff:100.100.100.200": {}, "168.63.129.16": {}, "192.0.0.192": {},
		"64:ff9b::a9fe:a9fe": {}, "64:ff9b:1::a83f:8110": {}, "2002:a9fe:a9fe::1": {}, "64:ff9b::7f00:1": {false, true},
		"64:ff9b::a00:1":  {true, true},
		"100.100.100.201": {true, true}, "168.63.129.17": {true, true}, "fd20:ce::255": {true, true},
		"0.0.0.0": {}, "::": {}, "224.0.0.1": {}, "ff02::1": {},
	} {
		a := netip.MustParseAddr(address)
		for i, want := range loopback {
			if got := (Guard{Loopback: i == 1}).Check(a) == nil; got != want {
				t.Errorf("%s with loopback %t: allowed %t", address, i == 1, got)
			}
		}
	}
	if (Guard{Loopback: true}).Check(netip.Addr{}) == nil {
		t.Error("the zero address is allowed")
	}
}

func TestNameThatResolvesToThisMachineIsRefused(t *testing.T) {
	address := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request arrived") })
	c, err := NewClient(Config{HTTP: config.DefaultHTTPClientConfig, Guard: GuardFor("prometheus.monitoring.svc")})
	if err != nil {
		t.Fatal(err)
	}
	// The URL contains the address 127.0.0.1 instead of the configured name, as if the name were resolved to this address. The guard checks
	// only the resolved address.
	_, err = c.Do(t.Context(), Request{URL: address, Bytes: 100}, nil)
	var refused *AddressError
	if !errors.As(err, &refused) {
		t.Errorf("%v, want the address refused", err)
	}
}

func TestConfiguredLoopbackHostIsAllowed(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "prometheus": false,
		"localhost.evil.example": false, "10.0.0.1": false, "": false} {
		if got := GuardFor(host).Loopback; got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}
