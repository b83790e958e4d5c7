package install

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuscaler/gpuscaler/e2e/kubelet"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// The chart's resource requests must be sufficient for a large cluster: a thousand workloads with one pod each. gpuscaler computes their
// targets every second from a queue length in Prometheus. config/guides/operation.md lists the measured values.
func TestResourceRequestsAreEnoughForAThousandWorkloads(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_COST") == "" {
		t.Skip("set GPUSCALER_E2E_COST=1: a thousand Deployments take two minutes")
	}
	const workloads = 1000
	h := newHelm(t, restricted(t, "gpuscaler-cost"))
	machine := newHost(t, h.namespace)
	h.edit = edits(machine.edit)
	pods := kubelet.Run(t.Context(), cluster)
	defer dump(t, pods, h.namespace)
	many(t, workloads)

	var policies strings.Builder
	for i := range workloads {
		fmt.Fprintf(&policies, "apiVersion: gpuscaler.io/v1alpha1\nkind: ScalingPolicy\nmetadata: {name: w%d, namespace: many}\nspec:\n"+
			"  scaleTargetRef: {name: w%[1]d}\n  minReplicas: 1\n  maxReplicas: 9\n  signals:\n  - {name: q, type: prometheus, queryRef: queue, "+
			"target: 10}\n---\n", i)
	}
	values := map[string]any{"mode": "hpa", "files": map[string]any{"many.yaml": policies.String()}, "platform": map[string]any{
		"dataSources": []any{map[string]any{"name": "prom", "type": "prometheus", "default": true, "address": cluster.Prometheus.URL}},
		"queries":     []any{map[string]any{"name": "queue", "query": "many_queue", "workloadLabel": "workload"}},
	}}
	h.install("gpuscaler", values)
	machine.mount(t, h.namespace)
	defer h.uninstall("gpuscaler", false)
	stack.Eventually(t, 2*time.Minute, "two replicas", available(h.namespace, 2))
	time.Sleep(30 * time.Second) // the caches are synced, the first ticks run, and a garbage collection follows
	before := costs(t, h.namespace)
	time.Sleep(30 * time.Second)
	for pod, after := range costs(t, h.namespace) {
		cpu := (after.cpu - before[pod].cpu) / 30
		t.Logf("%s: leader %v, %.0f MiB, %.0f millicores, %.0f policies decided", pod, after.leads, after.memory/(1<<20), cpu*1000, after.decided)
		if after.leads && after.decided != workloads {
			t.Errorf("%.0f of %d policies are decided", after.decided, workloads)
		}
		for what, ask := range map[string]struct{ used, have float64 }{
			"memory": {after.memory, request(t, h, "memory")}, "cpu": {cpu, request(t, h, "cpu")},
		} {
			if ask.used > ask.have {
				t.Errorf("%s: %.3g of %s, the chart requests %.3g", pod, ask.used, what, ask.have)
			}
		}
	}
}

// many creates n Deployments with one pod each, and serves a queue length for each.
func many(t *testing.T, n int) {
	t.Helper()
	if err := cluster.Namespace(t.Context(), "many"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Nodes(t.Context(), "many", n/100+1, 200); err != nil {
		t.Fatal(err)
	}
	var all errgroup.Group
	all.SetLimit(20)
	for i := range n {
		all.Go(func() error {
			return cluster.Client.Create(t.Context(), workload.Deployment("many", fmt.Sprint("w", i), 1))
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	queues := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range n {
			fmt.Fprintf(w, "many_queue{namespace=\"many\",workload=\"w%d\"} %d\n", i, i%10)
		}
	}))
	t.Cleanup(queues.Close)
	if err := cluster.Prometheus.Targets("many", stack.ScrapeTarget{Address: strings.TrimPrefix(queues.URL, "http://")}); err != nil {
		t.Fatal(err)
	}
}

type cost struct {
	memory, cpu, decided float64
	leads                bool
}

func costs(t *testing.T, namespace string) map[string]cost {
	t.Helper()
	out := map[string]cost{}
	for _, p := range podsOf(t, namespace) {
		families, err := metricsOf(p.Status.PodIP)
		if err != nil {
			t.Fatal(err)
		}
		out[p.Name] = cost{
			memory:  families["process_resident_memory_bytes"].GetMetric()[0].GetGauge().GetValue(),
			cpu:     families["process_cpu_seconds_total"].GetMetric()[0].GetCounter().GetValue(),
			decided: float64(len(families["gpuscaler_target_replicas"].GetMetric())),
			leads:   families["gpuscaler_leader"].GetMetric()[0].GetGauge().GetValue() == 1,
		}
	}
	return out
}

// metricsOf reads the metrics of a pod of gpuscaler.
func metricsOf(address string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address+":8080/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// metricOf returns the value of the only metric with that name.
func metricOf(address, name string) (float64, error) {
	families, err := metricsOf(address)
	if err != nil {
		return 0, err
	}
	if n := len(families[name].GetMetric()); n != 1 {
		return 0, fmt.Errorf("%d metrics %s", n, name)
	}
	return families[name].GetMetric()[0].GetGauge().GetValue(), nil
}

func request(t *testing.T, h *helm, name string) float64 {
	t.Helper()
	requests := h.chart.Values["resources"].(map[string]any)["requests"].(map[string]any)
	q, err := resource.ParseQuantity(fmt.Sprint(requests[name]))
	if err != nil {
		t.Fatal(err)
	}
	return q.AsApproximateFloat64()
}
