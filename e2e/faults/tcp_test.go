package faults_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/faults"
)

// network is a client of a server behind a TCP proxy.
type network struct {
	t      *testing.T
	proxy  *faults.TCP
	client *http.Client
}

func newNetwork(t *testing.T) network {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	t.Cleanup(server.Close)
	proxy, err := faults.NewTCP(t.Context(), "127.0.0.1:0", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return network{t, proxy, &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{}}}
}

// get returns the body of a response, or the error.
func (n network) get() string {
	response, err := n.client.Get("http://" + n.proxy.Address)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func (n network) has(text, during string) {
	n.t.Helper()
	if got := n.get(); !strings.Contains(got, text) {
		n.t.Errorf("%s: got %q, want %q", during, got, text)
	}
}

func (n network) repaired() {
	n.t.Helper()
	if err := n.proxy.Repair(); err != nil {
		n.t.Fatal(err)
	}
	n.client.CloseIdleConnections()
	n.has("served", "after the repair")
}

func TestNetworkFailsAndIsRepaired(t *testing.T) {
	n := newNetwork(t)
	n.has("served", "without a failure")

	n.proxy.Refuse()
	n.has("refused", "while connections are refused")
	n.repaired()

	n.proxy.Drop()
	n.has("Timeout", "while packets are dropped")
	n.repaired()

	n.proxy.Answer(func(c net.Conn) { _, _ = io.WriteString(c, "-LOADING\r\n") })
	n.has("malformed", "while another server answers")
	n.repaired()

	n.proxy.Delay(200 * time.Millisecond)
	began := time.Now()
	n.has("served", "while packets are delayed")
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("the request took %s, want the latency for both directions", took)
	}
	n.repaired()
}

// A request that was sent while packets were dropped must get its response after the repair, because TCP repeats lost packets.
func TestDroppedPacketsArriveAfterTheRepair(t *testing.T) {
	n := newNetwork(t)
	n.proxy.Drop()
	n.client.Timeout = time.Minute
	answers := make(chan string)
	go func() { answers <- n.get() }()
	time.Sleep(200 * time.Millisecond)
	if err := n.proxy.Repair(); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; got != "served" {
		t.Errorf("got %q, want the answer", got)
	}
}

// If no server listens at the target, the proxy must reset connections.
func TestNoServerBehindTheProxy(t *testing.T) {
	proxy, err := faults.NewTCP(context.Background(), "127.0.0.1:0", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	n := network{t, proxy, &http.Client{Timeout: 2 * time.Second}}
	if got := n.get(); strings.Contains(got, "Timeout") {
		t.Errorf("got %q, want a closed connection", got)
	}
	proxy.Refuse()
}
