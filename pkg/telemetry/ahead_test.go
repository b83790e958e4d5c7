package telemetry

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// stampedSource is a source whose samples contain their own times. Its response contains a sample with the value 0 and the word STAMP as
// the time. The method named says replaces STAMP with a time. The Date header of the response is correct.
type stampedSource struct {
	name   string
	signal policy.Source
	answer string
	format func(time.Time) string
}

func unixSeconds(at time.Time) string { return fmt.Sprintf("%.3f", float64(at.UnixMilli())/1000) }

func unixMillis(at time.Time) string { return fmt.Sprint(at.UnixMilli()) }

func rfc3339(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func stampedSources() []stampedSource {
	result := func(kind string, series ...string) string {
		return `{"status":"success","data":{"resultType":"` + kind + `","result":[` + strings.Join(series, ",") + `]}}`
	}
	pool := func(part, at, v string) string {
		return `{"metric":{"namespace":"chat","pool":"llama","gpuscaler_part":"` + part + `"},"value":[` + at + `,"` + v + `"]}`
	}
	pod := func(part, v, more string) string {
		return `{"metric":{"namespace":"chat","pod":"llama-0","gpuscaler_part":"` + part + `"` + more + `},"value":[NOW,"` + v + `"]}`
	}
	newestOf := func(labels string) string { return result("matrix", `{"metric":{`+labels+`},"values":[[STAMP,"0"]]}`) }
	vllm := policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"}
	latency := policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "timeToFirstToken", Window: 2 * time.Minute}
	onPage := func(s policy.Source) policy.Source { s.DataSource = "pods"; return s }
	dcgm := policy.Source{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"}
	return []stampedSource{
		{"the age of a query's samples", querySource(), result("vector", pool("value", "NOW", "0"), pool("age0", "NOW", "STAMP")), unixSeconds},
		{"a query's own time", querySource(), result("vector", pool("value", "STAMP", "0"), pool("age0", "NOW", "NOW")), unixSeconds},
		{"gauges of Prometheus", vllm, newestOf(`"__name__":"vllm:num_requests_waiting","namespace":"chat","pod":"llama-0"`), unixSeconds},
		{"GPUs of Prometheus", dcgm, newestOf(`"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"GPU-0","gpu":"0","namespace":"gpu-operator",` +
			`"pod":"dcgm-n","exported_namespace":"chat","exported_pod":"llama-0"`), unixSeconds},
		{"Kueue", policy.Source{Type: policy.SourceKueue, DataSource: "prom", ClusterQueue: "gpu"},
			newestOf(`"__name__":"kueue_pending_workloads","namespace":"kueue-system","cluster_queue":"gpu","status":"active"`), unixSeconds},
		{"a latency of Prometheus", latency, result("vector", pod("count0", "0", ""), pod("sum0", "0", ""), pod("age0", "STAMP", ""),
			pod("load0", "0", "")), unixSeconds},
		{"a pod's page", onPage(vllm), "vllm:num_requests_waiting 0 STAMP\n", unixMillis},
		{"an exporter's page", onPage(dcgm), "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-0\",namespace=\"chat\",pod=\"llama-0\"} 0 STAMP\n",
			unixMillis},
		{"an adapter", externalSource("backlog", ""), `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1",` +
			`"metadata":{},"items":[{"metricName":"m","metricLabels":{},"timestamp":"STAMP","value":"0"}]}`, rfc3339},
	}
}

// says returns a handler whose response is s.answer with stamp as the time of the sample.
func (s *stampedSource) says(stamp string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if s.signal.Type == policy.SourceExternal {
			w.Header().Set("Content-Type", "application/json")
		}
		fmt.Fprint(w, strings.NewReplacer("STAMP", stamp, "NOW", unixSeconds(time.Now())).Replace(s.answer))
	}
}

