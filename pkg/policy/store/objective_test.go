package store_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

const objectivePlatform = `
apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  dataSources:
  - {name: prom, type: prometheus, default: true, address: "https://prom:9090"}
  - {name: redis, type: redis, address: "redis:6379"}
  queries:
  - {name: requests, query: "sum by (namespace, pool) (increase(gateway_requests_total[1m]))", workloadLabel: pool}
  - {name: finished, query: "sum by (namespace, pool) (rate(vllm:request_success_total[1m]))", workloadLabel: pool}
  - {name: depth, query: "sum by (namespace, pool) (gateway_queue)", workloadLabel: pool}
  defaults:
    cooldownPeriod: 15m
    behavior: {scaleDown: {stabilizationWindowSeconds: 600}}
`

func objectivePolicy(t *testing.T, spec string) (*policy.Compiled, string) {
	t.Helper()
	s := store.New(store.Options{})
	report := s.LoadFS(fstest.MapFS{"platform.yaml": {Data: []byte(objectivePlatform)}, "policy.yaml": {Data: []byte(`
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: llama, namespace: team-chat}
spec:
  scaleTargetRef: {name: llama}
  maxReplicas: 12
` + spec)}})
	all := s.Compiled()
	if len(all) == 0 {
		return nil, policy.Render(report.Problems)
	}
	return all[0], policy.Render(report.Problems)
}

// The quantity that a signal measures for an objective must follow from its type, metric and query, or from the field measures.
func TestWhatEachSignalIsEvidenceOf(t *testing.T) {
	for _, c := range []struct{ objective, signal, want string }{
		{"wait: 10s", "type: prometheus, queryRef: requests", "arrivals 60"},
		{"wait: 10s", "type: prometheus, queryRef: finished", "served 1"},
		{"wait: 10s", "type: prometheus, queryRef: depth, measures: queued", "queued 0"},
		{"wait: 10s", "type: prometheus, metric: gateway_requests_total, rate: 2m", "arrivals 1"},
		{"wait: 10s", "type: prometheus, metric: gpu_busy, measures: busy", "busy 0"},
		{"wait: 10s", "type: external, metric: sqs, measures: inFlight", "inFlight 0"},
		{"wait: 10s", "type: redis, listName: jobs", "queued 0"},
		{"wait: 10s", "type: kueue, localQueue: jobs", "queued 0"},
		{"wait: 10s", "type: vllm", "queued 0"},
		{"wait: 10s", "type: vllm, metric: requestsRunning", "inFlight 0"},
		{"wait: 10s", "type: vllm, metric: queueTime", "latency 0 q=0.99"},
		{"timeToFirstToken: 500ms, percentile: 95", "type: vllm, metric: timeToFirstToken", "latency 0 q=0.95"},
		{"interTokenLatency: 50ms", "type: sglang, metric: interTokenLatency, quantile: 0.99", "latency 0 q=0.99"},
		{"wait: 10s", "type: vllm, metric: timeToFirstToken, target: 500ms", " 0"},
		{"wait: 10s", "type: dcgm", "busy 0"},
		{"wait: 10s", "type: triton, metric: gpuUtilization", "busy 0"},
		{"wait: 10s", "type: ray, metric: processingQueries", "inFlight 0"},
		{"wait: 10s", "type: vllm, metric: kvCacheUsage, target: 80%", " 0"},
	} {
		compiled, problems := objectivePolicy(t, "  objective: {"+c.objective+"}\n  signals:\n  - {name: a, "+c.signal+
			"}\n  - {name: load, type: redis, listName: other}\n")
		if compiled == nil {
			t.Errorf("%s: %s", c.signal, problems)
			continue
		}
		s, source := compiled.Workload.Policy.Signals[0], compiled.Sources[0]
		got := fmt.Sprintf("%s %g", s.Measures, s.PerSecond)
		if s.Measures == scaling.MeasureLatency {
			got += fmt.Sprintf(" q=%g", source.Quantile)
		}
		if got != c.want {
			t.Errorf("%s is %q, want %q", c.signal, got, c.want)
		}
	}
}

