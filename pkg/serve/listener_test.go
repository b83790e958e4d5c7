package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// listen returns a listener on loopback.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start runs a server until the test is over.
func start(t *testing.T, l net.Listener, serve func(context.Context, net.Listener) error) (address string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// hold opens n connections from the loopback address from to address. It writes text to each connection and reads nothing.
func hold(t *testing.T, address, from, text string, n int) []net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	all := make([]net.Conn, 0, n)
	t.Cleanup(func() {
		for _, c := range all {
			c.Close()
		}
	})
	for range n {
		c, err := dialer.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, text) // an error means that the server has closed the connection
		all = append(all, c)
	}
	return all
}

// get sends one GET request on a new connection, and returns the status code and the body.
func get(t *testing.T, url string, header ...string) (code int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never happened: " + what)
		}
	}
}

// isClosed reports whether the server closed a connection. The server must not send data on it.
func isClosed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	var slow net.Error
	return err != nil && (!errors.As(err, &slow) || !slow.Timeout())
}

func TestOneClientLosesItsOwnOldestConnectionsAndNoOtherClientLosesAny(t *testing.T) {
	var closed atomic.Int32
	limited := Limit(listen(t), 8, func() { closed.Add(1) })
	start(t, limited, func(ctx context.Context, l net.Listener) error {
		context.AfterFunc(ctx, func() { l.Close() })
		for {
			if _, err := l.Accept(); err != nil { // accepted connections stay open
				return err
			}
		}
	})
	address := limited.Addr().String()
	// The connection of another client is opened first, so it is the oldest connection.
	neighbor := hold(t, address, "127.0.0.1", "", 1)[0]
	eventually(t, "the first connection is accepted", func() bool { return limited.Open() == 1 })
	greedy := hold(t, address, "127.0.0.2", "", 100)
	eventually(t, "93 connections are closed", func() bool { return closed.Load() == 93 })
	if open := limited.Open(); open != 8 {
		t.Errorf("%d connections are open, the limit is 8", open)
	}
	late := hold(t, address, "127.0.0.3", "", 1)[0]
	eventually(t, "the late client is accepted", func() bool { return closed.Load() == 94 })
	for name, c := range map[string]net.Conn{"the neighbor's": neighbor, "the late client's": late} {
		if isClosed(c) {
			t.Errorf("%s connection was closed because of the client with many connections", name)
		}
	}
	for i, c := range greedy {
		if oldest := i < 94; isClosed(c) != oldest {
			t.Errorf("connection %d of the greedy client: closed %v, want %v", i, !oldest, oldest)
		}
	}
}

func TestAConnectionThatEndsByItselfMakesRoom(t *testing.T) {
	var closed atomic.Int32
	limited := Limit(listen(t), 2, func() { closed.Add(1) })
	address := start(t, limited, func(ctx context.Context, l net.Listener) error {
		return HTTP(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	})
	for range 20 {
		if code, body := get(t, "http://"+address); code != http.StatusOK || body != "hello" {
			t.Fatalf("%d %q", code, body)
		}
		eventually(t, "the connection is gone", func() bool { return limited.Open() == 0 })
	}
	if n := closed.Load(); n != 0 {
		t.Errorf("%d connections were closed although the limit was not reached", n)
	}
}

// While other clients open thousands of connections to the probe port, a probe must get its response.
func TestProbesAreAnsweredWhileThousandsOfConnectionsAreOpened(t *testing.T) {
	ready := errors.New("the caches are not synced")
	address := start(t, listen(t), Probes{Alive: func() error { return nil }, Ready: func() error { return ready }}.Serve)
	for i, text := range []string{"", "GET /healthz HTTP/1.1\r\n", "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx"} {
		hold(t, address, fmt.Sprint("127.0.1.", i+1), text, 1500)
		if code, body := get(t, "http://"+address+"/healthz"); code != http.StatusOK || body != "ok\n" {
			t.Errorf("healthz: %d %q", code, body)
		}
	}
	if code, body := get(t, "http://"+address+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, ready.Error()) {
		t.Errorf("readyz: %d %q", code, body)
	}
	if code, _ := get(t, "http://"+address+"/metrics"); code != http.StatusNotFound {
		t.Errorf("the probe port serves metrics: %d", code)
	}
}

func TestFailedHandshakesAreNotLoggedAndPanicsAre(t *testing.T) {
	var out strings.Builder
	for _, line := range []string{"http: TLS handshake error from 10.0.0.1:1: EOF\n", "http: panic serving 10.0.0.1:1: boom\n"} {
		if n, err := (withoutHandshakes{&out}).Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("%d of %d bytes, %v", n, len(line), err)
		}
	}
	if got := out.String(); got != "http: panic serving 10.0.0.1:1: boom\n" {
		t.Errorf("logged %q", got)
	}
}
