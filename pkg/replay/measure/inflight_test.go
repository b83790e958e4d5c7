package measure

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// A metric of requests in flight includes the running requests. The simulator must not replay such a metric as
// the length of a queue: that length is 0 while any replica has a free slot, so the policy does not scale up.
func TestRequestsInFlightAreNotAQueue(t *testing.T) {
	for text, want := range map[string]Measure{
		"sum(envoy_cluster_upstream_rq_active{pool=\"chat\"})":            InSystem,
		"sum(http_requests_in_flight)":                                    InSystem,
		"sum(gateway_inflight_requests)":                                  InSystem,
		"sum(istio_concurrent_requests)":                                  InSystem,
		"sum(vllm:num_requests_running)":                                  Running,
		"sum(sglang:num_running_reqs)":                                    Running,
		"sum(tgi_batch_current_size)":                                     Running,
		"sum(vllm:num_requests_running) + sum(vllm:num_requests_waiting)": InSystem,
		"sum(vllm:num_requests_waiting)":                                  Queue,
		"sum(queue_depth{queue=\"active-users\"})":                        Queue,
		"sum(inference_extension_flow_control_queue_size)":                Queue,
	} {
		if got, why := measureOf(&policy.Source{Type: policy.SourcePrometheus, Query: text}, false); got != want {
			t.Errorf("%s measures %s (%s), want %s", text, got, why, want)
		}
	}
	external := policy.Source{Type: policy.SourceExternal, Metric: "requests-in-flight"}
	if got, why := measureOf(&external, false); got != InSystem {
		t.Errorf("an external metric measures %s (%s)", got, why)
	}
}
