package exposition

import "slices"

// engines contains the profile of each supported model server. The names of the series are from the source code and from real output of the
// projects. For series of different engines with the same meaning, engines follows the model server protocol of the Gateway API inference
// extension.
var engines = []Profile{vllm(), sglang(), triton(), nim(), ray(), tgi(), trtllm(), dynamo()}

// vllmMetrics returns the metrics of vLLM. The parameter series adds the prefix of an engine to the names. vLLM V1 renamed
// gpu_cache_usage_perc and time_per_output_token_seconds. These metrics have two names here, with the newest name first.
func vllmMetrics(series func(names ...string) []Series) []Metric {
	return []Metric{
		gauge(RequestsWaiting, Sum, series("num_requests_waiting")...),
		gauge(RequestsRunning, Sum, series("num_requests_running")...),
		usage(KVCacheUsage, series("kv_cache_usage_perc", "gpu_cache_usage_perc")...),
		latency(TimeToFirstToken, series("time_to_first_token_seconds")...),
		latency(InterTokenLatency, series("inter_token_latency_seconds", "time_per_output_token_seconds")...),
		latency(RequestLatency, series("e2e_request_latency_seconds")...),
		latency(QueueTime, series("request_queue_time_seconds")...),
	}
}

var vllmParts = []string{"instance", "model_name", "engine"}

func vllm() Profile {
	series := func(names ...string) []Series { return prefixed("vllm", names...) }
	return Profile{Engine: "vllm", Port: 8000, Path: "/metrics", Parts: vllmParts, Metrics: vllmMetrics(series)}
}

func sglang() Profile {
	series := func(names ...string) []Series { return prefixed("sglang", names...) }
	return Profile{
		Engine: "sglang", Port: 30000, Path: "/metrics",
		// tp_rank, pp_rank and moe_ep_rank do not identify parts of a pod (see Profile.Parts). All ranks of a parallel group export the queue of
		// the group, so their series are copies. priority does not identify a part either. With priority scheduling, the series with an empty
		// priority is the total of the other series. All these series have the same time, so the greatest value is used, which is the total.
		Parts: []string{"instance", "model_name", "engine_type", "dp_rank"},
		Metrics: []Metric{
			// If prefill and decode run on different servers, a request also waits in a second queue: bootstrap on a prefill server,
			// preallocation on a decode server. The request is in flight while its KV cache is transferred. A server that does both prefill
			// and decode reports 0 for these queues.
			gauge(RequestsWaiting, Sum, plus(series("num_queue_reqs"), series("num_prefill_bootstrap_queue_reqs",
				"num_prefill_prealloc_queue_reqs"), series("num_decode_prealloc_queue_reqs"))...),
			gauge(RequestsRunning, Sum, plus(series("num_running_reqs"), series("num_prefill_inflight_queue_reqs"),
				series("num_decode_transfer_queue_reqs"))...),
			usage(KVCacheUsage, series("token_usage")...),
			latency(TimeToFirstToken, series("time_to_first_token_seconds")...),
			latency(InterTokenLatency, series("inter_token_latency_seconds", "time_per_output_token_seconds")...),
			latency(RequestLatency, series("e2e_request_latency_seconds")...),
			latency(QueueTime, series("queue_time_seconds")...),
		},
	}
}

