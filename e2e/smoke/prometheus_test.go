package smoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

func TestPrometheusScrapesWhatTheReplicasSayAndForgetsTheOnesThatGo(t *testing.T) {
	ns := namespace(t, "scrape")
	create(t, deployment(ns, "chat", 3))
	stack.Eventually(t, 20*time.Second, "three replicas", replicas(ns, "chat", 3, 3))
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
	stack.Eventually(t, 10*time.Second, "fewer engines answer", func(ctx context.Context) error {
		if n, err := query(ctx, engines); err == nil && n == 3 {
			return errors.New("all three still do")
		}
		return nil
	})
	stack.Eventually(t, 10*time.Second, "NaN", func(ctx context.Context) error {
		if v, err := query(ctx, busy); err != nil || v == v {
			return fmt.Errorf("%v, %v", v, err)
		}
		return nil
	})
	e.VLLM.Set(faults.None)
	e.DCGM.Set(faults.None)
	eventually(t, engines, 3)

	d := deployment(ns, "chat", 1)
	if err := shared.Client.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	eventually(t, engines, 1)
}

func TestAStoppedPrometheusRefusesAFrozenOneHangsAndBothComeBack(t *testing.T) {
	eventually(t, `vector(1)`, 1)
	if err := shared.Prometheus.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := query(t.Context(), `vector(1)`); !errors.Is(err, syscall.ECONNREFUSED) {
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
	if _, err := query(short, `vector(1)`); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("frozen: %v, want no answer", err)
	}
	if err := shared.Prometheus.Thaw(); err != nil {
		t.Fatal(err)
	}
	eventually(t, `vector(1)`, 1)
}

func eventually(t *testing.T, promql string, want float64) {
	t.Helper()
	stack.Eventually(t, 20*time.Second, fmt.Sprintf("%s is %g", promql, want), func(ctx context.Context) error {
		got, err := query(ctx, promql)
		if err == nil && got != want {
			err = fmt.Errorf("it is %g", got)
		}
		return err
	})
}

// query returns the value of a query with one series in its answer.
func query(ctx context.Context, promql string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, shared.Prometheus.URL+"/api/v1/query",
		strings.NewReader(url.Values{"query": {promql}}.Encode()))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if len(answer.Data.Result) != 1 {
		return 0, fmt.Errorf("%d series %s", len(answer.Data.Result), answer.Error)
	}
	var v float64
	_, err = fmt.Sscan(answer.Data.Result[0].Value[1].(string), &v)
	return v, err
}
