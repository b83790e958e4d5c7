package exposition

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

const serverSamples = "testdata/servers"

// serverCases contains the values that the profiles must read from the sample pages.
var serverCases = []struct {
	page, engine, metric string
	want                 float64
}{
	{"vllm.prom", "vllm", RequestsWaiting, 3 + 0},
	{"vllm.prom", "vllm", RequestsRunning, 8 + 4},
	{"vllm.prom", "vllm", KVCacheUsage, 0.75},
	{"vllm.prom", "vllm", TimeToFirstToken, 0.25},
	{"vllm.prom", "vllm", InterTokenLatency, 0.05},
	{"vllm.prom", "vllm", RequestLatency, 4},
	{"vllm.prom", "vllm", QueueTime, 0.125},
	{"kserve.prom", "vllm", RequestsRunning, 6},   // KServe passes on the metrics of its engine
	{"sglang.prom", "sglang", RequestsWaiting, 5}, // the series with a priority are included in the total
	{"sglang.prom", "sglang", RequestsRunning, 7},
	{"sglang.prom", "sglang", KVCacheUsage, 0.25},
	{"sglang.prom", "sglang", TimeToFirstToken, 0.5},
	{"sglang.prom", "sglang", InterTokenLatency, 0.01},
	{"sglang.prom", "sglang", RequestLatency, 2},
	{"sglang.prom", "sglang", QueueTime, 0.25},
	{"sglang-prefill.prom", "sglang", RequestsWaiting, 2 + 4}, // includes the bootstrap queue
	{"sglang-prefill.prom", "sglang", RequestsRunning, 3 + 6}, // includes prefills in flight
	{"sglang-decode.prom", "sglang", RequestsWaiting, 1 + 8},  // includes the preallocation queue
	{"sglang-decode.prom", "sglang", RequestsRunning, 9 + 2},  // includes transfers of KV caches
	{"triton.prom", "triton", RequestsWaiting, 3 + 4},
	{"triton.prom", "triton", GPUUtilization, 0.375},
	{"triton.prom", "triton", QueueTime, 0.02},
	{"triton.prom", "triton", RequestLatency, 0.2},
	{"triton-trtllm.prom", "triton", RequestsWaiting, 3}, // Triton's own gauge of pending requests is 0
	{"triton-trtllm.prom", "triton", RequestsRunning, 8},
	{"triton-trtllm.prom", "triton", KVCacheUsage, 0.4875},
	{"trtllm.prom", "trtllm", RequestsWaiting, 5},
	{"trtllm.prom", "trtllm", RequestsRunning, 12},
	{"trtllm.prom", "trtllm", KVCacheUsage, 0.625},
	{"trtllm.prom", "trtllm", TimeToFirstToken, 0.125},
	{"trtllm.prom", "trtllm", InterTokenLatency, 0.025},
	{"trtllm.prom", "trtllm", RequestLatency, 2.5},
	{"trtllm.prom", "trtllm", QueueTime, 0.25},
	{"dynamo.prom", "dynamo", RequestsRunning, 9}, // without the requests of the endpoint clear_kv_blocks
	{"dynamo.prom", "dynamo", KVCacheUsage, 0.75},
	{"dynamo.prom", "dynamo", RequestLatency, 1.5},
	{"dynamo.prom", "trtllm", QueueTime, 0.25}, // the page of a Dynamo worker contains its engine's metrics
	{"nim.prom", "nim", RequestsWaiting, 2},
	{"nim.prom", "nim", RequestsRunning, 6},
	{"nim.prom", "nim", KVCacheUsage, 0.375},
	{"nim.prom", "nim", TimeToFirstToken, 0.25},
	{"nim.prom", "nim", InterTokenLatency, 0.025},
	{"nim.prom", "nim", RequestLatency, 2},
	{"ray.prom", "ray", RequestsWaiting, 2 + 3},
	{"ray.prom", "ray", RequestsRunning, 4 + 4},
	{"ray.prom", "ray", KVCacheUsage, 0.5},
	{"ray.prom", "ray", "queuedQueries", 6},
	{"ray.prom", "ray", "processingQueries", 4 + 5},
	{"ray.prom", "ray", TimeToFirstToken, 0.25},
	{"ray.prom", "ray", InterTokenLatency, 0.05},
	{"ray.prom", "ray", RequestLatency, 4},
	{"ray.prom", "ray", QueueTime, 0.125},
	{"tgi.prom", "tgi", RequestsWaiting, 5},
	{"tgi.prom", "tgi", RequestsRunning, 8},
	{"tgi.prom", "tgi", QueueTime, 0.25},
	{"tgi.prom", "tgi", RequestLatency, 2},
	{"tgi.prom", "tgi", InterTokenLatency, 0.05},
}

