package smoke

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

func TestPrometheusScrapesReplicasAndDropsDeletedOnes(t *testing.T) {
	ns := namespace(t, "scrape")
	create(t, workload.Deployment(ns, "chat", 3))
	stack.Eventually(t, time.Minute, "three replicas", replicas(ns, "chat", 3, 3))
	load := &exporter.Knobs{}
	load.Set(exporter.Values{Waiting: 7, Running: 4, GPUBusy: 0.5, KVCache: 0.25})
	e, err := exporter.Run(t.Context(), shared, &exporter.Workload{
		Namespace: ns, Name: "chat", Selector: map[string]string{"app": "chat"},
		Container: "vllm", Model: "llama", GPUs: 1, MetricsPort: 8000, Load: load,
	})
	if err != nil {
		t.Fatal(err)
	}

	waiting := `sum(vllm:num_requests_waiting{namespace="scrape"})`
	engines := `count(vllm:num_requests_waiting{namespace="scrape"})`
	busy := `avg(DCGM_FI_DEV_GPU_UTIL{namespace="gpu-operator",exported_namespace="scrape",exported_pod=~"chat-.+"})`
	eventually(t, waiting, 21)
	eventually(t, busy, 50)

	e.VLLM.Set(faults.HalfPods)
	e.DCGM.Set(faults.NaN)
	stack.Eventually(t, time.Minute, "fewer engines are scraped", func(ctx context.Context) error {
		if n, err := shared.Prometheus.Value(ctx, engines); err == nil && n == 3 {
			return errors.New("all three are still scraped")
		}
		return nil
	})
	stack.Eventually(t, time.Minute, "NaN", func(ctx context.Context) error {
		if v, err := shared.Prometheus.Value(ctx, busy); err != nil || v == v {
			return fmt.Errorf("%v, %v", v, err)
		}
		return nil
	})
	e.VLLM.Set(faults.None)
	e.DCGM.Set(faults.None)
	eventually(t, engines, 3)

	d := workload.Deployment(ns, "chat", 1)
	if err := shared.Client.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	eventually(t, engines, 1)
}

func TestPrometheusCanBeStoppedFrozenAndResumed(t *testing.T) {
	eventually(t, `vector(1)`, 1)
	if err := shared.Prometheus.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Prometheus.Value(t.Context(), `vector(1)`); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("stopped: %v, want connection refused", err)
	}
	if err := shared.Prometheus.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, `vector(1)`, 1)

	if err := shared.Prometheus.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := shared.Prometheus.Value(short, `vector(1)`); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("frozen: %v, want no response", err)
	}
	if err := shared.Prometheus.Thaw(); err != nil {
		t.Fatal(err)
	}
	eventually(t, `vector(1)`, 1)
}

func eventually(t *testing.T, promql string, want float64) {
	t.Helper()
	stack.Eventually(t, time.Minute, fmt.Sprintf("%s is %g", promql, want), func(ctx context.Context) error {
		got, err := shared.Prometheus.Value(ctx, promql)
		if err == nil && got != want {
			err = fmt.Errorf("it is %g", got)
		}
		return err
	})
}
