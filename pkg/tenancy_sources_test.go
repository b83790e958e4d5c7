package pkg_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/common/config"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
)

// podAt returns one ready pod for every workload. The value of a podAt is the IP address of this pod.
type podAt string

func (a podAt) Pods(*scaling.Workload) []engine.Pod {
	return []engine.Pod{{Name: "llama-0", IP: string(a), Node: "n", Ready: true, Leader: true, Started: time.Now().Add(-time.Hour)}}
}

// reads polls a source once and returns the reading of the signal as text. The engine never decreases a target because of an unknown
// reading.
func reads(t *testing.T, source, signalText string, o telemetry.Options) string {
	t.Helper()
	return cheaply(t, func() string {
		s := store.New(store.Options{})
		platform := "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: prod}\nspec:\n  dataSources: [" + source + "]\n" +
			"  queries: [{name: gateway, source: prom, query: \"sum by (namespace, pool) (queue_size)\", workloadLabel: pool}]\n"
		if !strings.Contains(source, "name: prom,") {
			platform, _, _ = strings.Cut(platform, "  queries:")
		}
		r := s.LoadFS(fstest.MapFS{"platform.yaml": {Data: []byte(platform)}, "tenant.yaml": {Data: []byte(signal(signalText))}})
		c := s.Find(llama)
		if c == nil {
			t.Fatal(policy.Render(r.Problems))
		}
		p, err := telemetry.New(o)
		if err != nil {
			t.Fatal(err)
		}
		p.SetPolicies(s.Compiled(), s.Platform())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		defer func() { stop(); <-ended }()
		out := make([]scaling.Reading, 1)
		for {
			if p.Read(&c.Workload, out); out[0].Known || out[0].Cause != scaling.CauseNever {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if math.IsNaN(out[0].Value) || math.IsInf(out[0].Value, 0) || out[0].Value < 0 {
			t.Errorf("the engine would get %v", out[0].Value)
		}
		if out[0].Known {
			return fmt.Sprintf("%g, from %.0f%% of the pods", out[0].Value, 100*out[0].Coverage)
		}
		return "unknown: " + out[0].Cause.String()
	})
}

func write(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// endless returns a handler that writes first and then repeats line until the client disconnects.
func endless(first, line string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, first)
		for chunk := strings.Repeat(line, 2000); ; {
			if _, err := fmt.Fprint(w, chunk); err != nil {
				return
			}
		}
	}
}

// redisSays returns an attempt that reads the length of a list from a Redis server with the given reply to every LLEN. The result is
// "source unreachable" if the timeout of the data source ended the attempt. It is another text if a limit on replies ended the attempt.
func redisSays(reply string) func(*testing.T) string {
	return func(t *testing.T) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					answers := map[string]string{"hello": "-ERR unknown command\r\n", "client": "+OK\r\n", "LLEN": reply}
					for in := bufio.NewScanner(c); in.Scan(); {
						_, _ = io.WriteString(c, answers[in.Text()])
					}
				}()
			}
		}()
		return reads(t, fmt.Sprintf("{name: redis, type: redis, address: %q, timeout: 50s, interval: 1m}", l.Addr()),
			"{name: queue, type: redis, source: redis, listName: jobs, target: 5}", telemetry.Options{})
	}
}

// sentBytes counts the bytes of a response.
type sentBytes struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *sentBytes) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// zipBomb returns 32 KiB of gzip data that decompress to about 32 MiB: first, then line again and again, and then last.
func zipBomb(first, line, last string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, first)
	for chunk := []byte(strings.Repeat(line, 1<<20/len(line))); b.Len() < 1<<15; {
		_, _ = z.Write(chunk)
		_ = z.Flush()
	}
	_, _ = io.WriteString(z, last)
	_ = z.Close()
	return b.Bytes()
}

