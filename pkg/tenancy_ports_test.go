package pkg_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/util/cert"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/metrics"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/serve"
)

// onLoopback runs a server until the end of the test.
func onLoopback(t *testing.T, run func(context.Context, net.Listener) error) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, l) }()
	t.Cleanup(func() { stop(); <-ended })
	return l.Addr().String()
}

// occupy opens connections from a separate address, sends text over each, and reads nothing.
func occupy(t *testing.T, address, text string, n int) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range n {
		c, err := dialer.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, text) // an error means that the server closed this connection to accept a new one
	}
}

// ports returns the attacks on the ports of metrics and probes. The metrics are served in plain text, as in the chart's defaults, and also
// with TLS and authorization.
func ports(t *testing.T) entrance {
	registry := prometheus.NewRegistry()
	for _, c := range metrics.NewPolicyCollectors(newDecisions()) {
		registry.MustRegister(c)
	}
	var closed, gathered atomic.Int32
	metrics := serve.NewMetrics(func() time.Time { return hostileNoon }, counting{registry, &gathered})
	open := onLoopback(t, serve.MetricsServer{Metrics: metrics, Closed: func() { closed.Add(1) }}.Serve)
	guarded, err := serve.Authorized(newCluster(t), metrics)
	if err != nil {
		t.Fatal(err)
	}
	pem, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(pem, key)
	if err != nil {
		t.Fatal(err)
	}
	closedPort := onLoopback(t, serve.MetricsServer{Metrics: guarded,
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }}.Serve)
	fine := func() error { return nil }
	probes := onLoopback(t, serve.Probes{Alive: fine, Ready: fine}.Serve)
	client := &http.Client{Timeout: 8 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ask := func(url string, edit ...func(*http.Request)) string {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range edit {
			e(r)
		}
		answer, err := client.Do(r)
		if err != nil {
			return "the connection is closed"
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		text := answer.Status
		if n := strings.Count(string(body), "\ngpuscaler_policy_target_not_found{"); n > 0 {
			text += fmt.Sprintf(", %d policies", n)
		}
		return text
	}
	try := func(url string, edit ...func(*http.Request)) func(*testing.T) string {
		return func(*testing.T) string { return ask(url, edit...) }
	}
	token := func(name string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+name) }
	}
	const kept = 64
	return entrance{"The ports of metrics and probes", "Clients that reach a port.", []attempt{
		{"4,000 requests for metrics whose answers they never read", "", "the scraper gets 200 OK, 3 policies", func(t *testing.T) string {
			const attempts = 4000
			occupy(t, open, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", attempts)
			scraper := ask("http://" + open + "/metrics")
			deadline := time.Now().Add(30 * time.Second)
			for closed.Load() < attempts-kept && time.Now().Before(deadline) {
				time.Sleep(5 * time.Millisecond)
			}
			return fmt.Sprintf("%d connections stay open, the metrics are gathered %d times, the scraper gets %s",
				max(kept, attempts-int(closed.Load())), gathered.Load(), scraper)
		}},
		{"4,000 connections to the port of metrics, for a late liveness probe", "", "200 OK", func(t *testing.T) string {
			occupy(t, open, "", 4000)
			return "the kubelet gets " + ask("http://"+probes+"/healthz")
		}},
		{"4,000 connections to the port of probes", "", "200 OK", func(t *testing.T) string {
			occupy(t, probes, "GET /healthz HTTP/1.1\r\nX-Slow: ", 4000)
			return "the kubelet gets " + ask("http://"+probes+"/healthz")
		}},
		{"metrics on the port of probes", "", "404", try("http://" + probes + "/metrics")},
		{"probes on the port of metrics", "", "404", try("http://" + open + "/healthz")},
		{"the profiler", "CVE-2019-11248 (kubelet)", "404", try("http://" + open + "/debug/pprof/heap")},
		{"a change of the metrics by POST", "", "405", try("http://"+open+"/metrics", func(r *http.Request) { r.Method = http.MethodPost })},
		{"a header of a megabyte", "", "431", try("http://"+open+"/metrics", func(r *http.Request) {
			r.Header.Set("X-Long", strings.Repeat("x", 1<<20))
		})},
		{"metrics without a token, where one is required", "", "401", try("https://" + closedPort + "/metrics")},
		{"metrics with a made-up token", "", "500", try("https://"+closedPort+"/metrics", token("x"))},
		{"metrics with a tenant's token", "", "403", try("https://"+closedPort+"/metrics", token("anna"))},
		{"metrics in plain text, where a token is required", "", "400", try("http://"+closedPort+"/metrics", token("anna"))},
	}}
}