// poller returns a poller that reads the source, and a workload with one pod on node n whose signal uses the source.
func (s *stampedSource) poller(t testing.TB, server *podServer, o Options) (*Poller, *policy.Compiled) {
	w := compiled("chat", "llama", s.signal)
	w.Workload.Policy.MaxReplicas = 20
	o.Pods = testPods{w.Workload.Key: {{Name: "llama-0", Node: "n", IP: "127.0.0.1", Ready: true}}}
	o.Exporters, o.LoopbackPods, o.Kubernetes = testExporters{exporterOn("dcgm-n", "n")}, true, &rest.Config{Host: server.URL}
	pods := server.source(s.signal.Type)
	if s.signal.Type == policy.SourceDCGM {
		pods.PodsIn, pods.PodLabels = "gpu-operator", map[string]string{"app": "dcgm"}
	}
	p := newPoller(t, o)
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL), pods))
	return p, w
}

// targetOf returns the target of a workload with three ready replicas.
func targetOf(p *Poller, w *policy.Compiled, at time.Time) int32 {
	state := scaling.Seed(w.Workload.Policy, 3, at)
	o := scaling.Observation{Replicas: 3, Ready: 3, Readings: read(p, w), Advice: scaling.NoAdvice, Operator: scaling.NoOperator}
	return state.Decide(w.Workload.Policy, &o, at).Replicas
}

// A sample time an hour in the future would make the sample look fresh at every poll of the next hour, even if its source had failed. The
// sample must not lower the target, and the metrics and the log must name its source. When the source sends usable sample times again,
// its samples must be used again.
func TestSampleAnHourAheadCountsAsMissing(t *testing.T) {
	for _, s := range stampedSources() {
		t.Run(s.name, func(t *testing.T) {
			var log bytes.Buffer
			registry := prometheus.NewRegistry()
			server := newPodServer(t)
			p, w := s.poller(t, server, Options{Registerer: registry, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			server.does(s.says(s.format(time.Now().Add(time.Hour))))
			for range 3 {
				pollOnce(t, p)
				if n := targetOf(p, w, time.Now()); n != 3 {
					t.Fatalf("target %d of 3: %+v", n, read(p, w))
				}
			}
			if r := read(p, w)[0]; r.Known || r.Cause != scaling.CauseUntimed || r.Failures != 3 {
				t.Errorf("%+v, want unknown because of its time; %+v", r, statuses(p))
			}
			for _, r := range p.runners {
				g := r.group.Load()
				if n := testutil.ToFloat64(p.metrics.failures.WithLabelValues(g.source.Name, g.key.kind.String(), "untimed")); n != 3 {
					t.Errorf("%g readings are counted for source %q", n, g.source.Name)
				}
				if n := strings.Count(log.String(), "no usable time"); n != 1 ||
					!strings.Contains(log.String(), "source="+fmt.Sprint(g.source.Name)) && g.source.Name != "" {
					t.Errorf("%d log lines name the source and the wrong sample time, want one:\n%s", n, log.String())
				}
			}
			server.does(s.says(s.format(time.Now())))
			pollOnce(t, p)
			if r := read(p, w)[0]; !r.Known || targetOf(p, w, time.Now()) != 0 {
				t.Errorf("with a usable time: target %d, %+v; %+v", targetOf(p, w, time.Now()), r, statuses(p))
			}
		})
	}
}

// A sample may lower a target only if its time is in the last two minutes, which is the signal's MaxAge.
func TestOnlyAUsableTimeLowersATarget(t *testing.T) {
	hours := func(low, high time.Duration) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.Int64Range(int64(low), int64(high)), func(n int64) time.Duration { return time.Duration(n) })
	}
	for _, s := range stampedSources() {
		t.Run(s.name, func(t *testing.T) {
			server := newPodServer(t)
			p, w := s.poller(t, server, Options{})
			platform := p.plan.platform
			usable := hours(-100*time.Second, -2*time.Second)
			unusable := rapid.OneOf(hours(-100*8760*time.Hour, -3*time.Minute), hours(5*time.Second, time.Hour),
				hours(time.Hour, 100*8760*time.Hour))
			rapid.Check(t, func(r *rapid.T) {
				want := int32(3)
				stamp := ""
				switch rapid.IntRange(0, 3).Draw(r, "kind") {
				case 0:
					want, stamp = 0, s.format(time.Now().Add(usable.Draw(r, "age")))
				case 1:
					stamp = s.format(time.Now().Add(unusable.Draw(r, "ahead")))
				case 2:
					stamp = fmt.Sprint(rapid.Int64().Draw(r, "number"))
				default:
					stamp = rapid.SampledFrom([]string{"NaN", "-1", "0", "-0", "1e300", "-1e300", "Inf", "-Inf",
						"9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551616",
						"0x7fffffff", "1e18", "null", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:01Z",
						"292277026596-12-04T15:30:07Z", "now"}).Draw(r, "text")
				}
				server.does(s.says(stamp))
				p.SetPolicies(nil, nil)
				p.SetPolicies([]*policy.Compiled{w}, platform)
				pollOnce(t, p)
				now := time.Now()
				if n := targetOf(p, w, now); n != want {
					r.Fatalf("time %q: target %d, want %d; %+v", stamp, n, want, read(p, w))
				}
				if got := read(p, w)[0]; got.Known && got.At.After(now) {
					r.Fatalf("time %q: the reading is of %v", stamp, got.At)
				}
			})
		})
	}
}