func triton() Profile {
	const trt = "nv_trt_llm_request_metrics"
	micros := func(name, counter string) Metric {
		return Metric{Name: name, Shape: Quotient, Scale: 1e-6, Busy: []string{RequestsWaiting},
			From: []Series{{Name: counter, Per: "nv_inference_request_success"}}}
	}
	gpu := gauge(GPUUtilization, Average, plain("nv_gpu_utilization")...)
	gpu.Max = fullCache
	return Profile{
		Engine: "triton", Port: 8002, Path: "/metrics",
		Parts: []string{"instance", "model", "version", "gpu_uuid"},
		Metrics: []Metric{
			// The TRT-LLM backend accepts each request at once. While requests wait in the backend, Triton's own count of pending requests is
			// therefore 0. For this reason the counts of the backend are preferred.
			gauge(RequestsWaiting, Sum, labelled(trt, "request_type", "waiting"), Series{Name: "nv_inference_pending_request_count"}),
			gauge(RequestsRunning, Sum, labelled(trt, "request_type", "scheduled")),
			usage(KVCacheUsage, labelled("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "fraction")),
			micros(QueueTime, "nv_inference_queue_duration_us"),
			micros(RequestLatency, "nv_inference_request_duration_us"),
			gpu,
		},
	}
}

// nim returns the profile of NVIDIA NIM. Older images serve the metrics of vLLM without a prefix, and newer images serve them with vLLM's
// prefix.
func nim() Profile {
	series := func(names ...string) []Series { return slices.Concat(plain(names...), prefixed("vllm", names...)) }
	return Profile{Engine: "nim", Port: 8000, Path: "/v1/metrics", Parts: vllmParts, Metrics: vllmMetrics(series)}
}

// ray returns the profile of Ray Serve. It exports the metrics of vLLM with the prefix ray_vllm, and its own metrics. The labels
// SessionName and WorkerId change at each restart. Only WorkerId is used to identify a part, because two workers on one node are two
// engines. If Ray is configured to omit WorkerId, ReplicaId identifies the part.
func ray() Profile {
	series := func(names ...string) []Series { return prefixed("ray_vllm", names...) }
	metrics := append(vllmMetrics(series),
		gauge("queuedQueries", Sum, plain("ray_serve_deployment_queued_queries")...),
		gauge("processingQueries", Sum, plain("ray_serve_replica_processing_queries")...),
	)
	return Profile{
		Engine: "ray", Port: 8080, Path: "/metrics", Metrics: metrics,
		Parts: []string{"instance", "model_name", "engine", "WorkerId", "ReplicaId", "application", "deployment", "replica", "handle",
			"actor_id"},
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

// trtllm returns the profile of trtllm-serve. Its path /metrics returns JSON. The path /prometheus/metrics returns the Prometheus format.
// Dynamo before 0.8 served these metrics with a colon after the prefix, as in trtllm:num_requests_waiting.
func trtllm() Profile {
	series := func(names ...string) []Series { return prefixed("trtllm", names...) }
	return Profile{
		Engine: "trtllm", Port: 8000, Path: "/prometheus/metrics", Parts: []string{"instance", "model_name"},
		Metrics: []Metric{
			gauge(RequestsWaiting, Sum, series("num_requests_waiting")...),
			gauge(RequestsRunning, Sum, series("num_requests_running")...),
			usage(KVCacheUsage, series("kv_cache_utilization")...),
			latency(TimeToFirstToken, series("time_to_first_token_seconds")...),
			latency(InterTokenLatency, series("time_per_output_token_seconds")...),
			latency(RequestLatency, series("e2e_request_latency_seconds")...),
			latency(QueueTime, series("request_queue_time_seconds")...),
		},
	}
}

// dynamo returns the profile of a worker of NVIDIA Dynamo. It reads Dynamo's own metrics, which are the same for every engine. A request is
// in flight from its arrival at the worker, so the requests in the queue of the engine are included. The page of a worker also contains the
// metrics of its engine, which the profile of that engine reads. Dynamo's Kubernetes operator configures its workers to serve this page on
// the port in the field Port.
func dynamo() Profile {
	latency := latency(RequestLatency, plain("dynamo_component_request_duration_seconds")...)
	latency.Busy = []string{RequestsRunning}
	return Profile{
		Engine: "dynamo", Port: 9090, Path: "/metrics", Parts: []string{"instance", "model", "dynamo_component", "dp_rank"},
		Metrics: []Metric{
			// Only the endpoint generate is read. The other endpoints of a worker, such as clear_kv_blocks, do not serve requests of users.
			gauge(RequestsRunning, Sum, labelled("dynamo_component_inflight_requests", "dynamo_endpoint", "generate")),
			usage(KVCacheUsage, plain("dynamo_component_gpu_cache_usage_percent", "dynamo_component_kvstats_gpu_cache_usage_percent")...),
			latency,
		},
	}
}
