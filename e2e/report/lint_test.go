package report

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// policyText contains a PlatformConfig and a policy. A test sets the address of Prometheus and the type of the model server.
const policyText = `
apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: e2e}
spec:
  dataSources: [{name: prom, type: prometheus, default: true, address: "%[2]s", namespaceLabel: namespace}]
---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: chat, namespace: team-chat}
spec:
  scaleTargetRef: {name: chat}
  minReplicas: 1
  maxReplicas: 8
  signals:
  - {name: queue, type: %[1]s, metric: requestsWaiting, target: 10}
  - {name: gpu, type: dcgm, target: 70%%}
`

// The policy refers to a model server without series in Prometheus, the HPA has default values, and a second HPA scales the same workload.
// lint must report these three problems and exit with code 1. After the problems are fixed, it must report nothing.
func TestLintReportsProblemsUntilTheyAreFixed(t *testing.T) {
	eventually(t, `min(count_over_time(vllm:num_requests_waiting{namespace="team-chat"}[1m])) > bool 2`, 1)
	follower := workload.HPA(namespace, "chat", 8)
	exact := follower.Spec.Behavior
	follower.Spec.Behavior, follower.Spec.MaxReplicas = nil, 32
	second := workload.HPA(namespace, "chat", 8)
	second.Name = "by-hand"
	for _, h := range []*autoscalingv2.HorizontalPodAutoscaler{follower, second} {
		if err := shared.Client.Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = shared.Client.Delete(t.Context(), follower) })
	found, code := lint(t, fmt.Sprintf(policyText, "sglang", shared.Prometheus.URL))
	for _, want := range []string{"TwoOwners", "Tolerance", "StabilizationWindow", "MetricMissing"} {
		if !slices.Contains(found, want) {
			t.Errorf("%s is not reported: %v", want, found)
		}
	}
	if code != 1 {
		t.Errorf("exit code %d", code)
	}

	if err := shared.Client.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	follower.Spec.Behavior, follower.Spec.MaxReplicas = exact, 8
	if err := shared.Client.Update(t.Context(), follower); err != nil {
		t.Fatal(err)
	}
	if found, code := lint(t, fmt.Sprintf(policyText, "vllm", shared.Prometheus.URL)); len(found) > 0 || code != 0 {
		t.Errorf("after the fix it still reports %v, exit code %d", found, code)
	}
}

// lint runs `gpuscaler lint` on a policy. It returns the exit code and the names of the checks that found a warning or an error.
func lint(t *testing.T, policy string) (checks []string, code int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "chat.yaml")
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	text, code := gpuscaler(t, "lint", path, "--prometheus", shared.Prometheus.URL, "--kubeconfig", shared.Kubeconfig, "-o", "json")
	var out struct {
		Facts    []struct{ What, Value string }
		Findings []struct{ Severity, Check, About, What string }
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	for _, f := range out.Findings {
		if f.Severity != "info" {
			checks = append(checks, f.Check)
			t.Logf("%s %s %s: %s", f.Severity, f.Check, f.About, f.What)
		}
	}
	if len(out.Facts) < 4 || out.Facts[1].Value != "answered by no service" {
		t.Errorf("facts %+v", out.Facts)
	}
	return checks, code
}

func eventually(t *testing.T, promql string, want float64) {
	t.Helper()
	stack.Eventually(t, time.Minute, promql, func(ctx context.Context) error {
		got, err := shared.Prometheus.Value(ctx, promql)
		if err == nil && got != want {
			err = fmt.Errorf("it is %g", got)
		}
		return err
	})
}
