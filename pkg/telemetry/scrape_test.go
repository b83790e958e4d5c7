package telemetry

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// podServer serves the page of one pod.
type podServer struct {
	*faulty
	port int
}

func newPodServer(t testing.TB) *podServer {
	f := newFaulty(t)
	u, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return &podServer{f, port}
}

func (p *podServer) source(profile policy.SourceType) policy.DataSource {
	return policy.DataSource{Name: "pods", Type: policy.DataScrape, Profile: profile, Port: p.port, Path: "/m", Interval: time.Minute,
		Timeout: time.Minute}
}

func scrapePoller(t *testing.T, w *policy.Compiled, source policy.DataSource, pods []engine.Pod) *Poller {
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: pods}, LoopbackPods: true})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
	return p
}

func TestPageOfAPodIsReadOnceForAllItsSignals(t *testing.T) {
	server := newPodServer(t)
	asked := 0
	server.does(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprint(w, "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"m\"} 6\nvllm:kv_cache_usage_perc 0.5\n")
	})
	w := compiled("chat", "llama",
		policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "requestsWaiting"},
		policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "kvCacheUsage"})
	p := scrapePoller(t, w, server.source(policy.SourceVLLM), readyPods("llama-0"))
	before := time.Now()
	pollOnce(t, p)
	r := read(p, w)
	if !r[0].Known || r[0].Value != 6 || r[0].Coverage != 1 || r[0].At.Before(before) || r[1].Value != 0.5 {
		t.Errorf("%+v", r)
	}
	if asked != 1 {
		t.Errorf("the page was read %d times, want once", asked)
	}
}

func TestReadingOfAFaultyPod(t *testing.T) {
	bomb := gzipBomb()
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		known bool
		cause scaling.Cause
	}{
		{"gone", status(404, ""), true, scaling.CauseHTTPError},
		{"500", status(500, ""), true, scaling.CauseHTTPError},
		{"401", status(401, ""), true, scaling.CauseUnauthorized},
		{"redirect to a metadata service", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		}, true, scaling.CauseHTTPError},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, true, scaling.CauseTimeout},
		{"HTML", text("<html></html>\n"), false, scaling.CauseMalformed},
		{"another engine", text("tgi_queue_size 5\n"), false, scaling.CauseEmpty},
		{"empty", text(""), false, scaling.CauseEmpty},
		{"NaN", text("vllm:num_requests_waiting NaN\n"), false, scaling.CauseInvalid},
		{"-1", text("vllm:num_requests_waiting -1\n"), false, scaling.CauseInvalid},
		{"cut within a line", text("vllm:num_requests_waiting 12\nvllm:num_requests_ru"), false, scaling.CauseTruncated},
		{"cut by a lost connection", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "vllm:num_requests_waiting 1\n")
		}, false, scaling.CauseTruncated},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			for chunk := strings.Repeat("other_metric 1\n", 1000); ; {
				if _, err := fmt.Fprint(w, chunk); err != nil {
					return
				}
			}
		}, false, scaling.CauseTruncated},
		{"gzip bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		}, false, scaling.CauseTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := newPodServer(t)
			w := compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "requestsWaiting"})
			source := server.source(policy.SourceVLLM)
			source.MaxBytes = 1 << 20
			p := scrapePoller(t, w, source, readyPods("llama-0"))
			server.does(text("vllm:num_requests_waiting 5\n"))
			pollOnce(t, p)
			if r := read(p, w)[0]; !r.Known || r.Value != 5 {
				t.Fatalf("before: %+v", r)
			}
			server.does(c.serve)
			if c.name == "hangs" {
				source.Timeout = 300 * time.Millisecond
				p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
			}
			pollOnce(t, p)
			if r := read(p, w)[0]; r.Known != c.known || r.Cause != c.cause || r.Failures != 1 {
				t.Errorf("during: %+v, want known %t, cause %d", r, c.known, c.cause)
			}
		})
	}
}

