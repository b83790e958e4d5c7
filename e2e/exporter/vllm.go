package exporter

import (
	"math"
	"slices"
	"strconv"

	"github.com/gpuscaler/gpuscaler/e2e/faults"
)

// vllmPage returns the metrics of the vLLM server (V1 engine) in a pod. ok is false if the pod does not exist or is not ready.
func (e *Exporter) vllmPage(namespace, pod string, f faults.Fault) (page []byte, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.find(namespace, pod)
	if w == nil {
		return nil, false
	}
	v := w.valuesAt(e.now())
	labels := []string{"engine", "0", "model_name", w.Model}

	t := &text{fault: f}
	t.head("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.")
	t.sample("vllm:num_requests_running", v.Running, labels...)
	t.head("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.")
	t.sample("vllm:num_requests_waiting", v.Waiting, labels...)
	t.head("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.")
	t.sample("vllm:kv_cache_usage_perc", v.KVCache, labels...)
	t.head("vllm:request_success_total", "counter", "Count of successfully processed requests.")
	t.sample("vllm:request_success_total", v.Served, append([]string{"finished_reason", "stop"}, labels...)...)

	history := e.histories[namespace+"/"+pod]
	if history == nil {
		history = &histogram{counts: make([]float64, len(ttftBounds)+1), seen: v.Served}
		e.histories[namespace+"/"+pod] = history
	}
	history.observe(v.TTFT, v.Served)
	history.write(t, labels)
	return t.Bytes(), true
}

// find returns the workload of a ready pod, or nil if there is no such pod.
func (e *Exporter) find(namespace, name string) *Workload {
	for _, w := range e.workloads {
		if w.Namespace == namespace && slices.ContainsFunc(w.Pods(), func(p Pod) bool { return p.Ready && p.Name == name }) {
			return w
		}
	}
	return nil
}

// odd reports whether the fault faults.HalfPods hides the metrics of a pod.
func (e *Exporter) odd(namespace, name string) bool {
	for _, w := range e.workloads {
		if w.Namespace != namespace {
			continue
		}
		for _, p := range w.Pods() {
			if p.Name == name {
				return p.odd
			}
		}
	}
	return false
}

// ttftBounds are the bucket bounds of vLLM, in seconds.
var ttftBounds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}

// histogram is vllm:time_to_first_token_seconds of one server.
type histogram struct {
	counts []float64 // counts by bucket, not cumulative; the last bucket is +Inf
	sum    float64
	seen   float64 // number of requests that are included in counts
}

// observe adds the requests that were served since the last call, with the given time to first token. served is the cumulative number of
// requests.
func (h *histogram) observe(seconds, served float64) {
	n := math.Max(0, served-h.seen)
	h.seen = math.Max(h.seen, served)
	i, _ := slices.BinarySearch(ttftBounds, seconds) // the first bound that is not less than seconds
	h.counts[i] += n
	h.sum += n * seconds
}

func (h *histogram) write(t *text, labels []string) {
	const name = "vllm:time_to_first_token_seconds"
	t.head(name, "histogram", "Histogram of time to first token in seconds.")
	total := 0.0
	for i, count := range h.counts {
		bound := "+Inf"
		if i < len(ttftBounds) {
			bound = strconv.FormatFloat(ttftBounds[i], 'g', -1, 64)
		}
		total += count
		t.sample(name+"_bucket", total, append([]string{"le", bound}, labels...)...)
	}
	t.sample(name+"_count", total, labels...)
	t.sample(name+"_sum", h.sum, labels...)
}

// gatewayPage returns the metrics of an inference gateway: for each workload, the number of requests that wait for a replica, and the
// number of requests that have arrived. These metrics also exist at zero replicas.
func (e *Exporter) gatewayPage(f faults.Fault) []byte {
	const queue, arrived = "inference_extension_flow_control_queue_size", "inference_objective_request_total"
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting, total := &text{fault: f}, &text{fault: f}
	waiting.head(queue, "gauge", "Number of requests that wait for dispatch.")
	total.head(arrived, "counter", "Number of requests.")
	for i, w := range e.workloads {
		if f == faults.HalfPods && i%2 == 1 {
			continue
		}
		v, labels := w.valuesAt(e.now()), []string{"inference_pool", w.Name, "namespace", w.Namespace}
		waiting.sample(queue, v.Upstream, labels...)
		total.sample(arrived, v.Arrived, labels...)
	}
	return append(waiting.Bytes(), total.Bytes()...)
}

// number formats v. With the fault NaN or Inf, it returns NaN or +Inf instead of v.
func (t *text) number(v float64) string {
	switch t.fault {
	case faults.NaN:
		return "NaN"
	case faults.Inf:
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'f', 6, 64)
}
