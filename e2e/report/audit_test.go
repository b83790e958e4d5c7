package report

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/audit"
)

// The Prometheus server has the metrics of vLLM but no metrics of kube-state-metrics. The audit must find the HPA, read the running
// requests, and report that the cost is unknown and which series are missing. An audit of the exported file must print the same report.
func TestAuditOfARealClusterSaysWhatIsMissing(t *testing.T) {
	stack.Eventually(t, 2*time.Minute, "forty seconds of samples of both replicas", func(ctx context.Context) error {
		n, err := shared.Prometheus.Value(ctx, `count(count_over_time(vllm:num_requests_running{namespace="team-chat"}[2m]) >= 40)`)
		if err == nil && n != 2 {
			err = fmt.Errorf("%g replicas have them", n)
		}
		return err
	})
	h := workload.HPA(namespace, "chat", 8)
	h.Name = "audited"
	if err := shared.Client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.Client.Delete(context.Background(), h); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "snapshot.json")
	live, code := gpuscaler(t, "audit", "--prometheus", shared.Prometheus.URL, "--kubeconfig", shared.Kubeconfig, "--since", "1m",
		"--step", "15s", "--gpu-hourly", "2", "--export", file, "-o", "json")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var r struct {
		Workloads []struct {
			Workload string   `json:"workload"`
			Cost     *float64 `json:"costPerMonth"`
		} `json:"workloads"`
		Missing []audit.Gap `json:"missing"`
	}
	if err := json.Unmarshal([]byte(live), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Workloads) != 1 || r.Workloads[0].Workload != "team-chat/chat" || r.Workloads[0].Cost != nil {
		t.Fatalf("workloads %+v", r.Workloads)
	}
	if !strings.Contains(live, "kube_pod_container_resource_requests") {
		t.Errorf("the report does not name the missing series: %+v", r.Missing)
	}
	if offline, code := gpuscaler(t, "audit", "--offline", file, "-o", "json"); code != 0 || offline != live {
		t.Errorf("exit code %d: the report of the exported file differs:\n%.2000s", code, offline)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := audit.ReadSnapshot(file, f)
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Workloads[0]; w.GPUs != 1 || len(w.Running) != s.Steps || w.Running[s.Steps-1] != 4 {
		t.Errorf("two replicas with two requests each: %d GPUs per replica, running %v", w.GPUs, w.Running)
	}
}
