package line

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

func TestDefaultToleranceOfAnHPAIsReported(t *testing.T) {
	t.Parallel()
	ns, load := suite.Namespace(t, "lint"), &exporter.Knobs{}
	load.Set(exporter.Values{Upstream: 97})
	suite.Export(t, workload.Metrics(ns, "chat", load))
	s := suite.Workload(t, workload.Deployment(ns, "chat", 10), onGateway)
	hpa := workload.HPA(ns, "chat", 32)
	patch := `{"spec":{"behavior":{"scaleUp":{"tolerance":null},"scaleDown":{"tolerance":null}}}}`
	if err := suite.Stack.Client.Patch(t.Context(), hpa, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "an Event on the HPA", suite.Event(ns, "HorizontalPodAutoscaler", "chat", "HPAMisconfigured"))
	stack.Eventually(t, time.Minute, "explain says that the HPA is not exact, and why", s.Explained(func(e explain.Explanation) error {
		if e.ScaledBy == nil || e.ScaledBy.Exact || !strings.Contains(e.ScaledBy.Why, "tolerance") {
			return fmt.Errorf("it says %+v", e.ScaledBy)
		}
		return nil
	}))
	if n, err := suite.Metric(t.Context(), "gpuscaler_managed_object_exact", "namespace", ns, "name", "chat"); n != 0 || err != nil {
		t.Errorf("gpuscaler_managed_object_exact is %g, %v", n, err)
	}

	stack.Eventually(t, time.Minute, "the target follows the gateway's queue", s.HasTarget(10))
	began := time.Now()
	load.Set(exporter.Values{Upstream: 107})
	stack.Eventually(t, time.Minute, "the target is one replica more", s.HasTarget(11))
	time.Sleep(3 * hpaSync)
	if err := s.Followed(10)(t.Context()); err != nil {
		t.Errorf("11 is within 10%% of 10, which an HPA ignores: %v", err)
	}
	load.Set(exporter.Values{Upstream: 117})
	stack.Eventually(t, time.Minute, "the HPA follows two replicas more", s.Followed(12))
	desired, err := s.HPA.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if course := desired.Since(began); !slices.Equal(course.Numbers(), []int32{10, 12}) {
		t.Errorf("the HPA's replicas were %v, want 10 and then 12", course)
	}
}
