package telemetry

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// sampled is a gauge on the sample page of a server. target contains the labels that Prometheus adds when it scrapes the page.
type sampled struct{ page, gauge, target string }

// put stores the series of the gauge with the labels in target, as Prometheus does.
func (g sampled) put(t *testing.T, server *testPrometheus, at time.Time) {
	t.Helper()
	f, err := os.Open(filepath.Join("exposition", "testdata", "servers", g.page))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	count := 0
	err = exposition.Parse(f, map[string]bool{g.gauge: true}, exposition.DefaultLimits, at, func(s *exposition.Sample) {
		labels := []string{g.target}
		for _, l := range s.Labels {
			labels = append(labels, l.Name+`="`+l.Value+`"`)
		}
		server.put(s.Name+"{"+strings.Join(labels, ",")+"}", at, s.Value)
		count++
	})
	if err != nil || count == 0 {
		t.Fatalf("%s: %d samples of %s: %v", g.page, count, g.gauge, err)
	}
}

// llm-d and Dynamo have a router in front of the model servers, which counts the requests of a pool or a model. A query of the
// PlatformConfig reads these requests for the workload that serves the pool or the model. config/guides/support.md contains the queries for
// the waiting requests.
func TestQueriesReadRoutersInFrontOfModelServers(t *testing.T) {
	const target = `namespace="chat",pod="router-0"`
	for _, c := range []struct {
		page, metric, query, label, value string
		want                              float64
	}{
		{"llm-d.prom", "llm_d_epp_flow_control_queue_size",
			`sum by (namespace, inference_pool) (llm_d_epp_flow_control_queue_size)`, "inference_pool", "llama", 4 + 3},
		{"llm-d.prom", "llm_d_epp_request_running",
			`sum by (namespace, model_name) (llm_d_epp_request_running)`, "model_name", "qwen", 9},
		{"dynamo-frontend.prom", "dynamo_frontend_queued_requests",
			`sum by (namespace, model) (dynamo_frontend_queued_requests)`, "model", "qwen", 7},
		{"dynamo-frontend.prom", "dynamo_frontend_inflight_requests",
			`sum by (namespace, model) (dynamo_frontend_inflight_requests)`, "model", "qwen", 10},
	} {
		server := newTestPrometheus(t)
		at := time.Now().Add(-10 * time.Second).Truncate(time.Second)
		sampled{c.page, c.metric, target}.put(t, server, at)
		source := querySource()
		source.Query, source.WorkloadLabel, source.LabelValue = c.query, c.label, c.value
		w := compiled("chat", "llama", source)
		p := newPoller(t, Options{})
		p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
		pollOnce(t, p)
		if r := read(p, w)[0]; !r.Known || r.Value != c.want || !r.At.Equal(at) {
			t.Errorf("%s reads %+v, want %g at %s", c.query, r, c.want, at)
		}
	}
}

// AMD's exporter writes the pod of each GPU into the labels namespace and pod, and the ServiceMonitor of its chart keeps them
// (honorLabels). The query in config/guides/support.md derives the name of the Deployment from the name of the pod, and adds it to the
// series as a label.
func TestQueryReadsTheActivityOfAMDGPUs(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-10 * time.Second).Truncate(time.Second)
	sampled{"amd.prom", "gpu_gfx_activity", `instance="10.0.0.1:5000"`}.put(t, server, at)
	for name, want := range map[string]float64{"llama": (80 + 60) / 2, "llama-large": 10} {
		source := querySource()
		source.Query = `avg by (namespace, workload) (label_replace(gpu_gfx_activity{pod!=""}, "workload", "$1", "pod", ` +
			`"(.+)-[a-z0-9]+-[a-z0-9]{5}"))`
		source.WorkloadLabel, source.LabelValue = "workload", name
		w := compiled("chat", name, source)
		p := newPoller(t, Options{})
		p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
		pollOnce(t, p)
		if r := read(p, w)[0]; !r.Known || r.Value != want || !r.At.Equal(at) {
			t.Errorf("%s: %+v, want %g at %s", name, r, want, at)
		}
	}
}

// For a data source without a path, the usual path of its model server is read. A path that the user configured is read unchanged, even
// if it is /metrics, because newer images of NIM serve that path.
func TestScrapeReadsThePathOfTheServer(t *testing.T) {
	for _, c := range []struct {
		server        policy.SourceType
		written, want string
	}{
		{policy.SourceVLLM, "", "/metrics"},
		{policy.SourceNIM, "", "/v1/metrics"},
		{policy.SourceNIM, "/metrics", "/metrics"},
		{policy.SourceTRTLLM, "", "/prometheus/metrics"},
		{policy.SourceTRTLLM, "/metrics", "/metrics"},
		{policy.SourceDynamo, "", "/metrics"},
	} {
		server, read := newPodServer(t), ""
		server.does(func(_ http.ResponseWriter, r *http.Request) { read = r.URL.Path })
		source := server.source(c.server)
		source.Path = c.written
		w := compiled("chat", "llama", policy.Source{Type: c.server, DataSource: "pods", Metric: "requestsRunning"})
		pollOnce(t, scrapePoller(t, w, source, readyPods("llama-0")))
		if read != c.want {
			t.Errorf("%s with path %q: read %q, want %q", c.server, c.written, read, c.want)
		}
	}
}