// undocumented contains the metrics for which no sample page exists, because the documentation of the model server does not contain them.
var undocumented = map[string]bool{"nim " + QueueTime: true}

func TestProfilesReadTheSamples(t *testing.T) {
	for _, c := range serverCases {
		p, ok := Engine(c.engine)
		if !ok {
			t.Fatalf("no profile %s", c.engine)
		}
		if v := meanOf(t, p, c.page, c.metric); v.Quality != Good || math.Abs(v.Value-c.want) > 1e-9 {
			t.Errorf("%s: %s %s reads %+v, want %g", c.page, c.engine, c.metric, v, c.want)
		}
	}
}

// meanOf returns the value of a gauge on a sample page, or the mean of a latency over all observations on the page.
func meanOf(t *testing.T, p *Profile, page, metric string) Value {
	t.Helper()
	f, err := os.Open(filepath.Join(serverSamples, page))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, ok := p.Lookup(metric)
	if !ok {
		t.Fatalf("%s has no metric %s", p.Engine, metric)
	}
	var cell Cell
	var counters Counters
	err = Parse(f, p.SeriesNames(metric), DefaultLimits, scraped, func(s *Sample) {
		if m.Shape == Gauge {
			cell.Add(p, m, s)
		} else {
			counters.Add(m, s)
		}
	})
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	if m.Shape == Gauge {
		return cell.Value(m)
	}
	h, _, ok := counters.Histogram()
	if !ok {
		return Value{}
	}
	v, quality := m.Latency(&h, 0)
	return Value{Value: v, At: scraped, Quality: quality}
}

// Each metric of a model server that a policy can use must have a test case with a sample page. Each sample page must contain the source
// from which its metric names were copied.
func TestEveryMetricOfAServerHasASample(t *testing.T) {
	// Three pages are not in serverCases, because only queries in package telemetry use them.
	covered, used := map[string]bool{}, map[string]bool{"llm-d.prom": true, "dynamo-frontend.prom": true, "amd.prom": true}
	for _, c := range serverCases {
		covered[c.engine+" "+c.metric], used[c.page] = true, true
	}
	for _, engine := range policy.ModelServers() {
		p, ok := Engine(string(engine))
		if !ok {
			t.Fatalf("no profile %s", engine)
		}
		for i := range p.Metrics {
			key := p.Engine + " " + p.Metrics[i].Name
			if covered[key] == undocumented[key] {
				t.Errorf("%s: a sample %t, listed as undocumented %t", key, covered[key], undocumented[key])
			}
		}
	}
	source := regexp.MustCompile(`^# (source: [\w.-]+/[\w.-]+ [\w./-]+ [0-9a-f]{40}|documentation: https://\S+)$`)
	pages, err := filepath.Glob(filepath.Join(serverSamples, "*.prom"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(string(text), "\n"); !source.MatchString(first) {
			t.Errorf("%s: the first line does not name a source: %s", page, first)
		}
		if !used[filepath.Base(page)] {
			t.Errorf("%s: no case reads it", page)
		}
	}
}

// Some servers have an additional queue, which is added to the value. It is not used without the main queue, because a page without the
// main queue does not show the load of the server.
func TestOptionalTermsAddUpAndAreNoValueAlone(t *testing.T) {
	p, _ := Engine("sglang")
	m, _ := p.Lookup(RequestsWaiting)
	read := func(samples ...Sample) Value {
		var c Cell
		for i := range samples {
			c.Add(p, m, &samples[i])
		}
		return c.Value(m)
	}
	queue, prealloc := series("sglang:num_queue_reqs{}", 1, scraped), series("sglang:num_decode_prealloc_queue_reqs{}", 8, scraped)
	oldName := series("sglang:num_prefill_prealloc_queue_reqs{}", 4, scraped)
	newName := series("sglang:num_prefill_bootstrap_queue_reqs{}", 5, scraped)
	for _, c := range []struct {
		name    string
		samples []Sample
		want    Value
	}{
		{"both queues", []Sample{prealloc, queue}, Value{9, scraped, Good}},
		{"only the additional queue", []Sample{prealloc}, Value{}},
		{"an older server without the additional queues", []Sample{queue}, Value{1, scraped, Good}},
		{"both names of one queue: the newer one", []Sample{oldName, queue, newName}, Value{6, scraped, Good}},
		{"an unusable additional queue", []Sample{queue, series("sglang:num_decode_prealloc_queue_reqs{}", -1, scraped)},
			Value{0, scraped, Blank}},
	} {
		if got := read(c.samples...); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
