package line

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

func TestQueueScalesADeploymentFromOneToFiveToTwo(t *testing.T) {
	t.Parallel()
	ns, load := suite.Namespace(t, "queue"), &exporter.Total{}
	suite.Export(t, workload.Metrics(ns, "chat", load))
	s := suite.Workload(t, workload.Deployment(ns, "chat", 1), `
maxReplicas: 24
signals:
- {name: queue, type: vllm, metric: requestsWaiting, target: 10}`+promptly)

	load.Set(47) // the policy requests one replica for every ten waiting requests
	stack.Eventually(t, time.Minute, "five replicas", s.HasReplicas(5))
	stack.Eventually(t, time.Minute, "explain names the cause and reports that the HPA follows exactly",
		s.Explained(func(e explain.Explanation) error {
			recommends, f := e.Signals[0].Recommends, e.ScaledBy
			if e.Target != 5 || e.Degraded || recommends == nil || *recommends != 5 || f == nil || f.Kind != "HorizontalPodAutoscaler" || !f.Exact {
				return fmt.Errorf("explanation %+v, HPA %+v", e, f)
			}
			return nil
		}))

	load.Set(15)
	stack.Eventually(t, time.Minute, "two replicas", s.HasReplicas(2))
	stack.Eventually(t, time.Minute, "explain names the cause", func(ctx context.Context) error {
		text, err := suite.CLI(ctx, "explain", s.Policy(), "--server", suite.PageURL())
		for _, part := range []string{s.Policy() + "  ", " -> 2", "2 replicas: queue 15 needs 2 replicas",
			"HPA      chat desires 2: follows exactly"} {
			if err == nil && !strings.Contains(text, part) {
				err = fmt.Errorf("no %q in\n%s", part, text)
			}
		}
		return err
	})
}

// A team that cannot edit the policy files writes its policy into an annotation of its own HPA. The HPA already defines the scale target
// and the maximum number of replicas.
func TestHPAHasItsPolicyInAnAnnotation(t *testing.T) {
	t.Parallel()
	ns, load := suite.Namespace(t, "annotated"), &exporter.Total{}
	load.Set(38)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	hpa := workload.HPA(ns, "chat", 6)
	hpa.Annotations = map[string]string{"gpuscaler.io/spec": `
signals:
- {name: queue, type: vllm, metric: requestsWaiting, target: 10}` + promptly}
	workload.Create(t, suite.Stack.Client, workload.Deployment(ns, "chat", 1), hpa)
	has := func(n int32) func(context.Context) error {
		return workload.HasReplicas(suite.Stack.Client, ns, "chat", n)
	}
	stack.Eventually(t, time.Minute, "four replicas", has(4))
	load.Set(99)
	stack.Eventually(t, time.Minute, "six replicas, maxReplicas of the HPA", has(6))

	patch := `{"metadata":{"annotations":{"gpuscaler.io/spec":null}}}`
	if err := suite.Stack.Client.Patch(t.Context(), hpa, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the policy ends with the annotation", func(ctx context.Context) error {
		if n, err := suite.ServedTarget(ctx, ns, "chat"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%d is served, %v", n, err)
		}
		return nil
	})
	load.Set(5)
	stack.Always(t, 3*hpaSync, "the replicas do not change", has(6))
}
