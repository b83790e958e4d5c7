package line

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// An HPA with minReplicas 1 or more reads no metric while its scale target has zero replicas. gpuscaler's activator therefore scales from 0
// to 1 and from 1 to 0.
func TestRedisListActivatesADeploymentAndItReturnsToZero(t *testing.T) {
	t.Parallel()
	ns := suite.Namespace(t, "jobs")
	list := goredis.NewClient(&goredis.Options{Addr: redis})
	defer list.Close()
	s := suite.Workload(t, workload.Deployment(ns, "embed", 0), `
minReplicas: 0
maxReplicas: 8
cooldownPeriod: 3s
activate: true
signals:
- {name: backlog, type: redis, source: jobs, listName: embed-jobs, target: 10}`+promptly)

	push(t, list, "embed-jobs", 37)
	stack.Eventually(t, time.Minute, "four replicas for 37 jobs", s.HasReplicas(4))

	if err := list.Del(t.Context(), "embed-jobs").Err(); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "no replicas for no jobs", s.HasReplicas(0))
	course, err := s.Replicas.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if got := course.Numbers(); !slices.Equal(got, []int32{0, 1, 4, 1, 0}) {
		t.Errorf("the Deployment had %v, want 0, 1 (activator), 4 (HPA), 1 (HPA), 0 (activator)", course)
	}
	for _, reason := range []string{"ActivatedFromZero", "DeactivatedToZero"} {
		stack.Eventually(t, time.Minute, "an Event "+reason, suite.Event(ns, "Deployment", "embed", reason))
	}
}

// On a platform without Prometheus, gpuscaler must read the page /metrics of each replica.
func TestMetricsOfReplicasCanBeScrapedDirectly(t *testing.T) {
	t.Parallel()
	ns, load := suite.Namespace(t, "direct"), &exporter.Total{}
	metrics := workload.Metrics(ns, "chat", load)
	metrics.MetricsPort = enginePort
	suite.Export(t, metrics)
	s := suite.Workload(t, workload.Deployment(ns, "chat", 2), `
maxReplicas: 8
signals:
- {name: queue, type: vllm, source: engines, metric: requestsWaiting, target: 10}`+promptly)
	load.Set(38)
	stack.Eventually(t, time.Minute, "four replicas", s.HasReplicas(4))
	stack.Eventually(t, time.Minute, "all four replicas were scraped", s.Explained(func(e explain.Explanation) error {
		if e.Signals[0].Reported != 4 {
			return fmt.Errorf("%d pods reported", e.Signals[0].Reported)
		}
		return nil
	}))
	load.Set(6)
	stack.Eventually(t, time.Minute, "one replica", s.HasReplicas(1))
}

// As in most clusters, the labels pod and namespace of a series name the exporter, and exported_pod and exported_namespace name the pod of
// the workload.
func TestBusyGPUsAreReadFromPrometheusWithExportedLabels(t *testing.T) {
	t.Parallel()
	ns, load := suite.Namespace(t, "busy"), &exporter.Work{}
	load.Set(3.6)
	suite.Export(t, workload.Metrics(ns, "train", load))
	s := suite.Workload(t, workload.Deployment(ns, "train", 4), `
maxReplicas: 12
signals:
- {name: gpu, type: dcgm, target: 70%}`+promptly)
	stack.Eventually(t, time.Minute, "six replicas for 3.6 GPUs of work at 70%", s.HasReplicas(6))
	load.Set(1.9)
	stack.Eventually(t, time.Minute, "three replicas for 1.9", s.HasReplicas(3))
	stack.Eventually(t, time.Minute, "explain shows the activity of the three replicas", s.Explained(func(e explain.Explanation) error {
		if g := e.Signals[0]; g.Value == nil || math.Abs(*g.Value-1.9/3) > 0.01 || g.Reported != 3 {
			return fmt.Errorf("%+v", g)
		}
		return nil
	}))
}
