package pkg_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
)

// serveMetrics starts the server of the external metrics API with delegated authentication and authorization, and returns its address.
func serveMetrics(t *testing.T) (address string) {
	t.Helper()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], users: [{name: `+
		`u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`, newCluster(t).Host)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := externalmetrics.SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	decisions, clock := newDecisions(), func() time.Time { return hostileNoon }
	server, err := externalmetrics.NewServer(externalmetrics.ServerConfig{
		Listener: l, Certificate: certificate, Kubeconfig: file, Explain: dashboard.NewAPI(decisions, dashboard.Options{Clock: clock}).Handler,
	}, externalmetrics.NewProvider(decisions, clock))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return l.Addr().String()
}

func metricsAPI(t *testing.T) entrance {
	address := serveMetrics(t)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(client.CloseIdleConnections)
	const group = "/apis/external.metrics.k8s.io/v1beta1"
	ask := func(path string, edit ...func(*http.Request)) func(*testing.T) string {
		return func(t *testing.T) string {
			return cheaply(t, func() string {
				r, err := http.NewRequest(http.MethodGet, "https://"+address+"/", nil)
				if err != nil {
					t.Fatal(err)
				}
				r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
				if strings.Contains(r.URL.Path, "%") || strings.Contains(r.URL.Path, "..") { // send the path unchanged; a client would normalize it
					r.URL.Opaque = "//" + address + r.URL.Path
				}
				r.Header.Set("Authorization", "Bearer anna")
				for _, e := range edit {
					e(r)
				}
				answer, err := client.Do(r)
				if err != nil {
					return "the connection is closed"
				}
				defer answer.Body.Close()
				body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
				if to := answer.Header.Get("Location"); to != "" && !strings.HasPrefix(to, "/apis/") {
					t.Errorf("redirected to %s", to)
				}
				text := answer.Status
				if strings.Contains(string(body), `"value":"`) {
					text += ", a value"
				}
				for _, namespace := range []string{"team-chat", "team-code"} {
					if strings.Contains(string(body), `"policy": "`+namespace+"/") {
						text += ", explains " + namespace
					}
				}
				if _, message, ok := strings.Cut(string(body), `"message":"`); ok {
					message, _, _ = strings.Cut(message, `","`)
					text += ": " + message
				}
				return text
			})
		}
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	method := func(name string) func(*http.Request) { return func(r *http.Request) { r.Method = name } }
	read := func(namespace, selector string) string {
		return group + "/namespaces/" + namespace + "/gpuscaler-desired-replicas?labelSelector=" + url.QueryEscape(selector)
	}
	own := read("team-chat", "gpuscaler.io/policy=llama")
	return entrance{"The external metrics API", "A user who may only list the metric in team-chat, " +
		"and clients that reach the port.", []attempt{
		{"their own number", "", "200 OK, a value", ask(own)},
		{"without a token", "", "403", ask(own, func(r *http.Request) { r.Header.Del("Authorization") })},
		{"a made-up token", "", "401", ask(own, header("Authorization", "Bearer x"))},
		{"the front proxy's headers, without its certificate", "CVE-2018-1002105 (Kubernetes)", "403", ask(own, func(r *http.Request) {
			r.Header.Del("Authorization")
			r.Header.Set("X-Remote-User", "anna")
			r.Header.Set("X-Remote-Group", "system:masters")
		})},
		{"another namespace", "", "403", ask(read("team-code", "gpuscaler.io/policy=codestral"))},
		{"every namespace", "", "403", ask(read("*", "gpuscaler.io/policy=llama"))},
		{"no namespace", "", "403", ask(group + "/gpuscaler-desired-replicas?labelSelector=gpuscaler.io%2Fpolicy%3Dcodestral")},
		{"another namespace by dots in the path", "", "",
			ask(group + "/namespaces/team-chat/../team-code/gpuscaler-desired-replicas?labelSelector=gpuscaler.io%2Fpolicy%3Dcodestral")},
		{"another namespace by escaped slashes", "", "",
			ask(group + "/namespaces/team-chat%2f..%2fteam-code/gpuscaler-desired-replicas?labelSelector=gpuscaler.io%2Fpolicy%3Dcodestral")},
		{"another namespace in the policy's name", "", "400", ask(read("team-chat", "gpuscaler.io/policy=team-code/codestral"))},
		{"another namespace's policy by its name alone", "", "404", ask(read("team-chat", "gpuscaler.io/policy=codestral"))},
		{"no selector, which would add up the targets of all policies", "", "400", ask(read("team-chat", ""))},
		{"a selector of two policies", "", "400", ask(read("team-chat", "gpuscaler.io/policy in (llama,codestral)"))},
		{"a selector of all policies but one", "", "400", ask(read("team-chat", "gpuscaler.io/policy!=codestral"))},
		{"a selector of all policies", "", "400", ask(read("team-chat", "gpuscaler.io/policy"))},
		{"a selector of two names that contradict each other", "", "400",
			ask(read("team-chat", "gpuscaler.io/policy=llama,gpuscaler.io/policy=codestral"))},
		{"a selector that is no selector", "", "400", ask(read("team-chat", "((((gpuscaler.io/policy=llama"))},
		{"a selector of a hundred thousand parts", "", "414",
			ask(read("team-chat", strings.Repeat("a=b,", 100_000)+"gpuscaler.io/policy=llama"))},
		{"a selector with a turned-round end", "CVE-2021-42574", "400", ask(read("team-chat", "gpuscaler.io/policy=llama\u202e"))},
		{"two selectors, of which one is authorized", "", "400",
			ask(own + "&labelSelector=gpuscaler.io%2Fpolicy%20in%20(codestral)&labelSelector=" + url.QueryEscape("gpuscaler.io/policy=codestral") +
				"&fieldSelector=a")},
		{"another metric of the cluster", "", "404", ask(group + "/namespaces/team-chat/queue-depth?labelSelector=a%3Db")},
		{"their own explanation", "", "200 OK, explains team-chat", ask(group + "/namespaces/team-chat/gpuscaler-explain/llama")},
		{"all of their namespace's explanations", "", "200 OK, explains team-chat", ask(group + "/namespaces/team-chat/gpuscaler-explain")},
		{"another namespace's explanation", "", "403", ask(group + "/namespaces/team-code/gpuscaler-explain/codestral")},
		{"every namespace's explanations", "", "403", ask(group + "/gpuscaler-explain")},
		{"another namespace's explanation by dots", "", "40",
			ask(group + "/namespaces/team-chat/gpuscaler-explain/..%2f..%2fteam-code%2fcodestral")},
		{"an explanation on a zone that is a file", "", "400",
			ask(group + "/namespaces/team-chat/gpuscaler-explain/llama?at=09:00&zone=../../etc/passwd")},
		{"a watch that never ends", "", "40", ask(own + "&watch=true")},
		{"a change by POST", "", "40", ask(own, method(http.MethodPost))},
		{"a change by PATCH", "", "40", ask(own, method(http.MethodPatch))},
		{"a deletion of everything", "", "40", ask(own, method(http.MethodDelete))},
		{"a redirect to another host (aggregated API)", "CVE-2022-3172 (KEDA, metrics-server)", "40", ask("//evil.example.com/%2e%2e" + group)},
		{"the profiler", "CVE-2019-11248 (kubelet)", "403", ask("/debug/pprof/heap")},
		{"the command line of the process", "CVE-2019-11248", "403", ask("/debug/pprof/cmdline")},
		{"the metrics of the process", "", "403", ask("/metrics")},
		{"another group of the API", "", "40", ask("/apis/apps/v1/namespaces/team-chat/deployments")},
		{"secrets", "", "40", ask("/api/v1/namespaces/team-chat/secrets")},
		{"an answer in a page of HTML", "", "406", ask(own, header("Accept", "text/html"))},
		{"a header of two megabytes", "", "", ask(own, header("X-Long", strings.Repeat("x", 2<<20)))},
		{"an upgrade to another protocol", "CVE-2018-1002105", "", ask(own, header("Connection", "Upgrade"), header("Upgrade", "websocket"))},
	}}
}