func TestPodAddressesThatNoPodHasAreRefused(t *testing.T) {
	server := newPodServer(t)
	server.does(text("vllm:num_requests_waiting 5\n"))
	w := compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "requestsWaiting"})
	for address, cause := range map[string]scaling.Cause{
		"127.0.0.1": scaling.CauseDenied, "::1": scaling.CauseDenied, "::ffff:127.0.0.1": scaling.CauseDenied,
		"169.254.169.254": scaling.CauseDenied, "fe80::1": scaling.CauseDenied, "fd00:ec2::254": scaling.CauseDenied,
		"0.0.0.0": scaling.CauseDenied, "224.0.0.1": scaling.CauseDenied,
		"": scaling.CauseUnreachable, "example.com": scaling.CauseInvalid, "http://10.0.0.1/x": scaling.CauseInvalid,
		"10.0.0.1/../x": scaling.CauseInvalid,
	} {
		p := newPoller(t, Options{Pods: testPods{w.Workload.Key: {{Name: "llama-0", IP: address, Ready: true}}}})
		p.SetPolicies([]*policy.Compiled{w}, platformOf(server.source(policy.SourceVLLM)))
		pollOnce(t, p)
		if r := read(p, w)[0]; r.Known || r.Cause != cause {
			t.Errorf("pod at %q: %+v, want cause %d", address, r, cause)
		}
	}
}

func TestScrapedLatencyNeedsTwoPollsAndContinuesAfterARestart(t *testing.T) {
	server := newPodServer(t)
	page := func(quick, all int, sum float64, waiting int) http.HandlerFunc {
		return text(fmt.Sprintf("# TYPE vllm:time_to_first_token_seconds histogram\n"+
			"vllm:time_to_first_token_seconds_bucket{le=\"0.5\"} %d\nvllm:time_to_first_token_seconds_bucket{le=\"1\"} %d\n"+
			"vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} %d\nvllm:time_to_first_token_seconds_count %d\n"+
			"vllm:time_to_first_token_seconds_sum %g\nvllm:num_requests_waiting %d\n", quick, all, all, all, sum, waiting))
	}
	source := policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "timeToFirstToken", Window: time.Minute}
	median := source
	median.Quantile = 0.5
	w := mean(compiled("chat", "llama", source, median))
	p := scrapePoller(t, w, server.source(policy.SourceVLLM), readyPods("llama-0"))
	for i, c := range []struct {
		serve        http.HandlerFunc
		known        bool
		cause        scaling.Cause
		mean, median float64
	}{
		{page(100, 100, 10, 0), false, scaling.CauseEmpty, 0, 0},           // unknown: the 100 requests may be older than the window
		{page(100, 110, 18, 0), true, 0, 0.8, 0.75},                        // ten more requests of 0.8 s each
		{page(100, 110, 18, 0), true, 0, 0.8, 0.75},                        // the same ten requests are still within the window
		{page(4, 4, 0.4, 0), true, 0, (8 + 0.4) / 14, 0.5 + 0.5*(7-4)/10.}, // the pod restarted and served four fast requests
	} {
		server.does(c.serve)
		pollOnce(t, p)
		r := read(p, w)
		if r[0].Known != c.known || r[0].Cause != c.cause || (c.known && (!near(r[0].Value, c.mean) || !near(r[1].Value, c.median))) {
			t.Errorf("look %d: %+v, want %t %g and %g", i, r, c.known, c.mean, c.median)
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

func TestServerThatFinishesNoRequestHasNoLatencyOfZero(t *testing.T) {
	server := newPodServer(t)
	server.does(text("vllm:time_to_first_token_seconds_count 5\nvllm:time_to_first_token_seconds_sum 1\nvllm:num_requests_waiting 12\n"))
	w := mean(compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "timeToFirstToken",
		Window: time.Minute}))
	p := scrapePoller(t, w, server.source(policy.SourceVLLM), readyPods("llama-0"))
	pollOnce(t, p)
	pollOnce(t, p)
	if r := read(p, w)[0]; r.Known || r.Cause != scaling.CauseSentinel {
		t.Errorf("%+v, want unknown", r)
	}
}

