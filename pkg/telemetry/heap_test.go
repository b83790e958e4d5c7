package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// writePolicies writes n policies to files, a hundred in each file. Each policy has three signals, a formula and two schedules.
func writePolicies(b testing.TB, n int) string {
	dir := b.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write("platform.yaml", `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  dataSources: [{name: prom, type: prometheus, address: "http://prometheus.invalid", interval: 2m, timeout: 2m}]
  queries: [{name: gateway-queue, query: "sum by (namespace, pool) (queue)", workloadLabel: pool}]
`)
	var text strings.Builder
	holiday := time.Now().AddDate(0, 6, 0).Month() // the schedule without demand is in another month, so it does not limit the targets now
	for i := range n {
		fmt.Fprintf(&text, `---
# Owned by team %[2]d; on call: see the service catalogue.
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata:
  namespace: team-%[2]d
  name: model-%[1]d
spec:
  scaleTargetRef:
    name: model-%[1]d
  cooldownPeriod: 15m
  maxReplicas: 12
  minReplicas: 0
  formula: 'max(gateway.replicas, has(queue.value) ? queue.replicas : 0, gpu.replicas)'
  signals:
    - name: gateway
      target: 10
      queryRef: gateway-queue
      type: prometheus
    - name: queue
      target: 10
      type: vllm
    - name: gpu # shares
      target: 70%%
      type: dcgm
  behavior:
    scaleDown:
      policies:
        - periodSeconds: 60
          type: Pods
          value: 1
      stabilizationWindowSeconds: 600
  schedules:
    - name: working-hours
      minReplicas: 2
      timezone: America/New_York
      start: "30 7 * * 1-5"
      end: "30 19 * * 1-5"
    - name: holiday
      maxReplicas: 0
      timezone: America/New_York
      start: "0 23 1 %[3]d *"
      end: "0 6 2 %[3]d *"
`, i, i%50, holiday)
		if i%100 == 99 || i == n-1 {
			write(fmt.Sprintf("policies-%05d.yaml", i), text.String())
			text.Reset()
		}
	}
	return dir
}

// fivePods lists five ready pods for each workload. It is created before the first measurement, so its memory is not included.
type fivePods map[string][]engine.Pod

func newFivePods(n int) fivePods {
	out := fivePods{}
	for i := range n {
		name := fmt.Sprintf("model-%d", i)
		for j := range 5 {
			out[name] = append(out[name], engine.Pod{Name: fmt.Sprintf("%s-%d", name, j), Ready: true})
		}
	}
	return out
}

func (p fivePods) Pods(w *scaling.Workload) []engine.Pod { return p[w.Target.Name] }

// calm is a cluster in which every workload always has five ready replicas. Each workload has its own UID. calm ignores writes.
type calm map[string]string

func newCalm(n int) calm {
	out := calm{}
	for i := range n {
		out[fmt.Sprintf("model-%d", i)] = fmt.Sprintf("5f0c2b1e-93a7-4c1d-8a52-%012x", i)
	}
	return out
}

func (c calm) View(w *scaling.Workload) (engine.View, bool) {
	return engine.View{UID: c[w.Target.Name], Replicas: 5, Ready: 5, GPUs: 1, MinReplicas: 0, MaxReplicas: 12, Operator: scaling.NoOperator,
		ManagedHPA: engine.ManagedHPA{Kind: "HorizontalPodAutoscaler", Name: w.Target.Name, Desired: 5, Exact: true}}, true
}
func (calm) Apply(context.Context, []engine.Change) error { return nil }

