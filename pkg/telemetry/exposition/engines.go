package exposition

import "slices"

// The engines, with names as they were found in the projects' sources and in real output. The mapping across engines follows the
// Gateway API inference extension's model server protocol.
var engines = []Profile{vllm(), sglang(), triton(), nim(), ray(), tgi()}

// vLLM's names without a prefix, newest first. V1 renamed gpu_cache_usage_perc and time_per_output_token_seconds.
func vllmMetrics(spell func(names ...string) []Series) []Metric {
	return []Metric{
		gauge(RequestsWaiting, Sum, spell("num_requests_waiting")...),
		gauge(RequestsRunning, Sum, spell("num_requests_running")...),
		usage(KVCacheUsage, spell("kv_cache_usage_perc", "gpu_cache_usage_perc")...),
		latency(TimeToFirstToken, spell("time_to_first_token_seconds")...),
		latency(InterTokenLatency, spell("inter_token_latency_seconds", "time_per_output_token_seconds")...),
		latency(RequestLatency, spell("e2e_request_latency_seconds")...),
		latency(QueueTime, spell("request_queue_time_seconds")...),
	}
}

var vllmParts = []string{"instance", "model_name", "engine"}

func vllm() Profile {
	spell := func(names ...string) []Series { return spelled("vllm", names...) }
	return Profile{Engine: "vllm", Port: 8000, Path: "/metrics", Parts: vllmParts, Metrics: vllmMetrics(spell)}
}

func sglang() Profile {
	spell := func(names ...string) []Series { return spelled("sglang", names...) }
	return Profile{
		Engine: "sglang", Port: 30000, Path: "/metrics",
		// tp_rank, pp_rank and moe_ep_rank are not parts: each rank of a parallel group repeats the group's one queue.
		Parts: []string{"instance", "model_name", "engine_type", "dp_rank"},
		Metrics: []Metric{
			gauge(RequestsWaiting, Sum, spell("num_queue_reqs")...),
			gauge(RequestsRunning, Sum, spell("num_running_reqs")...),
			usage(KVCacheUsage, spell("token_usage")...),
			latency(TimeToFirstToken, spell("time_to_first_token_seconds")...),
			latency(InterTokenLatency, spell("inter_token_latency_seconds", "time_per_output_token_seconds")...),
			latency(RequestLatency, spell("e2e_request_latency_seconds")...),
			latency(QueueTime, spell("queue_time_seconds")...),
		},
	}
}

func triton() Profile {
	const trt = "nv_trt_llm_request_metrics"
	micros := func(name, counter string) Metric {
		return Metric{Name: name, Shape: Quotient, Scale: 1e-6, Busy: []string{RequestsWaiting}, From: []Series{{Name: counter, Per: "nv_inference_request_success"}}}
	}
	gpu := gauge(GPUUtilization, Average, plain("nv_gpu_utilization")...)
	gpu.Max = fullCache
	return Profile{
		Engine: "triton", Port: 8002, Path: "/metrics",
		Parts: []string{"instance", "model", "version", "gpu_uuid"},
		Metrics: []Metric{
			// The TRT-LLM backend takes requests in at once, so that Triton's own pending count stays at 0 while they wait inside.
			gauge(RequestsWaiting, Sum, labelled(trt, "request_type", "waiting"), Series{Name: "trtllm_num_requests_waiting"},
				Series{Name: "nv_inference_pending_request_count"}),
			gauge(RequestsRunning, Sum, labelled(trt, "request_type", "scheduled"), Series{Name: "trtllm_num_requests_running"}),
			usage(KVCacheUsage, labelled("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "fraction"),
				Series{Name: "trtllm_kv_cache_utilization"}),
			micros(QueueTime, "nv_inference_queue_duration_us"),
			micros(RequestLatency, "nv_inference_request_duration_us"),
			gpu,
		},
	}
}

// NIM serves vLLM's names without a prefix; newer images serve vLLM's own.
func nim() Profile {
	spell := func(names ...string) []Series { return slices.Concat(plain(names...), spelled("vllm", names...)) }
	return Profile{Engine: "nim", Port: 8000, Path: "/v1/metrics", Parts: vllmParts, Metrics: vllmMetrics(spell)}
}

// Ray exports vLLM's metrics under its own prefix, beside those of Ray Serve. SessionName and WorkerId change at each restart, so
// only WorkerId is a part: two workers on one node are two engines.
func ray() Profile {
	spell := func(names ...string) []Series { return spelled("ray_vllm", names...) }
	metrics := append(vllmMetrics(spell),
		gauge("queuedQueries", Sum, plain("ray_serve_deployment_queued_queries")...),
		gauge("processingQueries", Sum, plain("ray_serve_replica_processing_queries")...),
	)
	return Profile{
		Engine: "ray", Port: 8080, Path: "/metrics", Metrics: metrics,
		Parts: []string{"instance", "model_name", "engine", "WorkerId", "application", "deployment", "replica", "handle", "actor_id"},
	}
}

func tgi() Profile {
	return Profile{
		Engine: "tgi", Port: 80, Path: "/metrics", Parts: []string{"instance"},
		Metrics: []Metric{
			gauge(RequestsWaiting, Sum, plain("tgi_queue_size")...),
			gauge(RequestsRunning, Sum, plain("tgi_batch_current_size")...),
			latency(QueueTime, plain("tgi_request_queue_duration")...),
			latency(RequestLatency, plain("tgi_request_duration")...),
			latency(InterTokenLatency, plain("tgi_request_mean_time_per_token_duration")...),
		},
	}
}