func sources(t *testing.T) entrance {
	serve := func(t *testing.T, h http.HandlerFunc) (address string, port string) {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		t.Cleanup(server.CloseClientConnections)
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		return server.URL, u.Port()
	}
	pod := func(h http.HandlerFunc) func(*testing.T) string {
		return func(t *testing.T) string {
			_, port := serve(t, h)
			return reads(t, "{name: pods, type: scrape, profile: vllm, port: "+port+", timeout: 50s, interval: 1m}",
				"{name: queue, type: vllm, metric: requestsWaiting, target: 5}",
				telemetry.Options{Pods: podAt("127.0.0.1"), LoopbackPods: true})
		}
	}
	address := func(ip string) func(*testing.T) string {
		return func(t *testing.T) string {
			_, port := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
			return reads(t, "{name: pods, type: scrape, profile: vllm, port: "+port+", timeout: 1s, interval: 1m}",
				"{name: queue, type: vllm, metric: requestsWaiting, target: 5}",
				telemetry.Options{Pods: podAt(ip)})
		}
	}
	prom := func(h http.HandlerFunc, more ...string) func(*testing.T) string {
		return func(t *testing.T) string {
			at, _ := serve(t, h)
			return reads(t, fmt.Sprintf("{name: prom, type: prometheus, default: true, address: %q, timeout: 50s, interval: 1m%s}",
				at, strings.Join(more, "")),
				"{name: queue, type: prometheus, queryRef: gateway, target: 5}", telemetry.Options{})
		}
	}
	small := func(h http.HandlerFunc) func(*testing.T) string { return prom(h, ", maxBytes: 1Mi") }
	vector := func(result string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + result + `]}}`
	}
	denied := "unknown: " + scaling.CauseDenied.String()
	// bounded replaces the cause of an unknown reading by "stopped", because the cause differs from run to run: the attempt reaches one of
	// several limits first (bytes, series or time).
	bounded := func(try func(*testing.T) string) func(*testing.T) string {
		return func(t *testing.T) string {
			result := try(t)
			for _, c := range []scaling.Cause{scaling.CauseTruncated, scaling.CauseUnreachable, scaling.CauseTimeout, scaling.CauseSeries,
				scaling.CauseMalformed} {
				result = strings.ReplaceAll(result, c.String(), "stopped")
			}
			return result
		}
	}
	// sent fails an attempt in which gpuscaler reads more than limit MiB from the server. Below this value, the limit of bytes ended the
	// request, and not the time limit.
	sent := func(limit int64, h http.HandlerFunc, try func(http.HandlerFunc) func(*testing.T) string) func(*testing.T) string {
		return func(t *testing.T) string {
			var n atomic.Int64
			text := try(func(w http.ResponseWriter, r *http.Request) { h(&sentBytes{w, &n}, r) })(t)
			if n.Load() > limit<<20 {
				t.Errorf("%d MiB were read, want at most %d", n.Load()>>20, limit)
			}
			return text
		}
	}
	// soon fails an attempt that the data source's timeout of 50 s ends. The time limit of one pod, 2 s, must end it earlier.
	soon := func(try func(*testing.T) string) func(*testing.T) string {
		return func(t *testing.T) string {
			began := time.Now()
			text := try(t)
			if took := time.Since(began); took > 40*time.Second {
				t.Errorf("it took %s: the time limit of one pod did not end it", took)
			}
			return text
		}
	}
	// redirecting fails an attempt in which gpuscaler follows a redirect to the given path.
	redirecting := func(path string, code int, try func(http.HandlerFunc) func(*testing.T) string) func(*testing.T) string {
		return func(t *testing.T) string {
			return try(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == path {
					t.Error("the redirect was followed")
					return
				}
				http.Redirect(w, r, path, code)
			})(t)
		}
	}
	moment := time.Now().Unix()
	series := func(namespace, pool, value string) string {
		one := func(part, v string) string {
			return fmt.Sprintf(`{"metric":{"namespace":%q,"pool":%q,"gpuscaler_part":%q},"value":[%d,%q]}`, namespace, pool, part, moment, v)
		}
		return one("value", value) + "," + one("age0", fmt.Sprint(moment))
	}
	// claim returns an attempt in which a pod of namespace evil serves a series about a pod of namespace team-chat. Prometheus stores the
	// series as a scrape without honor_labels does.
	claim := func(metric, more, signalText string) func(*testing.T) string {
		return func(t *testing.T) string {
			at, _ := serve(t, write(fmt.Sprintf(`{"status":"success","data":{"resultType":"matrix",`+
				`"result":[{"metric":{"__name__":%q,"namespace":"evil","pod":"evil-0",`+
				`"exported_namespace":"team-chat","exported_pod":"llama-0",%s},"values":[[%d,"0"]]}]}}`, metric, more, moment)))
			return reads(t, fmt.Sprintf("{name: prom, type: prometheus, default: true, address: %q, timeout: 50s, interval: 1m}", at), signalText,
				telemetry.Options{Pods: podAt("10.0.0.1")})
		}
	}
	guarded := func(to string) func(*testing.T) string {
		return func(t *testing.T) string {
			c, err := fetch.NewClient(fetch.Config{HTTP: config.DefaultHTTPClientConfig, Guard: fetch.GuardFor("prometheus.monitoring.svc")})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = c.Do(t.Context(), fetch.Request{URL: to, Bytes: 100}, func(fetch.Answer) error { t.Error("it answered"); return nil })
			var refused *fetch.AddressError
			if !errors.As(err, &refused) {
				t.Errorf("%v, want the address refused", err)
			}
			return fmt.Sprint(err)
		}
	}
	return entrance{"Sources of readings", "A tenant's pods, which gpuscaler scrapes, and a Prometheus server that an attacker controls. " +
		"An unknown reading never lowers a target.", []attempt{
		{"a pod that redirects to the cloud's metadata service", "KEDA follows redirects", "unknown",
			pod(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
			})},
		{"a pod that redirects to this machine", "", "unknown", redirecting("/elsewhere", http.StatusTemporaryRedirect, pod)},
		{"a pod whose address is the cloud's metadata service", "KEDA #7697", denied, address("169.254.169.254")},
		{"a pod whose address is that service's, as IPv6", "", denied, address("fd00:ec2::254")},
		{"a pod whose address is Google Cloud's metadata service", "", denied, address("fd20:ce::254")},
		{"a pod whose address is Alibaba Cloud's metadata service", "", denied, address("100.100.100.200")},
		{"a pod whose address is Azure's host", "", denied, address("168.63.129.16")},
		{"a pod whose address is the metadata service behind NAT64", "", denied, address("64:ff9b::a9fe:a9fe")},
		{"a pod whose address is that service's, as IPv4 in IPv6", "", denied, address("::ffff:169.254.169.254")},
		{"a pod whose address is Azure's host, as IPv4 in IPv6", "", denied, address("::ffff:168.63.129.16")},
		{"a pod whose address is loopback", "", denied, address("127.0.0.1")},
		{"a pod whose address is unspecified", "", denied, address("0.0.0.0")},
		{"a pod whose address is a name", "", "unknown: invalid value", address("metadata.google.internal")},
		{"a pod whose address is a URL", "", "unknown: invalid value", address("evil.example.com/?x=")},
		{"a source's name that resolves to the metadata service (DNS rebinding)", "KEDA has no filter of addresses", "169.254.169.254 refused",
			guarded("http://169.254.169.254/latest/meta-data/")},
		{"a source's name that resolves to loopback", "", "127.0.0.1 refused", guarded("http://127.0.0.1:8081/")},
		{"Redis commands in a list's name", "CVE-2026-53572 (KEDA: a blank in a connection string)", "0 of that list; " +
			"nothing was deleted", func(t *testing.T) string {
			server := miniredis.RunT(t)
			_, _ = server.Push("jobs", "a", "b")
			text := reads(t, fmt.Sprintf("{name: redis, type: redis, address: %q, timeout: 1s, interval: 1m}", server.Addr()),
				`{name: queue, type: redis, source: redis, listName: "jobs\nFLUSHALL\n", target: 5}`, telemetry.Options{})
			if list, _ := server.List("jobs"); len(list) != 2 {
				t.Errorf("the list holds %v", list)
			}
			return strings.TrimSuffix(text, ", from 100% of the pods") + " of that list; nothing was deleted"
		}},
		{"a Redis array of 10^11 elements", "go-redis allocates them", "unknown: answer cut off", redisSays("*100000000000\r\n")},
		{"a Redis string of 10^11 bytes", "go-redis allocates them", "unknown: answer cut off", redisSays("$100000000000\r\n")},
		{"a Redis array of 10^9 elements inside an array", "", "unknown: answer cut off", redisSays("*1\r\n*1000000000\r\n")},
		{"a RESP3 map of 10^11 pairs that was not requested", "", "unknown: malformed answer", redisSays("%100000000000\r\n")},
		{"RESP3 attributes of 10^11 pairs", "", "unknown: malformed answer", redisSays("|100000000000\r\n")},
		{"a streamed Redis string", "", "unknown: malformed answer", redisSays("$?\r\n;4\r\nabcd\r\n")},
		{"a Redis length with a letter", "", "unknown: malformed answer", redisSays("$1x\r\na\r\n")},
		{"Redis arrays nested a thousand deep", "", "unknown: answer cut off", redisSays(strings.Repeat("*1\r\n", 1000) + ":0\r\n")},
		{"a Redis line without end", "", "unknown: answer cut off", redisSays("+" + strings.Repeat("x", 1<<20))},
		{"a thousand Redis arrays of ten thousand elements each", "", "unknown: answer cut off",
			redisSays("*1000\r\n" + strings.Repeat("*10000\r\n"+strings.Repeat("$-1\r\n", 10_000), 40))},
		{"a page without end", "CVE-2023-48713 (Knative: a pod's metrics kill the autoscaler)", "unknown: stopped",
			bounded(sent(16, endless("", "other_metric 1\n"), pod))},
		{"a line without end", "CVE-2023-48713", "unknown: stopped",
			bounded(sent(16, endless("vllm:num_requests_waiting{a=\"", "xxxxxxxx"), pod))},
		{"a compressed bomb", "CVE-2023-48713", "unknown: stopped", bounded(pod(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipBomb("", "other_metric 1\n", ""))
		}))},
		{"a page that drips a byte a second", "", "unknown: stopped", soon(bounded(pod(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, "v")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(100 * time.Millisecond)
			}
		})))},
		{"a page that never begins", "", "unknown: stopped",
			soon(bounded(pod(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })))},
		{"headers without end", "", "unknown: stopped", bounded(pod(func(w http.ResponseWriter, _ *http.Request) {
			for i := range 2000 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
			}
			fmt.Fprint(w, "vllm:num_requests_waiting 0\n")
		}))},
		{"a hundred thousand series of the requested metric", "", "unknown: stopped", bounded(pod(func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100_000 {
				fmt.Fprintf(w, "vllm:num_requests_waiting{model_name=\"%d\"} 0\n", i)
			}
		}))},
		{"a label of 200 kB", "", "unknown: stopped",
			bounded(pod(write("vllm:num_requests_waiting{model_name=\"" + strings.Repeat("x", 200_000) + "\"} 0\n")))},
		{"a thousand labels on one series", "", "", pod(func(w http.ResponseWriter, _ *http.Request) {
			var b strings.Builder
			for i := range 1000 {
				fmt.Fprintf(&b, "l%d=\"x\",", i)
			}
			fmt.Fprintf(w, "vllm:num_requests_waiting{%s} 3\n", b.String())
		})},
		{"no requests waiting, as not a number", "empty is 0 in KEDA by default (#3065)", "unknown",
			pod(write("vllm:num_requests_waiting NaN\n"))},
		{"fewer than no requests waiting", "", "unknown", pod(write("vllm:num_requests_waiting -1\n"))},
		{"infinitely many requests waiting", "", "unknown", pod(write("vllm:num_requests_waiting +Inf\n"))},
		{"10^300 requests waiting", "", "unknown", pod(write("vllm:num_requests_waiting 1e300\n"))},
		{"a page that ends within a number: 0 of 05", "", "unknown", pod(write("vllm:num_requests_waiting 0"))},
		{"a sign-in page in the place of metrics", "", "unknown", pod(write("<html><body>Sign in</body></html>\n"))},
		{"a metric with a brace left open", "", "unknown", pod(write("vllm:num_requests_waiting{a=\"b\" 0\n"))},
		{"a sample that is stamped an hour ahead", "", "unknown: no usable sample time",
			pod(write(fmt.Sprintf("vllm:num_requests_waiting 0 %d\n", time.Now().Add(time.Hour).UnixMilli())))},
		{"a sample from the year 292,000,000", "", "unknown: no usable sample time",
			pod(write("vllm:num_requests_waiting 4 9223372036854775807\n"))},
		{"a sample of before time began", "", "unknown: no usable sample time", pod(write("vllm:num_requests_waiting 4 -9223372036854775808\n"))},
		{"a wrong TYPE", "", "", pod(write("# TYPE vllm:num_requests_waiting histogram\nvllm:num_requests_waiting 0\n"))},
		{"another tenant's GPU, written by a scraped pod", "", "unknown: not from a declared exporter",
			claim("DCGM_FI_PROF_GR_ENGINE_ACTIVE", `"UUID":"GPU-0"`, "{name: gpu, type: dcgm, target: 70%}")},
		{"another tenant's model server, written by a scraped pod", "", "unknown: not from a declared exporter",
			claim("vllm:num_requests_waiting", `"model_name":"m"`, "{name: queue, type: vllm, metric: requestsWaiting, target: 5}")},
		{"another tenant's Kueue queue, written by a scraped pod", "", "unknown: not from a declared exporter",
			claim("kueue_local_queue_pending_workloads", `"name":"batch","status":"active"`,
				"{name: queue, type: kueue, localQueue: batch, target: 5}")},
		{"a Prometheus that answers with nothing", "KEDA #3065: all to the minimum at peak", "unknown: no data", prom(write(vector("")))},
		{"a Prometheus that answers for another namespace", "", "unknown: no data", prom(write(vector(series("team-code", "llama", "0"))))},
		{"a Prometheus that answers twice, with 0 and with 90", "", "unknown",
			prom(write(vector(series("team-chat", "llama", "90") + "," + series("team-chat", "llama", "0"))))},
		{"a valid answer, as a control", "", "90", prom(write(vector(series("team-chat", "llama", "90"))))},
		{"a Prometheus that answers 0 with an error's status", "", "unknown", prom(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, vector(series("team-chat", "llama", "0")))
		})},
		{"an answer cut in the middle that is still JSON", "", "unknown", prom(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			fmt.Fprint(w, vector(series("team-chat", "llama", "0")))
		})},
		{"a second answer behind the first", "", "unknown",
			prom(write(vector(series("team-chat", "llama", "90")) + vector(series("team-chat", "llama", "0"))))},
		{"a part of an answer that calls itself whole", "", "unknown",
			prom(write(strings.Replace(vector(series("team-chat", "llama", "0")), `{"status"`, `{"isPartial":true,"status"`, 1)))},
		{"an answer without a part, which only a warning says", "", "unknown: answer cut off",
			prom(write(strings.Replace(vector(series("team-chat", "llama", "0")), `{"status"`,
				`{"warnings":["remote read: connection refused"],"status"`, 1)))},
		{"more series than the platform allows", "", "unknown: stopped", bounded(prom(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.TrimSuffix(vector(""), "]}}"))
			for i := range 5000 {
				fmt.Fprint(w, series("team-code", fmt.Sprint("x", i), "1")+",")
			}
			fmt.Fprint(w, series("team-chat", "llama", "0")+"]}}")
		}, ", maxSeries: 1000"))},
		{"an answer without end", "KEDA reads without a bound", "unknown: stopped",
			bounded(sent(16, endless(`{"status":"success","padding":"`, "xxxxxxxx"), small))},
		{"a compressed bomb of a Prometheus", "CVE-2023-48713", "unknown: answer cut off", small(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipBomb(`{"padding":"`, "xxxxxxxx", `",`+vector(series("team-chat", "llama", "0"))[1:]))
		})},
		{"compressed data without end that decompress to nothing", "", "unknown: stopped",
			bounded(sent(16, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				endless("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", "\x00\x00\x00\xff\xff")(w, r) // endless gzip blocks that contain no data
			}, small))},
		{"brackets without end", "", "unknown: stopped", bounded(sent(16, endless(`{"data":`, "[[[[[[[["), small))},
		{"a redirect of a request with credentials", "KEDA follows redirects", "unknown",
			redirecting("/thief", http.StatusPermanentRedirect, func(h http.HandlerFunc) func(*testing.T) string { return prom(h) })},
		{"a sample whose time is a word", "", "unknown",
			prom(write(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"namespace":"team-chat","pool":"llama",` +
				`"gpuscaler_part":"value"},"value":["now","0"]}]}}`))},
		{"a time of the year 10^300", "", "unknown",
			prom(write(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"namespace":"team-chat","pool":"llama",` +
				`"gpuscaler_part":"value"},"value":[1e300,"0"]}]}}`))},
	}}
}