// scaler returns the attacks on KEDA's external scaler. The scaler is served with mutual TLS, and also in plain text, as behind a service
// mesh.
func scaler(t *testing.T) entrance {
	dir := t.TempDir()
	keys := func(name string) (crt, key string) {
		pem, private, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		crt, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
		for file, text := range map[string][]byte{crt: pem, key: private} {
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return crt, key
	}
	ourCert, ourKey := keys("ours")
	theirCert, theirKey := keys("theirs")
	theirs, err := tls.LoadX509KeyPair(theirCert, theirKey)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(s externalmetrics.ScalerTLS) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- externalmetrics.ServeScaler(ctx, l, externalmetrics.ScalerConfig{TLS: s},
				externalmetrics.NewScaler(newDecisions(), func() time.Time { return hostileNoon }))
		}()
		t.Cleanup(func() { stop(); <-ended })
		return l.Addr().String()
	}
	mutual := serve(externalmetrics.ScalerTLS{CertFile: ourCert, KeyFile: ourKey, ClientCAFile: ourCert})
	open := serve(externalmetrics.ScalerTLS{})
	ask := func(address string, c credentials.TransportCredentials, r *externalscaler.GetMetricsRequest,
		options ...grpc.CallOption) func(*testing.T) string {
		return func(t *testing.T) string {
			return cheaply(t, func() string {
				connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
				if err != nil {
					t.Fatal(err)
				}
				defer connection.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				answer, err := externalscaler.NewExternalScalerClient(connection).GetMetrics(ctx, r, options...)
				if err != nil {
					return status.Code(err).String()
				}
				return fmt.Sprintf("%v", answer.GetMetricValues()[0].GetMetricValue())
			})
		}
	}
	ref := func(namespace, name string, metadata map[string]string) *externalscaler.GetMetricsRequest {
		return &externalscaler.GetMetricsRequest{MetricName: externalmetrics.MetricName,
			ScaledObjectRef: &externalscaler.ScaledObjectRef{Namespace: namespace, Name: name, ScalerMetadata: metadata}}
	}
	huge := map[string]string{}
	for i := range 100_000 {
		huge[fmt.Sprint("key", i)] = "value"
	}
	plain := insecure.NewCredentials()
	unverified := func(c ...tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: c})
	}
	chat := ref("team-chat", "llama", nil)
	return entrance{"KEDA's external scaler", "Clients that reach the port, " +
		"and a tenant who writes the metadata of a trigger.", append(streams(t), []attempt{
		{"no client certificate, where one is required", "", "Unavailable", ask(mutual, unverified(), chat)},
		{"a client certificate of one's own", "", "Unavailable", ask(mutual, unverified(theirs), chat)},
		{"plain text, where TLS is spoken", "Trail of Bits 2022: KEDA's Redis without TLS", "Unavailable", ask(mutual, plain, chat)},
		{"another namespace in the policy's name", "", "NotFound",
			ask(open, plain, ref("team-chat", "x", map[string]string{"policy": "team-code/codestral"}))},
		{"another namespace by dots", "", "NotFound",
			ask(open, plain, ref("team-chat", "x", map[string]string{"policy": "../team-code/codestral"}))},
		{"another namespace's policy by its name", "", "NotFound",
			ask(open, plain, ref("team-chat", "x", map[string]string{"policy": "codestral"}))},
		{"no name", "", "NotFound", ask(open, plain, ref("", "", nil))},
		{"nothing", "", "NotFound", ask(open, plain, &externalscaler.GetMetricsRequest{})},
		{"a hundred thousand keys", "", "ResourceExhausted", ask(open, plain, ref("team-chat", "llama", huge))},
		{"a name of a megabyte", "", "ResourceExhausted", ask(open, plain, ref("team-chat", strings.Repeat("x", 1<<20), nil))},
		// The server ends a call after five seconds. On a busy machine, this client could not compress more data in that time.
		{"a compressed bomb", "", "ResourceExhausted", ask(open, plain, ref("team-chat", strings.Repeat("x", 16<<20), nil),
			grpc.UseCompressor(gzip.Name), grpc.MaxCallSendMsgSize(1<<30))},
		{"bytes that are no gRPC", "", "closed", func(t *testing.T) string {
			c, err := net.Dial("tcp", open)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			fmt.Fprint(c, strings.Repeat("\x00\xff", 1000))
			if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
				return err.Error()
			}
			return "the connection is closed"
		}},
	}...)}
}
