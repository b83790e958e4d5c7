package line

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// A pod of another tenant exports series that report 0% activity for GPUs of a busy workload's pods, and Prometheus scrapes these series.
// The target of the busy workload must not change.
func TestPodOfAnotherTenantCannotChangeAWorkloadsGPUs(t *testing.T) {
	t.Parallel()
	ns, load := suite.Namespace(t, "attacked"), &exporter.Work{}
	load.Set(1.9)
	suite.Export(t, workload.Metrics(ns, "train", load))
	s := suite.Workload(t, workload.Deployment(ns, "train", 3), `
maxReplicas: 12
signals:
- {name: gpu, type: dcgm, target: 70%}`+promptly)
	stack.Eventually(t, time.Minute, "three replicas for 1.9 GPUs of work at 70%", s.HasTarget(3))

	var pods corev1.PodList
	if err := suite.Stack.Client.List(t.Context(), &pods, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	page := ""
	for _, p := range pods.Items {
		page += fmt.Sprintf("DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID=%q,gpu=\"7\",namespace=%q,pod=%q} 0\n", "GPU-of-"+p.Name, ns, p.Name)
	}
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprint(w, page)
	}))
	defer evil.Close()
	target := stack.ScrapeTarget{Address: strings.TrimPrefix(evil.URL, "http://"),
		Labels: map[string]string{"job": "evil", "namespace": "evil", "pod": "evil-0"}}
	if err := suite.Stack.Prometheus.Targets("evil", target); err != nil {
		t.Fatal(err)
	}
	defer suite.Stack.Prometheus.Targets("evil") //nolint:errcheck // the stack ends with the test
	stack.Eventually(t, time.Minute, "Prometheus stores the claims", func(ctx context.Context) error {
		n, err := suite.Stack.Prometheus.Value(ctx, fmt.Sprintf(`count(DCGM_FI_PROF_GR_ENGINE_ACTIVE{namespace="evil",exported_namespace=%q})`,
			ns))
		if err == nil && n < 3 {
			err = fmt.Errorf("%g claims", n)
		}
		return err
	})
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		if err := s.HasTarget(3)(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
