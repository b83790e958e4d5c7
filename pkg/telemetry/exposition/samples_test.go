package exposition

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/shareddata"
)

// sampleFile opens a recorded /metrics page.
func sampleFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(shareddata.Path(t, "metrics/"+name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

var scraped = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func parseEngine(t *testing.T, engine, file string, metrics ...string) (*Profile, []Sample) {
	t.Helper()
	p, ok := Engine(engine)
	if !ok {
		t.Fatalf("no profile %q", engine)
	}
	var out []Sample
	err := Parse(sampleFile(t, file), p.SeriesNames(metrics...), DefaultLimits, scraped, func(s *Sample) {
		c := *s
		c.Labels = append(Labels(nil), s.Labels...)
		out = append(out, c)
	})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return p, out
}

func TestValuesOfRealPages(t *testing.T) {
	for _, c := range []struct {
		file, engine, metric string
		want                 float64
		quality              Quality
	}{
		{"vllm_mixed_v0_v1_datadog.prom", "vllm", RequestsWaiting, 0, Good},
		{"vllm_mixed_v0_v1_datadog.prom", "vllm", RequestsRunning, 0, Good},
		{"vllm_mixed_v0_v1_datadog.prom", "vllm", KVCacheUsage, 0, Good},
		{"vllm_v1_docs.prom", "vllm", RequestsRunning, 8, Good},
		{"vllm_v1_docs.prom", "vllm", RequestsWaiting, 0, Missing}, // the page does not contain the metric, so its value is missing and not 0
		{"vllm_v1_docs.prom", "vllm", KVCacheUsage, 0, Missing},
		{"sglang_docs.prom", "sglang", KVCacheUsage, 0.28, Good},
		{"sglang_docs.prom", "sglang", RequestsWaiting, 0, Missing},
		{"triton_datadog.prom", "triton", RequestsWaiting, 0, Good},
		{"triton_datadog.prom", "triton", GPUUtilization, 0, Good},
		{"triton_datadog.prom", "triton", KVCacheUsage, 0, Missing},
		{"nim_llama31_8b_datadog.prom", "nim", RequestsRunning, 1, Good},
		{"nim_llama31_8b_datadog.prom", "nim", RequestsWaiting, 0, Good},
		{"nim_llama31_8b_datadog.prom", "nim", KVCacheUsage, 0.0002848191398461977, Good},
		{"ray_vllm_datadog.prom", "ray", KVCacheUsage, 5.882698982295764e-05, Good},
		{"ray_vllm_datadog.prom", "ray", RequestsWaiting, 0, Good},
		{"vllm_v1_docs.prom", "sglang", RequestsRunning, 0, Missing}, // the page is from another engine
	} {
		p, samples := parseEngine(t, c.engine, c.file, c.metric)
		m, _ := p.Lookup(c.metric)
		var cell Cell
		for i := range samples {
			cell.Add(p, m, &samples[i])
		}
		if v := cell.Value(m); v.Quality != c.quality || math.Abs(v.Value-c.want) > 1e-12 {
			t.Errorf("%s: %s %s reads %+v, want %g (quality %d)", c.file, c.engine, c.metric, v, c.want, c.quality)
		}
	}
}

func TestLatenciesOfRealPages(t *testing.T) {
	for _, c := range []struct {
		file, engine, metric string
		quantile             float64
		want                 float64
		quality              Quality
	}{
		// The histogram has 140 observations. The 0.9 quantile is observation 126, which is the third of the 15 in the bucket (0.06, 0.08].
		{"vllm_v1_docs.prom", "vllm", TimeToFirstToken, 0.9, 0.06 + 0.02*3/15, Good},
		// The only observation is in the bucket (0.25, 0.5], and its exact value is the sum of the histogram. The mean is this exact value.
		{"vllm_mixed_v0_v1_datadog.prom", "vllm", TimeToFirstToken, 0.5, 0.375, Good},
		{"vllm_mixed_v0_v1_datadog.prom", "vllm", TimeToFirstToken, 0, 0.31326723098754883, Good},
		// The three requests of the sample waited 145 microseconds in total.
		{"triton_datadog.prom", "triton", QueueTime, 0, 145e-6 / 3, Good},
	} {
		p, samples := parseEngine(t, c.engine, c.file, c.metric)
		m, _ := p.Lookup(c.metric)
		var counters Counters
		for i := range samples {
			counters.Add(m, &samples[i])
		}
		h, at, ok := counters.Histogram()
		v, q := m.Latency(&h, c.quantile)
		if !ok || q != c.quality || math.Abs(v-c.want) > 1e-12 || !at.Equal(scraped) {
			t.Errorf("%s: %s at %g reads %g (%d), want %g", c.file, c.metric, c.quantile, v, q, c.want)
		}
	}
}

func parseGPUs(t *testing.T, file string) map[Owner]*GPUs {
	t.Helper()
	read := map[string]bool{}
	for _, n := range DCGMNames(Activity, Memory, TensorActivity, DRAMActivity) {
		read[n] = true
	}
	out := map[Owner]*GPUs{}
	err := Parse(sampleFile(t, file), read, DefaultLimits, scraped, func(s *Sample) {
		o, _ := GPUOwner(s.Labels) // samples of GPUs that no pod uses have the zero Owner
		if out[o] == nil {
			out[o] = &GPUs{}
		}
		out[o].Add(s)
	})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return out
}

func TestGPUsOfRealPages(t *testing.T) {
	free := Owner{}
	for _, c := range []struct {
		file    string
		owner   Owner
		metric  string
		want    float64
		quality Quality
	}{
		// One pod uses two GPUs. A third GPU is free, so its series have no pod labels.
		{"dcgm_l40s_multigpu_pod_issueDCGM226.prom", Owner{"redacted", "tensorflow-0"}, Activity, 0, Good},
		{"dcgm_mig_h100_issue512.prom", Owner{"model-playground-stg", "tts-predictor-00011-deployment-5554f75554-8j8pl"}, Activity, 0, Good},
		{"dcgm_mig_h100_issue512.prom", Owner{"model-playground-stg", "tts-predictor-00011-deployment-5554f75554-8j8pl"}, Memory, 0, Missing},
		// The series have lower-case names. Their labels pod_namespace and pod_name are empty, because no pod uses the MIG instances.
		{"dcgm_mig_a100_oldnamespace_issue272.prom", free, Activity, 0, Good},
		// The GPU is busy, but its pod labels are empty. The pod that uses it is therefore not known.
		{"dcgm_v100_emptylabels_gmt138.prom", free, Activity, 0.44, Good},
		{"dcgm_t4_nolabels_datadog.prom", free, Activity, 0, Good},
		{"dcgm_t4_nolabels_datadog.prom", free, Memory, 0, Good},
		{"dcgm_t4_nolabels_datadog.prom", Owner{"ray-llm", "ray-1111111"}, DRAMActivity, 0.000003, Good},
		{"dcgm_t4_nolabels_datadog.prom", Owner{"ray-llm", "ray-1111111"}, Activity, 0, Missing},
	} {
		g := parseGPUs(t, c.file)[c.owner]
		if g == nil {
			t.Errorf("%s: nothing of %v", c.file, c.owner)
			continue
		}
		if v := g.Value(c.metric); v.Quality != c.quality || math.Abs(v.Value-c.want) > 1e-12 {
			t.Errorf("%s: %s of %v reads %+v, want %g (quality %d)", c.file, c.metric, c.owner, v, c.want, c.quality)
		}
	}
}

func TestEveryRealPageParses(t *testing.T) {
	dir := shareddata.Path(t, "metrics")
	pages, err := filepath.Glob(filepath.Join(dir, "*.prom"))
	if err != nil || len(pages) < 12 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]bool{}
		for _, line := range splitLines(text) {
			if len(line) > 0 && line[0] != '#' {
				all[metricName(line)] = true
			}
		}
		n := 0
		if err := Parse(bytesReader(text), all, DefaultLimits, scraped, func(*Sample) { n++ }); err != nil || n == 0 {
			t.Errorf("%s: %d samples: %v", filepath.Base(page), n, err)
		}
	}
}