// counting is a gatherer that counts how often metrics are gathered.
type counting struct {
	prometheus.Gatherer
	n *atomic.Int32
}

func (c counting) Gather() (families []*dto.MetricFamily, err error) {
	c.n.Add(1)
	return c.Gatherer.Gather()
}

// streams returns attacks that open many calls and streams to exhaust the memory of KEDA's external scaler. The scaler's limits are lower
// than in the chart, so that the test is fast.
func streams(t *testing.T) []attempt {
	const limit = 100
	var refused, closed atomic.Int32
	address := onLoopback(t, func(ctx context.Context, l net.Listener) error {
		c := externalmetrics.ScalerConfig{MaxStreams: limit, Closed: func() { closed.Add(1) }, Refused: func() { refused.Add(1) }}
		return externalmetrics.ServeScaler(ctx, l, c, externalmetrics.NewScaler(newDecisions(), func() time.Time { return hostileNoon }))
	})
	connect := func(t *testing.T) externalscaler.ExternalScalerClient {
		connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		return externalscaler.NewExternalScalerClient(connection)
	}
	chat := &externalscaler.ScaledObjectRef{Namespace: "team-chat", Name: "llama"}
	reads := func(t *testing.T) string {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		answer, err := connect(t).GetMetrics(ctx, &externalscaler.GetMetricsRequest{MetricName: externalmetrics.MetricName,
			ScaledObjectRef: chat})
		if err != nil {
			return "KEDA gets " + status.Code(err).String()
		}
		return fmt.Sprintf("KEDA reads %v", answer.GetMetricValues()[0].GetMetricValue())
	}
	return []attempt{
		{"5,000 streams at once", "", "4900 of 5000 are refused, KEDA reads", func(t *testing.T) string {
			client := connect(t)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			ended := make(chan codes.Code, 5000)
			for range cap(ended) {
				stream, err := client.StreamIsActive(ctx, chat)
				if err != nil {
					t.Fatal(err)
				}
				go func() { // an accepted stream receives messages until ctx ends; Recv fails at once on a refused stream
					_, err := stream.Recv()
					for err == nil {
						_, err = stream.Recv()
					}
					ended <- status.Code(err)
				}()
			}
			n := 0
			for range cap(ended) - limit {
				if <-ended == codes.ResourceExhausted {
					n++
				}
			}
			if counted := int(refused.Load()); counted != n {
				return fmt.Sprintf("%d refusals are counted, but %d streams are refused", counted, n)
			}
			return fmt.Sprintf("%d of 5000 are refused, %s", n, reads(t))
		}},
		{"4,000 connections that never speak", "", "KEDA reads", func(t *testing.T) string {
			occupy(t, address, "", 4000)
			deadline := time.Now().Add(30 * time.Second)
			for closed.Load() < 4000-64 && time.Now().Before(deadline) {
				time.Sleep(5 * time.Millisecond)
			}
			if n := closed.Load(); n < 4000-64 {
				return fmt.Sprintf("%d connections are open", 4000-n)
			}
			return "at most 64 connections stay open, " + reads(t)
		}},
		{"request headers of a megabyte", "", "KEDA reads", func(t *testing.T) string {
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "x-long", strings.Repeat("x", 1<<20)), 8*time.Second)
			defer cancel()
			_, err := connect(t).IsActive(ctx, chat)
			return status.Code(err).String() + ", " + reads(t)
		}},
	}
}