// testExporters lists the pods of the exporters, one on each node.
type testExporters []engine.Pod

func (e testExporters) Exporters(namespace string, labels map[string]string) []engine.Pod {
	if namespace != "gpu-operator" || labels["app"] != "dcgm" && labels["app"] != "nvidia-dcgm-exporter" {
		return nil
	}
	return e
}

// onNodeN contains the exporter of node n, on which all pods of the function readyPods run.
var onNodeN = testExporters{exporterOn("dcgm-n", "n")}

func TestExportersAreReadWhereThePodsRun(t *testing.T) {
	server := newPodServer(t)
	asked := 0
	server.does(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprint(w, `DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-0",namespace="chat",pod="llama-0"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",UUID="GPU-1",namespace="chat",pod="llama-0"} 0.7
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="2",UUID="GPU-2"} 1
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-0",namespace="chat",pod="llama-0"} 9223372036854775794
`)
	})
	w := mean(compiled("chat", "llama", policy.Source{Type: policy.SourceDCGM, DataSource: "pods", Metric: "activity"}))
	source := server.source(policy.SourceDCGM)
	source.PodsIn, source.PodLabels = "gpu-operator", map[string]string{"app": "dcgm"}
	pods := []engine.Pod{{Name: "llama-0", Node: "a", Ready: true}, {Name: "llama-1", Node: "c", Ready: true}}
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: pods}, LoopbackPods: true, Exporters: testExporters{
		{Name: "dcgm-a", IP: "127.0.0.1", Node: "a"}, {Name: "dcgm-b", IP: "127.0.0.1", Node: "b"}}})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || !near(r.Value, 0.6) || r.Coverage != 0.5 || asked != 1 {
		t.Errorf("%+v after reading %d pages, want 0.6 from one exporter: no pod of the workload is on b, and no exporter is on c", r, asked)
	}
}

// For the signal, the command explain shows "HTTP error" and refers to the log of the leader. The log must therefore contain the HTTP
// status, once. The other pods of the poll respond, so the poll as a whole succeeds.
func TestStatusOfAPodThatRespondsWithAnErrorIsLoggedOnce(t *testing.T) {
	server := newPodServer(t)
	status := http.StatusNotFound
	server.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); fmt.Fprint(w, "text of a tenant") })
	var log bytes.Buffer
	w := compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "requestsWaiting"})
	pods := []engine.Pod{{Name: "llama-0", IP: "127.0.0.1", Ready: true}}
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: pods}, LoopbackPods: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(server.source(policy.SourceVLLM)))
	for range 3 {
		pollOnce(t, p)
	}
	if r := read(p, w)[0]; r.Cause != scaling.CauseHTTPError {
		t.Fatalf("%+v", r)
	}
	if n := strings.Count(log.String(), "a part of the poll of the data source failed"); n != 1 ||
		!strings.Contains(log.String(), "pod llama-0: status 404: Not Found") ||
		strings.Contains(log.String(), "text of a tenant") {
		t.Errorf("%d lines: %s", n, &log)
	}
	status = http.StatusOK
	pollOnce(t, p)
	if !strings.Contains(log.String(), "every part of the poll of the data source works again") {
		t.Errorf("%s", &log)
	}
}

func TestPollWithoutPodsSendsNoRequest(t *testing.T) {
	server := newTestPrometheus(t)
	w := compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"})
	pods := testPods{}
	p := newPoller(t, Options{Pods: pods})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	for range 5 {
		pollOnce(t, p)
	}
	if r := read(p, w)[0]; len(server.asked()) != 0 || r.Cause != scaling.CauseEmpty || r.Failures != 1 {
		t.Errorf("%d queries, %+v: want one failure for several polls without pods within one interval", len(server.asked()), r)
	}
}