// One of four pods has a clock that is an hour ahead. It must be treated as a pod that did not report, and the samples of the other pods
// must still be used.
func TestPodWithAClockAheadDoesNotHideOtherPods(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-5 * time.Second)
	var pods []engine.Pod
	for i := range 4 {
		name := fmt.Sprintf("llama-%d", i)
		pods = append(pods, engine.Pod{Name: name, Ready: true, IP: "127.0.0.1"})
		server.put(fmt.Sprintf(`{__name__="vllm:num_requests_waiting",namespace="chat",pod=%q}`, name), at, 10)
	}
	handler := server.Config.Handler
	// The handler changes the sample of llama-3: its value is 0, and its time is an hour ahead.
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		record := &recorder{header: w.Header()}
		handler.ServeHTTP(record, r)
		const honest = `"pod":"llama-3"`
		before, after, _ := strings.Cut(record.String(), honest)
		head, rest, _ := strings.Cut(after, `[[`)
		_, rest, _ = strings.Cut(rest, `]]`)
		fmt.Fprintf(w, `%s%s%s[[%s,"0"]]%s`, before, honest, head, unixSeconds(time.Now().Add(time.Hour)), rest)
	})
	w := compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"})
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: pods}})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || r.Value != 30 || r.Coverage != 0.75 || r.Reported != 3 {
		t.Errorf("%+v, want 30 from three of four pods; %+v", r, statuses(p))
	}
}

// The histograms of a page whose samples are an hour ahead must not be added to the window. After the clock is correct again, two more
// pages are needed before the latency is known.
func TestLatencyOfAPageWithAClockAheadIsUnknown(t *testing.T) {
	server := newPodServer(t)
	page := func(ahead time.Duration, count int) {
		at := time.Now().Add(ahead).UnixMilli()
		server.does(text(fmt.Sprintf("# TYPE vllm:time_to_first_token_seconds histogram\n"+
			"vllm:time_to_first_token_seconds_bucket{le=\"1\"} %d %d\n"+
			"vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} %d %d\n"+
			"vllm:time_to_first_token_seconds_sum 5 %d\n"+
			"vllm:time_to_first_token_seconds_count %d %d\n",
			count, at, count, at, at, count, at)))
	}
	w := compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "timeToFirstToken",
		Window: time.Minute, Quantile: 0.9})
	p := scrapePoller(t, w, server.source(policy.SourceVLLM), readyPods("llama-0"))
	for i := range 3 {
		page(time.Hour+time.Duration(i)*time.Second, 10*i)
		pollOnce(t, p)
		if r := read(p, w)[0]; r.Known || r.Cause != scaling.CauseUntimed {
			t.Errorf("page %d, an hour ahead: %+v", i, r)
		}
	}
	for i := range 2 {
		page(time.Duration(i-10)*time.Second, 100+10*i)
		pollOnce(t, p)
		if r := read(p, w)[0]; r.Known != (i == 1) {
			t.Errorf("page %d with a right time: %+v; %+v", i, r, statuses(p))
		}
	}
}

// recorder stores a response, so that a test can change the response before it is sent.
type recorder struct {
	bytes.Buffer
	header http.Header
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}
