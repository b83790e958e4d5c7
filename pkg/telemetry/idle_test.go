package telemetry

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// A pod is idle if every signal that is measured per pod is exactly 0 for it in a fresh reading. A pod with a missing, stale or small
// positive value is not idle.
func TestPodIsIdleWhereEverySignalIsZeroAndFresh(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-5 * time.Second).Truncate(time.Second)
	for pod, v := range map[string][2]float64{"busy": {3, 0.9}, "idle": {0, 0}, "cached": {0, 0.4}, "waits": {1, 0}} {
		server.put(fmt.Sprintf(`{__name__="vllm:num_requests_running",namespace="chat",pod=%q}`, pod), at, v[0])
		server.put(fmt.Sprintf(`{__name__="vllm:kv_cache_usage_perc",namespace="chat",pod=%q}`, pod), at, v[1])
	}
	server.put(`{__name__="vllm:num_requests_running",namespace="chat",pod="half"}`, at, 0)
	c := compiled("chat", "llama",
		policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsRunning"},
		policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "kvCacheUsage"})
	c.Workload.Policy.Signals[1].Kind = scaling.Mean
	c.Workload.Group = "gpu"
	p := newPoller(t, Options{Pods: testPods{c.Workload.Key: readyPods("busy", "idle", "cached", "waits", "half", "silent")}})
	p.SetPolicies([]*policy.Compiled{c}, platformOf(promSource(server.URL)))
	if p.Idle(&c.Workload, "idle", at) {
		t.Error("idle before anything was read")
	}
	pollOnce(t, p)
	for _, pod := range []string{"busy", "idle", "cached", "waits", "half", "silent", "unknown"} {
		if got := p.Idle(&c.Workload, pod, at.Add(time.Minute)); got != (pod == "idle") {
			t.Errorf("%s is idle: %t", pod, got)
		}
	}
	if p.Idle(&c.Workload, "idle", at.Add(3*time.Minute)) {
		t.Error("idle by a reading of three minutes ago, which is stale after two")
	}
	alone := c.Workload
	alone.Group = ""
	c.Workload.Group = ""
	p = newPoller(t, Options{Pods: testPods{c.Workload.Key: readyPods("idle")}})
	p.SetPolicies([]*policy.Compiled{c}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if p.Idle(&alone, "idle", at) {
		t.Error("idle pods are recorded for a workload without a capacity group")
	}
}