// A policy whose only evidence of load is inFlight must be accepted with a warning. In a replay, the target of such a policy stayed at one
// replica while requests waited.
func TestAnObjectiveWithOnlyInFlightHasAWarning(t *testing.T) {
	const running, waiting = "{name: running, type: vllm, metric: requestsRunning}", "{name: waiting, type: vllm}"
	const warning = "policy.yaml:9:12: warning: spec.signals: measures only inFlight for the objective, so the target does not increase when"
	for signals, want := range map[string]bool{running: true, running + ", " + waiting: false, waiting: false} {
		compiled, problems := objectivePolicy(t, "  objective: {wait: 10s}\n  signals: ["+signals+"]\n")
		if compiled == nil || strings.HasPrefix(problems, warning) != want || !want && problems != "" {
			t.Errorf("%s: %q", signals, problems)
		}
	}
}

// A policy with an objective has no windows, tolerances, rates and cooldown, unless the policy itself sets them. The defaults apply only to
// policies with explicit targets.
func TestAnObjectiveHasNoDefaultWindows(t *testing.T) {
	const signals = "  signals: [{name: jobs, type: redis, listName: jobs}]\n"
	compiled, problems := objectivePolicy(t, "  objective: {deadline: 30m}\n"+signals)
	if compiled == nil {
		t.Fatal(problems)
	}
	p := compiled.Workload.Policy
	want := objective.Objective{Kind: objective.Deadline, Limit: 30 * time.Minute, Percentile: 99}
	if *p.Objective != want {
		t.Errorf("%+v, want %+v", *p.Objective, want)
	}
	if p.CooldownPeriod != 0 || p.ScaleDown.StabilizationWindow != 0 || p.ScaleDown.Tolerance != 0 || p.ScaleUp.Rates != nil {
		t.Errorf("cooldown %v, up %+v, down %+v", p.CooldownPeriod, p.ScaleUp, p.ScaleDown)
	}
	compiled, problems = objectivePolicy(t, "  objective: {wait: 10s, percentile: 99.9, capacityPerReplica: 1.5, coldStart: 2m}\n"+
		"  cooldownPeriod: 5m\n  behavior: {scaleDown: {stabilizationWindowSeconds: 60}}\n"+signals)
	if compiled == nil {
		t.Fatal(problems)
	}
	p = compiled.Workload.Policy
	want = objective.Objective{Limit: 10 * time.Second, Percentile: 99.9, Capacity: 1.5, ColdStart: 2 * time.Minute}
	if *p.Objective != want || p.CooldownPeriod != 5*time.Minute || p.ScaleDown.StabilizationWindow != time.Minute {
		t.Errorf("%+v with cooldown %v, down %+v", *p.Objective, p.CooldownPeriod, p.ScaleDown)
	}
}

// The annotation with the objective and a queue without a target must be sufficient for a policy, on an HPA and on a ScaledObject.
func TestAnObjectiveInAnnotations(t *testing.T) {
	for _, kind := range []string{"HorizontalPodAutoscaler", "ScaledObject"} {
		s := store.New(store.Options{})
		s.LoadFS(fstest.MapFS{"platform.yaml": {Data: []byte(objectivePlatform)}})
		problems := s.SetObject(store.Object{Kind: kind, Namespace: "team-chat", Name: "llama", MinReplicas: 1, MaxReplicas: 12,
			Target:      scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama"},
			Annotations: map[string]string{"gpuscaler.io/objective": "wait=10s percentile=99", "gpuscaler.io/queue-source": "depth"}})
		s.Publish()
		all := s.Compiled()
		if len(all) != 1 || all[0].Workload.Policy.Objective == nil || all[0].Workload.Policy.Signals[0].Measures != scaling.MeasureQueued {
			t.Errorf("%s: %s", kind, policy.Render(problems))
		}
		problems = s.SetObject(store.Object{Kind: kind, Namespace: "team-chat", Name: "llama", MinReplicas: 1, MaxReplicas: 12,
			Target:      scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama"},
			Annotations: map[string]string{"gpuscaler.io/objective": "wait=3h", "gpuscaler.io/queue-source": "depth"}})
		if text := policy.Render(problems); !strings.Contains(text, `is out of range; found "wait=3h"; allowed: 100ms to 1h`) {
			t.Errorf("%s: %s", kind, text)
		}
	}
}
