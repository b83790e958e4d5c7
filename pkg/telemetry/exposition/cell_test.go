package exposition

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// series returns a sample for a series that is written as name{a="b",c="d"}.
func series(text string, v float64, at time.Time) Sample {
	name, rest, _ := strings.Cut(text, "{")
	s := Sample{Name: name, Value: v, At: at}
	for _, pair := range strings.Split(strings.TrimSuffix(rest, "}"), ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			s.Labels = append(s.Labels, Label{k, v})
		}
	}
	return s
}

type given struct {
	series string
	value  float64
	age    time.Duration
}

func TestValueOfAPodIsComputedFromItsSeries(t *testing.T) {
	for _, c := range []struct {
		name, engine, metric string
		given                []given
		want                 Value
	}{
		{"two models of a server add up", "vllm", RequestsWaiting,
			[]given{{"vllm:num_requests_waiting{model_name=a}", 3, 0}, {"vllm:num_requests_waiting{model_name=b}", 4, 0}}, Value{7, scraped, Good}},
		{"underscores for colons", "vllm", RequestsWaiting, []given{{"vllm_num_requests_waiting{}", 3, 0}}, Value{3, scraped, Good}},
		{"both generations of cache use: the newer one counts", "vllm", KVCacheUsage,
			[]given{{"vllm:gpu_cache_usage_perc{}", 0.9, 0}, {"vllm:kv_cache_usage_perc{}", 0.4, 0}}, Value{0.4, scraped, Good}},
		{"only the older generation", "vllm", KVCacheUsage, []given{{"vllm:gpu_cache_usage_perc{}", 0.9, 0}}, Value{0.9, scraped, Good}},
		{"the fullest of two engines", "vllm", KVCacheUsage,
			[]given{{"vllm:kv_cache_usage_perc{engine=0}", 0.9, 0}, {"vllm:kv_cache_usage_perc{engine=1}", 0.1, 0}}, Value{0.9, scraped, Good}},
		{"ranks of a tensor-parallel group repeat one queue", "sglang", RequestsWaiting,
			[]given{{"sglang:num_queue_reqs{tp_rank=0}", 5, 0}, {"sglang:num_queue_reqs{tp_rank=1}", 5, 0},
				{"sglang:num_queue_reqs{tp_rank=2}", 4, 0}}, Value{5, scraped, Good}},
		{"data-parallel ranks have queues of their own", "sglang", RequestsWaiting,
			[]given{{"sglang:num_queue_reqs{dp_rank=0,tp_rank=0}", 5, 0}, {"sglang:num_queue_reqs{dp_rank=1,tp_rank=0}", 2, 0}},
			Value{7, scraped, Good}},
		{"two scrape jobs of one pod", "vllm", RequestsWaiting,
			[]given{{"vllm:num_requests_waiting{job=a,instance=x}", 5, time.Minute}, {"vllm:num_requests_waiting{job=b,instance=x}", 2, 0}},
			Value{2, scraped, Good}},
		{"two containers of one pod", "vllm", RequestsWaiting,
			[]given{{"vllm:num_requests_waiting{instance=x:1}", 5, 0}, {"vllm:num_requests_waiting{instance=x:2}", 2, 0}}, Value{7, scraped, Good}},
		{"the oldest part dates the whole", "vllm", RequestsWaiting,
			[]given{{"vllm:num_requests_waiting{model_name=a}", 5, time.Minute}, {"vllm:num_requests_waiting{model_name=b}", 2, 0}},
			Value{7, scraped.Add(-time.Minute), Good}},
		{"-1 is Ray's word for unknown", "ray", KVCacheUsage, []given{{"ray_vllm:gpu_cache_usage_perc{}", -1, 0}}, Value{0, scraped, Blank}},
		{"one blank part spoils the sum", "vllm", RequestsWaiting,
			[]given{{"vllm:num_requests_waiting{model_name=a}", 5, 0}, {"vllm:num_requests_waiting{model_name=b}", math.NaN(), 0}},
			Value{0, scraped, Blank}},
		{"infinitely many", "vllm", RequestsWaiting, []given{{"vllm:num_requests_waiting{}", math.Inf(1), 0}}, Value{0, scraped, Blank}},
		{"absurdly many", "vllm", RequestsWaiting, []given{{"vllm:num_requests_waiting{}", 9223372036854775794, 0}}, Value{0, scraped, Blank}},
		{"a percentage where a fraction belongs", "vllm", KVCacheUsage, []given{{"vllm:kv_cache_usage_perc{}", 55, 0}}, Value{0, scraped, Blank}},
		{"a little above full is full", "vllm", KVCacheUsage, []given{{"vllm:kv_cache_usage_perc{}", 1.0000001, 0}}, Value{1, scraped, Good}},
		{"TRT-LLM's queue before Triton's own", "triton", RequestsWaiting,
			[]given{{"nv_inference_pending_request_count{model=a}", 0, 0}, {"nv_trt_llm_request_metrics{request_type=waiting,model=a}", 6, 0},
				{"nv_trt_llm_request_metrics{request_type=scheduled,model=a}", 9, 0}}, Value{6, scraped, Good}},
		{"the GPUs of a Triton pod on average", "triton", GPUUtilization,
			[]given{{"nv_gpu_utilization{gpu_uuid=a}", 1, 0}, {"nv_gpu_utilization{gpu_uuid=b}", 0.5, 0}}, Value{0.75, scraped, Good}},
		{"NIM without a prefix", "nim", RequestsWaiting, []given{{"num_requests_waiting{}", 2, 0}}, Value{2, scraped, Good}},
		{"TGI", "tgi", RequestsWaiting, []given{{"tgi_queue_size{}", 2, 0}}, Value{2, scraped, Good}},
		{"Ray Serve's own queue over handles", "ray", "queuedQueries",
			[]given{{"ray_serve_deployment_queued_queries{deployment=d,handle=a}", 2, 0},
				{"ray_serve_deployment_queued_queries{deployment=d,handle=b}", 3, 0}}, Value{5, scraped, Good}},
		{"series of another engine", "vllm", RequestsWaiting, []given{{"tgi_queue_size{}", 2, 0}}, Value{}},
	} {
		p, _ := Engine(c.engine)
		m, ok := p.Lookup(c.metric)
		if !ok {
			t.Fatalf("%s: no metric %s", c.name, c.metric)
		}
		for round := range 10 { // in random order, because the samples in a response have no order
			rand.Shuffle(len(c.given), func(i, j int) { c.given[i], c.given[j] = c.given[j], c.given[i] })
			var cell Cell
			for _, g := range c.given {
				s := series(g.series, g.value, scraped.Add(-g.age))
				cell.Add(p, m, &s)
			}
			if got := cell.Value(m); got != c.want {
				t.Errorf("%s: %+v, want %+v (round %d)", c.name, got, c.want, round)
				break
			}
		}
	}
}

func TestBlankValueIsNeverGood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &engines[rapid.IntRange(0, len(engines)-1).Draw(t, "engine")]
		m := &p.Metrics[rapid.IntRange(0, len(p.Metrics)-1).Draw(t, "metric")]
		if m.Shape != Gauge {
			return
		}
		var cell Cell
		blank := false
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			v := rapid.Float64().Draw(t, "v")
			s := Sample{Name: m.From[0].Name, Value: v, At: scraped,
				Labels: Labels{{p.Parts[0], rapid.String().Draw(t, "part")}, {m.From[0].Label, m.From[0].Value}}}
			cell.Add(p, m, &s)
		}
		for _, part := range cell.parts {
			blank = blank || math.IsNaN(part.value) || part.value < 0 || part.value > Absurd
		}
		v := cell.Value(m)
		if blank && v.Quality == Good {
			t.Fatalf("%+v is good, of %+v", v, cell.parts)
		}
		if v.Quality == Good && !(v.Value >= 0 && v.Value <= 5*Absurd) {
			t.Fatalf("good %v", v.Value)
		}
	})
}