// inMemory is a Transport that passes requests to a handler without a network. A poll therefore takes no time while synctest controls the
// clock.
type inMemory struct{ handler http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

// gauges returns the handler of a Prometheus server with the samples of n workloads: the given number of requests at the gateway of each
// workload, 8 waiting requests in each pod, and 60% utilization of each GPU.
func gauges(n int, atGateway *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		at := float64(time.Now().UnixMilli()) / 1000
		query, sep := r.FormValue("query"), ""
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[`)
		for i := range n {
			if strings.Contains(query, "gpuscaler_part") {
				for part, v := range map[string]float64{"value": float64(atGateway.Load()), "age0": at} {
					fmt.Fprintf(w, `%s{"metric":{"namespace":"team-%d","pool":"model-%d","gpuscaler_part":%q},"value":[%.3f,"%.3f"]}`,
						sep, i%50, i, part, at, v)
					sep = ","
				}
				continue
			}
			name, value, pod := "vllm:num_requests_waiting", "8", "pod"
			if strings.Contains(query, "DCGM") {
				name, value = "DCGM_FI_DEV_GPU_UTIL", "60"
			}
			for j := range 5 {
				fmt.Fprintf(w, `%s{"metric":{"__name__":%q,"namespace":"team-%d",%q:"model-%d-%d"},"value":[%.3f,%q]}`,
					sep, name, i%50, pod, i, j, at, value)
				sep = ","
			}
		}
		fmt.Fprint(w, `]}}`)
	}
}

// live returns the size of the live heap in bytes.
func live() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// heap contains the bytes of live heap per policy that each package uses.
type heap struct{ policies, telemetry, engine float64 }

func (h heap) total() float64 { return h.policies + h.telemetry + h.engine }

// measureHeap loads n policies that share one query template, polls their signals and computes their targets. All targets change twice,
// because with 10,000 policies the history has space for two records of each. The result includes the text of each policy, its two
// schedules and its formula, the readings of its three signals, the values of five pods for one of these signals, and its records in the
// history. It does not include the informer caches of the cluster. If the environment variable HEAP_PROFILE is set, measureHeap writes a
// heap profile to this path.
func measureHeap(tb testing.TB, n int) heap {
	var load atomic.Int64
	dir, pods, cluster, each := writePolicies(tb, n), newFivePods(n), newCalm(n), float64(n)
	start := live()
	p := newPoller(tb, Options{Pods: pods, Transport: inMemory{gauges(n, &load)}})
	policies := store.New(store.Options{Clock: time.Now})
	if r := policies.Load(dir); len(r.Problems) > 0 || len(policies.Current()) != n {
		tb.Fatal(policy.Render(r.Problems))
	}
	loaded := live()
	p.SetPolicies(policies.Compiled(), policies.Platform())
	load.Store(47)
	pollOnce(tb, p)
	pollOnce(tb, p)
	polled := live()
	e := engine.New(policies, p, cluster, engine.Options{})
	for i, target := range []int32{5, 8} {
		load.Store(47 + int64(i)*30)
		pollOnce(tb, p)
		for range 3 {
			time.Sleep(time.Second)
			now := time.Now()
			if out := e.Tick(context.Background(), now); len(out.Errors) != 0 || out.Decided != n {
				tb.Fatalf("%d decided, %v", out.Decided, out.Errors)
			}
		}
		for _, w := range []int{0, n - 1} {
			if r, _ := e.Decisions().Record(policies.Current()[w].Key); r.Decision.Degraded || r.Decision.Replicas != target {
				tb.Fatalf("round %d decided %+v from %+v, want %d replicas", i, r.Decision, r.Readings, target)
			}
		}
	}
	decided := live()
	if out := os.Getenv("HEAP_PROFILE"); out != "" {
		writeHeap(tb, out)
	}
	runtime.KeepAlive(p)
	runtime.KeepAlive(policies)
	runtime.KeepAlive(e)
	runtime.KeepAlive(pods)
	runtime.KeepAlive(cluster)
	return heap{(loaded - start) / each, (polled - loaded) / each, (decided - polled) / each}
}

// The aim is 4 KiB per policy with 10,000 policies, which BenchmarkHeapPerPolicy checks. With the 2,000 policies of this test, a policy
// needs about 100 bytes more.
func TestHeapPerPolicyWithHistory(t *testing.T) {
	const limit = 4224
	var h heap
	synctest.Test(t, func(t *testing.T) { // the clock stops during polls and ticks, so that no sample becomes too old on a slow machine
		measureHeap(t, 50) // allocates the memory that does not depend on the number of policies, before the measurement
		h = measureHeap(t, 2000)
	})
	t.Logf("live heap per policy: policies %.0f, telemetry %.0f, engine %.0f, in total %.0f bytes", h.policies, h.telemetry, h.engine,
		h.total())
	if h.total() > limit {
		t.Errorf("%.0f bytes of live heap per policy, want at most %d", h.total(), limit)
	}
}

func BenchmarkHeapPerPolicy(b *testing.B) {
	for b.Loop() {
		h := measureHeap(b, 10_000)
		b.ReportMetric(h.policies, "policy-B/policy")
		b.ReportMetric(h.telemetry, "telemetry-B/policy")
		b.ReportMetric(h.engine, "engine-B/policy")
		b.ReportMetric(h.total(), "B/policy")
		if h.total() > 4096 {
			b.Errorf("%.0f bytes of live heap per policy, want at most 4 KiB", h.total())
		}
	}
}

func writeHeap(b testing.TB, path string) {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := pprof.WriteHeapProfile(f); err != nil {
		b.Fatal(err)
	}
}
