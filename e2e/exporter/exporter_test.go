package exporter

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

func testWorkload(load Load) *Workload {
	return &Workload{
		Namespace: "team", Name: "chat", Container: "vllm", Model: "llama", GPUs: 2, Load: load,
		pods: map[string]Pod{
			"chat-a1": {Name: "chat-a1", Node: "n0", Ready: true, odd: true},
			"chat-a2": {Name: "chat-a2", Node: "n0", Ready: true},
			"chat-a3": {Name: "chat-a3", Node: "n0", odd: true}, // not ready, because it loads its weights
		},
	}
}

// scrape parses a page with a strict parser.
func scrape(t *testing.T, server *httptest.Server, path string) (map[string]*dto.MetricFamily, int) {
	t.Helper()
	response, err := http.Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, response.Body)
		return nil, response.StatusCode
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families, response.StatusCode
}

func TestPagesReportTheLoad(t *testing.T) {
	load := &Knobs{}
	load.Set(Values{Waiting: 7, GPUBusy: 0.5, TTFT: 0.3})
	e := New(time.Now, testWorkload(load))
	server := httptest.NewServer(e.Handler())
	defer server.Close()

	dcgm, _ := scrape(t, server, "/dcgm/n0")
	util := dcgm["DCGM_FI_DEV_GPU_UTIL"].GetMetric()
	if len(util) != 6 || util[0].GetGauge().GetValue() != 50 || util[5].GetGauge().GetValue() != 0 {
		t.Errorf("GPU_UTIL %v: want two GPUs for each pod, 50 if it serves and 0 if it loads", util)
	}
	if other, _ := scrape(t, server, "/dcgm/n1"); len(other["DCGM_FI_DEV_GPU_UTIL"].GetMetric()) != 0 {
		t.Error("the page of another node has this node's GPUs")
	}
	if _, status := scrape(t, server, "/vllm/team/chat-a3"); status != http.StatusServiceUnavailable {
		t.Errorf("a server that still loads returns %d", status)
	}

	scrape(t, server, "/vllm/team/chat-a1") // the first scrape starts the counting
	load.Set(Values{Waiting: 7, TTFT: 0.3, Served: 10})
	vllm, _ := scrape(t, server, "/vllm/team/chat-a1")
	if v := vllm["vllm:num_requests_waiting"].GetMetric()[0].GetGauge().GetValue(); v != 7 {
		t.Errorf("%g requests wait, want 7", v)
	}
	h := vllm["vllm:time_to_first_token_seconds"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 10 || math.Abs(h.GetSampleSum()-3) > 1e-9 {
		t.Errorf("histogram %v: want 10 requests of 0.3 s", h)
	}
	for _, b := range h.GetBucket() {
		if want := map[bool]uint64{true: 10}[b.GetUpperBound() >= 0.3]; b.GetCumulativeCount() != want {
			t.Errorf("bucket %g holds %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
		}
	}
}

func TestFaultsAffectOnlyTheirPage(t *testing.T) {
	load := &Knobs{}
	load.Set(Values{GPUBusy: 0.5, Upstream: 3})
	e := New(time.Now, testWorkload(load))
	server := httptest.NewServer(e.Handler())
	defer server.Close()

	e.DCGM.Set(faults.NaN)
	page, _ := scrape(t, server, "/dcgm/n0")
	if v := page["DCGM_FI_PROF_GR_ENGINE_ACTIVE"].GetMetric()[0].GetGauge().GetValue(); v == v {
		t.Errorf("value %g, want NaN", v)
	}
	e.DCGM.Set(faults.HalfPods)
	page, _ = scrape(t, server, "/dcgm/n0")
	if n := len(page["DCGM_FI_DEV_GPU_UTIL"].GetMetric()); n != 2 {
		t.Errorf("%d GPUs left, want the GPUs of one pod in three", n)
	}
	e.DCGM.Set(faults.Empty)
	if page, status := scrape(t, server, "/dcgm/n0"); len(page) != 0 || status != http.StatusOK {
		t.Errorf("an empty page has %d families, status %d", len(page), status)
	}
	page, _ = scrape(t, server, "/gateway")
	if page["inference_extension_flow_control_queue_size"].GetMetric()[0].GetGauge().GetValue() != 3 {
		t.Error("the fault of DCGM affects the gateway")
	}
}

func TestQueueGrowsWithoutReplicasAndDrainsWithThem(t *testing.T) {
	profile := trace.Profile{Name: "steady", Duration: time.Hour, Rate: 10, Seed: 1}
	steady, err := trace.Generate(profile)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1700000000, 0)
	q := &Queue{Arrivals: steady.Stream(), Start: start, Speed: 10, Slots: 8, Hold: 2 * time.Second}
	at := func(seconds, ready int) Values { return q.At(start.Add(time.Duration(seconds)*time.Second), ready) }

	if v := at(2, 0); math.Abs(v.Upstream-200) > 60 || v.Waiting != 0 {
		t.Errorf("20 s of the trace without a replica: %+v, want about 200 at the gateway", v)
	}
	// 10 requests arrive per second of the trace. Two replicas serve 8 requests per second, so the queue grows. Five replicas serve up to 20
	// requests per second, so the queue shrinks to zero.
	before := at(2, 2)
	grown := at(12, 2)
	if grown.Waiting <= before.Waiting || grown.Running != 8 || grown.GPUBusy != 1 {
		t.Errorf("overloaded: %+v after %+v", grown, before)
	}
	drained := at(62, 5)
	if drained.Waiting != 0 || drained.Running < 2 || drained.Running > 6 {
		t.Errorf("drained: %+v, want about 4 requests in each of 5", drained)
	}
}
